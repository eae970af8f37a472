"""Progress seen from outside, in the run folder."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

from specswitch.sweep.eta import Ahead, Pace
from specswitch.sweep.follow import POLL_S, follow

LEFT = Ahead(points=2, load_s=1.0, starts=2, pace=Pace(start_s=30.0, extra_s=1.0))


def finish(folder: Path, name: str) -> None:
    """A finished point, as far as a watcher looks."""
    (folder / "points" / name).mkdir(parents=True)
    (folder / "points" / name / "point.json").write_text(json.dumps({"output_tok_s": 12.0}), encoding="utf-8")


def start(folder: Path, name: str) -> None:
    (folder / "servers").mkdir(parents=True, exist_ok=True)
    (folder / "servers" / f"{name}.log").touch()


def test_a_point_and_the_next_server_seen_in_one_look_are_told_in_their_order(tmp_path: Path) -> None:
    stream = io.StringIO()
    with follow(tmp_path, 2, stream, LEFT):
        start(tmp_path, "none")
        time.sleep(3 * POLL_S)
        finish(tmp_path, "none-c1")
        start(tmp_path, "always-v2")
    first, done, second = stream.getvalue().splitlines()
    assert first.startswith("[0/2] none: starting this server, about 1 min left")
    assert done.startswith("[1/2] none-c1: 12 tokens/s, about ")
    assert second.startswith("[1/2] always-v2: starting this server, about ")


def test_what_was_there_before_is_not_told(tmp_path: Path) -> None:
    start(tmp_path, "none")
    finish(tmp_path, "none-c1")
    stream = io.StringIO()
    with follow(tmp_path, 2, stream, LEFT):
        finish(tmp_path, "none-c2")
    (line,) = stream.getvalue().splitlines()
    assert line == "[2/2] none-c2: 12 tokens/s"
