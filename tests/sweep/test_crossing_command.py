"""`specswitch crossing` from a shell, on fake engines: to the page, refused early, shown again from its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report.pages import figures_of
from specswitch.results import read_run
from sweep.support import use_fake_engines
from sweep.test_sweep_command import specswitch

SMALL = (
    '{arms: [none, always-v2, dynamic-v2-t2], load: "square:low=1,high=6,period=0.8,duration=2", repeats: 2, '
    "prompt_tokens: 8, output_tokens: 8}"
)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-p", "load", "zigzag:low=1"], "unknown shape 'zigzag'"),
        (["-p", "load", "square:low=2,high=99,period=4,duration=8"], "raise max_running_requests"),
        (["-p", "concurrencies", "1"], "unknown parameter 'concurrencies'"),
        (["-p", "measure", "false"], "specswitch report"),
    ],
    ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else "",
)
def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, words: list[str], says: str) -> None:
    done = specswitch("crossing", *words, "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.startswith("error: ")
    assert not (tmp_path / "run").exists()


def test_from_the_command_to_the_page_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_engines(monkeypatch)
    out = tmp_path / "run é"
    done = specswitch("crossing", "-y", SMALL, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(out / "report.html")
    run = read_run(out)
    assert (run.kind, run.status, len(run.points)) == ("crossing", "complete", 6)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert figures_of(page) == ["timeline", "rates", "recovery", "switch-cost"]
    assert "<title>Specswitch crossing, tiny-target" in page
    assert str(tmp_path) not in page
    assert "specswitch crossing" not in (out / "manifest.json").read_text(encoding="utf-8")
    # The executed notebook shows what was measured, and the page comes again from the files alone.
    executed = json.loads((out / "executed.ipynb").read_text(encoding="utf-8"))
    assert not any(o.get("output_type") == "error" for c in executed["cells"] for o in c.get("outputs", []))
    again = specswitch("report", str(out), "--out", str(tmp_path / "again.html"))
    assert again.returncode == 0, again.stderr
    assert figures_of((tmp_path / "again.html").read_text(encoding="utf-8")) == figures_of(page)
    # Complete already: nothing is measured again, with the parameters of the run.
    resumed = specswitch("crossing", "--out", str(out), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert read_run(out).points == run.points
