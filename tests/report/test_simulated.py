"""The sentence on drawn accept lengths: from the points' own numbers, and only where there is something to say."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from specswitch.report.simulated import sentences


def run(**parameters: Any) -> Any:
    return SimpleNamespace(manifest={"parameters": {"env": [], **parameters}})


def points(*rows: dict[str, Any]) -> pd.DataFrame:
    """Points of 2 s at a batch of 8 with an accept length of 2.5."""
    speculating = {
        "accept_length": 2.5, "speculated_share": 1.0, "output_tok_s": 1000.0, "window_s": 2.0, "mean_running_observed": 8.0
    }  # fmt: skip
    return pd.DataFrame([speculating | row for row in rows])


def test_the_scatter_is_told_from_the_verify_steps_of_each_point():
    [sentence] = sentences(run(simulated_accept_length=2.5), points({}, {"output_tok_s": 4000.0}))
    assert (
        "by 1.0 to 2.0 % (one standard deviation)" in sentence
    )  # 100 and 400 steps: 0.5 / 2.5 / 10 and / 20


def test_points_that_do_not_speculate_throughout_are_left_out():
    plain = {"accept_length": None, "speculated_share": 0.0}
    [sentence] = sentences(run(simulated_accept_length=2.5), points({}, {"speculated_share": 0.5}, plain))
    assert "by 2.0 % (one" in sentence


def test_nothing_is_said_where_nothing_is_drawn():
    table = points({})
    assert sentences(run(), table) == []
    assert sentences(run(simulated_accept_length=None), table) == []
    assert sentences(run(simulated_accept_length=2.0), table) == []
    assert sentences(run(simulated_accept_length=2.5), points({"speculated_share": 0.0})) == []
    assert sentences(run(simulated_accept_length=2.5), table.drop(columns="accept_length")) == []
    other = run(simulated_accept_length=2.5, env=["SGLANG_SIMULATE_ACC_METHOD=multinomial"])
    assert sentences(other, table) == []
