"""The verbs of the sweep notebook: show the values in force, measure, show a first table."""

from __future__ import annotations

import sys
import threading

import pandas as pd

from specswitch.results import Run, summary
from specswitch.results.manifest import now
from specswitch.results.provenance import shorten
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.progress import bar, lines
from specswitch.sweep.runner import run_sweep


def effective(asked: SweepParameters) -> pd.DataFrame:
    """The parameters in force, one row each, and which of them were changed; the index names the time."""
    values, changed = shorten(asked.model_dump()), asked.changed()
    return pd.DataFrame(
        {"value": [repr(v) for v in values.values()], "changed": ["yes" * (k in changed) for k in values]},
        index=pd.Index(list(values), name=f"parameter, as of {now()}"),
    )


def measure(asked: SweepParameters, stop: threading.Event | None = None) -> Run:
    """Run the sweep that was asked for and return what is stored. Raises as `run_sweep`."""
    plan, folder = asked.plan(), asked.run_dir()
    with bar() if asked.progress else lines(sys.stdout) as tell:
        return run_sweep(
            plan,
            folder,
            parameters={**asked.model_dump(), "out_dir": str(folder)},
            resume=asked.resume,
            hold=asked.held(),
            stop=stop,
            on_progress=tell,
        )


def throughput_table(points: pd.DataFrame) -> pd.DataFrame:
    """Output tokens/s by concurrency (rows) and arm (columns): mean and half the 95 % interval over repeats."""
    found = summary(points, ["output_tok_s"])
    texts = found.assign(
        text=[_with_interval(m, h) for m, h in zip(found["mean"], found["high"], strict=True)]
    )
    wide = texts.pivot(index="concurrency", columns="label", values="text")
    return wide[list(dict.fromkeys(found["label"]))].fillna("")


def _with_interval(mean: float, high: float) -> str:
    return f"{mean:,.0f}" if pd.isna(high) else f"{mean:,.0f} ± {high - mean:,.0f}"
