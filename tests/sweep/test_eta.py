"""The estimate: what is counted, whose pace it is, and how it is corrected on the way."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from specswitch.results.manifest import RunRequest
from specswitch.results.store import open_store
from specswitch.sweep import grid
from specswitch.sweep.eta import ASSUMED, Ahead, Pace, ahead, measured_pace, telling_time_left
from specswitch.sweep.progress import Progress, in_words
from sweep.support import small

ARMS = ["none", "always-v2", "dynamic-v2-t4", "dynamic-v2-t8"]


def asked(**other):
    """Eight points a repeat (of 0.2 s load each) on three servers."""
    return small(arms=ARMS, repeats=2, **other)


def stored_run(folder: Path, done_s: list[float], ready_s: list[float], resumed_s: tuple[float, ...] = ()):
    """A run folder whose first points were finished, and whose servers were ready, so long after its begin."""
    plan = asked().plan()
    points = grid.points(plan)
    with open_store(folder, RunRequest(plan, points)) as store:
        for point in points[: len(done_s)]:
            store.write_point(point.point_id, {}, store.write_raw(point.point_id, [], []))
    begun = 1.8e9
    for point, at in zip(points, done_s, strict=False):
        os.utime(folder / "points" / point.point_id / "point.json", (begun + at, begun + at))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["started_at"] = stamp(begun)
    manifest["servers"] = [{"launched_at": stamp(begun + s)} for s in ready_s]
    manifest["resumed"] = [{"at": stamp(begun + s)} for s in resumed_s]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return points


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def test_a_new_run_is_estimated_from_stated_assumptions(tmp_path: Path) -> None:
    left = ahead(grid.points(asked().plan()), tmp_path, one_server=False)
    assert (left.points, left.starts, left.pace) == (16, 3, ASSUMED["cpu"])
    assert left.total_s == pytest.approx(16 * (0.2 + 2) + 3 * 30)
    assert left.text() == "About 2 min: 16 points of 2.2 s and 3 server starts of 30 s (assumed)"


def test_one_server_at_a_time_is_started_again_in_every_repeat(tmp_path: Path) -> None:
    points = grid.points(asked().plan(), "one")
    assert ahead(points, tmp_path, one_server=True).starts == 6


def test_a_resumed_run_counts_what_is_missing_at_the_pace_it_had(tmp_path: Path) -> None:
    # Ready after 20 s; then a point a second, and another server in 12 s.
    points = stored_run(tmp_path, [21, 34, 35, 36, 37, 38], [20, 33])
    left = ahead(points, tmp_path, one_server=False)
    assert (left.points, left.pace.measured) == (10, True)
    assert left.point_s == pytest.approx(1.0)
    assert left.pace.start_s == pytest.approx((20 + 12) / 2)
    assert "(measured in this run)" in left.text()


def test_a_pause_between_two_sittings_is_no_pace(tmp_path: Path) -> None:
    points = stored_run(tmp_path, [21, 22, 23, 24, 90000, 90001], [20, 89999], resumed_s=(89900,))
    pace = measured_pace(tmp_path, points)
    assert pace is not None
    assert pace.extra_s == pytest.approx(0.8)
    assert pace.start_s == pytest.approx(20)


@pytest.mark.parametrize("done_s", [[1, 1.001, 1.002, 1.003, 1.004], [1, 2], []])
def test_a_copied_or_a_nearly_empty_folder_has_no_pace(tmp_path: Path, done_s: list[float]) -> None:
    points = stored_run(tmp_path, done_s, [0.5])
    assert measured_pace(tmp_path, points) is None
    assert ahead(points, tmp_path, one_server=False).pace == ASSUMED["cpu"]


def test_a_finished_run_has_nothing_ahead(tmp_path: Path) -> None:
    points = stored_run(tmp_path, [float(s) for s in range(1, 17)], [0.5])
    left = ahead(points, tmp_path, one_server=False)
    assert (left.points, left.starts, left.total_s) == (0, 0, 0)
    assert left.text() == "Nothing is left to measure"


def told(events: list[tuple[float, str, int]], left: Ahead, total: int = 4) -> list[float]:
    """Seconds left after each event (time, kind, points done)."""
    now, seen = [0.0], []
    tell = telling_time_left(lambda p: seen.append(p.left_s), left, lambda: now[0])
    for at, kind, done in events:
        now[0] = at
        tell(Progress(kind, done, total, "x"))
    return seen


LEFT = Ahead(points=4, load_s=2.0, starts=2, pace=Pace(start_s=30.0, extra_s=1.0))


def test_progress_in_the_process_measures_starts_and_points_apart() -> None:
    events = [(0, "server", 0), (10, "point", 0), (16, "done", 1), (16, "server", 1), (26, "point", 1)]
    seen = told([*events, (32, "done", 2)], LEFT)
    assert seen[0] == 4 * 3 + 2 * 30
    assert seen[1] == 4 * 3 + 1 * 10  # one start to go, at the 10 s of the first
    assert seen[2] == 3 * 6 + 1 * 10  # points take 6 s, not the 3 of the assumption
    assert seen[-1] == 2 * 6


def test_progress_from_outside_sees_start_and_point_as_one() -> None:
    seen = told([(0, "server", 0), (23, "done", 1), (27, "done", 2)], LEFT)
    assert seen[1] == 3 * 3 + 1 * 20  # 23 s less the 3 of a point
    assert seen[2] == 2 * 4 + 1 * 20


def test_a_server_that_has_to_be_started_again_leaves_no_negative_time() -> None:
    seen = told([(float(s), "server", 0) for s in range(6)] + [(6.0, "done", 4)], LEFT)
    assert min(seen) >= 0
    assert seen[-1] == 0


def test_a_line_says_how_long_and_the_last_one_does_not() -> None:
    row = {"output_tok_s": 1234.0}
    line = Progress("done", 3, 72, "none-c1", row, left_s=372.0).line()
    assert line == "[ 3/72] none-c1: 1,234 tokens/s, about 6 min left"
    assert Progress("done", 72, 72, "none-c1", row, left_s=0.0).line().endswith("tokens/s")
    assert Progress("server", 0, 2, "none").line() == "[0/2] none: starting this server"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "5 s"), (42, "40 s"), (58, "1 min"), (372, "6 min"), (5399, "90 min"), (9000, "2.5 h")],
)
def test_times_are_told_roughly(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
