"""The flat parameters of the crossing notebook: those of every run, and one load shape."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from specswitch.config import Requests, project_root
from specswitch.load.crossing_plan import CrossingPlan
from specswitch.load.shape_text import parse_shape
from specswitch.sweep.parameters import RunParameters


class CrossingParameters(RunParameters):
    """Parameters of a crossing run: every arm under one `load` that crosses the threshold.

    `load`: a shape as `load.shape_text.parse_shape` reads it; a trace file's relative path begins at the checkout.
    `warmup_s`: seconds of load before each point, at the most that the shape asks for, not measured.
    `measure` false only shows what `out_dir` holds already.
    """

    NOTEBOOK: ClassVar[str] = "03-crossing.ipynb"
    COMMAND: ClassVar[str] = "crossing"

    arms: list[str] = Field(default=["none", "always-v2", "dynamic-v2-t4"])
    load: str = "square:low=2,high=12,period=4,duration=12"
    warmup_s: Annotated[float, Field(ge=0)] = 1.0
    measure: bool = True

    def plan(self) -> CrossingPlan:
        """The run that these parameters describe. Raises ParameterError when they contradict each other."""
        return self._planned(
            lambda **common: CrossingPlan(
                **common,
                shape=parse_shape(self.load, project_root()),
                warmup_s=self.warmup_s,
                workload=self._sent(Requests),
            )
        )
