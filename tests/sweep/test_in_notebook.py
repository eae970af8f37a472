"""What the cells of the sweep notebook call, and what somebody who looks on sees."""

from __future__ import annotations

import io
from collections import namedtuple
from pathlib import Path

import pandas as pd
import pytest

from specswitch.sweep import in_notebook
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.progress import Progress, bar, lines
from sweep.support import small


@pytest.mark.usefixtures("fake_engines")
def test_a_live_notebook_shows_a_bar_and_gets_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = small(tmp_path / "run", arms=["none"], progress=True)
    run = in_notebook.measure(asked)
    assert run.status == "complete"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err
    assert "\r" in shown.err
    assert run.manifest["parameters"]["out_dir"] == "$RUN"


def test_the_values_in_force_are_shown_with_what_was_changed() -> None:
    """Field case C3: nothing can be taken for the defaults that is none."""
    shown = in_notebook.effective(SweepParameters(repeats=7, out_dir=str(Path.home() / "x")))
    assert shown.loc["repeats"].tolist() == ["7", "yes"]
    assert shown.loc["seed"].tolist() == ["1", ""]
    assert shown.loc["out_dir", "value"] == "'$HOME/x'"
    assert "as of 20" in str(shown.index.name)


def test_the_first_table_has_an_interval_only_where_there_are_repeats() -> None:
    points = pd.DataFrame(
        {
            "status": ["finished"] * 4,
            "label": ["none", "none", "always-v2", "none"],
            "concurrency": [1, 1, 1, 8],
            "output_tok_s": [100.0, 102.0, 150.0, 1234.0],
        }
    )
    shown = in_notebook.throughput_table(points)
    assert shown.loc[1].tolist() == ["101 ± 13", "150"]
    assert shown.loc[8].tolist() == ["1,234", ""]


def test_a_log_gets_lines_and_no_bar() -> None:
    stream = io.StringIO()
    with lines(stream) as tell:
        tell(Progress("server", 0, 12, "none"))
        tell(Progress("point", 0, 12, "a"))
        tell(Progress("done", 1, 12, "a", {"output_tok_s": 1234.4}))
        tell(Progress("done", 2, 12, "b", {"output_tok_s": None}))
    assert stream.getvalue().splitlines() == [
        "[ 0/12] none: starting this server",
        "[ 1/12] a: 1,234 tokens/s",
        "[ 2/12] b: no steady window",
    ]


def test_a_terminal_gets_a_bar() -> None:
    stream = io.StringIO()
    with bar(stream) as tell:
        tell(Progress("done", 3, 12, "a", {"output_tok_s": 1.0}))
    assert "3/12" in stream.getvalue()
    assert "finished a" in stream.getvalue()


@pytest.mark.parametrize(("free_gib", "held"), [(64, "all"), (4, "one")])
def test_servers_are_held_side_by_side_where_the_memory_allows_it(
    monkeypatch: pytest.MonkeyPatch, free_gib: int, held: str
) -> None:
    memory = namedtuple("memory", "available")
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory(free_gib * 2**30))
    assert SweepParameters().held() == held
    assert SweepParameters(device="cuda").held() == "one"
    assert SweepParameters(device="cuda", hold="all").held() == "all"
