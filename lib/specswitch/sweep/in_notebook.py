"""The verbs of the measuring notebooks: show the values in force, measure, show a first table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

import pandas as pd

from specswitch.results import Run, read_run, summary
from specswitch.results.manifest import now
from specswitch.results.provenance import shorten
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.eta import ahead, telling_time_left
from specswitch.sweep.given import stored_parameters
from specswitch.sweep.grid import points
from specswitch.sweep.parameters import RunParameters
from specswitch.sweep.progress import bar, lines
from specswitch.sweep.ray_executor import executor_of
from specswitch.sweep.runner import run_sweep


def effective(asked: RunParameters) -> pd.DataFrame:
    """The parameters in force, one row each, and which of them were changed; the index names the time."""
    values, changed = shorten(asked.model_dump()), asked.changed()
    return pd.DataFrame(
        {"value": [repr(v) for v in values.values()], "changed": ["yes" * (k in changed) for k in values]},
        index=pd.Index(list(values), name=f"parameter, as of {now()}"),
    )


def measure(asked: RunParameters, stop: threading.Event | None = None) -> Run:
    """Run what was asked for and return what is stored. Raises as `run_sweep`."""
    plan, folder = asked.plan(), asked.run_dir()
    hold = asked.held()
    left = ahead(points(plan, hold), folder, one_server=hold == "one")
    with bar() if asked.progress else lines(sys.stdout) as tell:
        return run_sweep(
            plan,
            folder,
            parameters={**asked.model_dump(), "out_dir": str(folder)},
            resume=asked.resume,
            hold=hold,
            stop=stop,
            on_progress=telling_time_left(tell, left),
            executor=executor_of(asked),
        )


def crossing_asked(namespace: Mapping[str, Any]) -> CrossingParameters:
    """The crossing notebook's parameters: pass `globals()`. With `measure = False`, those of the stored run.

    Raises:
        ParameterError: as `RunParameters.of_namespace`.
    """
    asked = CrossingParameters.of_namespace(namespace)
    if asked.measure:
        return asked
    where = {name: getattr(asked, name) for name in ("out_dir", "measure", "progress")}
    return CrossingParameters.of({**stored_parameters(asked.run_dir(), CrossingParameters), **where})


def measure_or_read(asked: CrossingParameters) -> Run:
    """Measure what was asked for; with `measure = False`, only read what the run folder holds."""
    return measure(asked) if asked.measure else read_run(asked.run_dir())


def throughput_table(measured: pd.DataFrame) -> pd.DataFrame:
    """Output tokens/s by concurrency (rows) and arm (columns): mean and half the 95 % interval over repeats."""
    found = summary(measured, ["output_tok_s"])
    texts = found.assign(
        text=[_with_interval(m, h) for m, h in zip(found["mean"], found["high"], strict=True)]
    )
    wide = texts.pivot(index="concurrency", columns="label", values="text")
    return wide[list(dict.fromkeys(found["label"]))].fillna("")


def _with_interval(mean: float, high: float) -> str:
    if pd.isna(high):
        return f"{mean:,.0f}"
    return f"{mean:,.0f} ± {high - mean:,.0f}" if high - mean <= mean else "not known from these repeats"
