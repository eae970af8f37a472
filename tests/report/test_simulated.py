"""The sentence on drawn accept lengths: from the points' own numbers, and only where there is something to say."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from specswitch.config import project_root
from specswitch.report import overview
from specswitch.report.simulated import sentences


def run(**parameters: Any) -> Any:
    return SimpleNamespace(manifest={"parameters": {"env": [], **parameters}})


def points(*verify_steps_of_all: tuple[int, int]) -> pd.DataFrame:
    rows = [
        {"speculated_share_steps": verify / steps, "speculated_share_steps_num": verify}
        for verify, steps in verify_steps_of_all
    ]
    return pd.DataFrame(rows)


def test_the_scatter_is_told_from_the_verify_steps_of_each_point():
    [sentence] = sentences(run(simulated_accept_length=2.5), points((100, 100), (400, 400)))
    assert "by 1.0 to 2.0 % (one standard deviation)" in sentence  # 0.5 / 2.5 / 20 and / 10


def test_points_that_do_not_speculate_throughout_are_left_out():
    [sentence] = sentences(run(simulated_accept_length=2.5), points((100, 100), (10, 200), (0, 90)))
    assert "by 2.0 % (one" in sentence


def test_nothing_is_said_where_nothing_is_drawn():
    table = points((100, 100))
    assert sentences(run(), table) == []
    assert sentences(run(simulated_accept_length=None), table) == []
    assert sentences(run(simulated_accept_length=2.0), table) == []
    assert sentences(run(simulated_accept_length=2.5), points((0, 100))) == []
    other = run(simulated_accept_length=2.5, env=["SGLANG_SIMULATE_ACC_METHOD=multinomial"])
    assert sentences(other, table) == []
    unfinished = table.drop(columns=["speculated_share_steps", "speculated_share_steps_num"])
    assert sentences(run(simulated_accept_length=2.5), unfinished) == []


def test_the_sample_of_a_simulated_run_says_it():
    stored = overview.open_run(str(project_root() / "reports" / "sample-h200-8b-v2"))
    assert any("by lot" in sentence for sentence in overview.summary(*stored))
