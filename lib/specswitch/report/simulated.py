"""What a reader of a run with simulated acceptance must know of its scatter: part of it is drawn by lot."""

from __future__ import annotations

import pandas as pd

from specswitch.metrics.simulated import draw_scatter
from specswitch.plots.figure import number
from specswitch.results import Run

OTHER_DRAWS = "SGLANG_SIMULATE_ACC_METHOD"  # an environment variable that changes how the engine draws


def sentences(run: Run, points: pd.DataFrame) -> list[str]:
    """One sentence with what the draws alone do to the points that speculate throughout; none without such draws."""
    parameters = run.manifest["parameters"]
    stated = parameters.get("simulated_accept_length")
    drawn = stated is not None and OTHER_DRAWS not in str(parameters.get("env"))
    if not drawn or "speculated_share_steps" not in points:  # no point has finished
        return []
    speculating = points[points["speculated_share_steps"] == 1.0]
    shares = [draw_scatter(stated, steps) for steps in speculating["speculated_share_steps_num"]]
    if not shares or max(shares) == 0:
        return []
    least, most = (number(100 * share, 2) for share in (min(shares), max(shares)))
    width = f"{most} %" if least == most else f"{least} to {most} %"
    return [
        "The engine draws the simulated accept length by lot, once per verify step for the whole batch: that alone "
        f"moves the rate of a point that speculates throughout by {width} (one standard deviation), from repeat to "
        "repeat and from arm to arm."
    ]
