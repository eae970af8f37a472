"""What a reader must know before any number: a failed, unfinished or synthetic run says so at the top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from specswitch.report.overview import model_names, state
from specswitch.report.scrub import scrub
from specswitch.results import Run
from specswitch.results.tables import FINISHED


@dataclass(frozen=True, slots=True)
class Banner:
    """A notice at the top of the page."""

    kind: Literal["failed", "synthetic", "note"]
    headline: str
    text: str


def title(run: Run) -> str:
    """Page title: state first, so that it shows in a tab."""
    marks = ["FAILED: "] * (run.status == "failed") + ["SYNTHETIC: "] * bool(run.manifest["synthetic"])
    return f"{''.join(marks)}Specswitch {run.kind}, {scrub(model_names(run)[0])}"


def banners(run: Run, points: pd.DataFrame, failure: str | None = None) -> list[Banner]:
    """What a reader must know before any number."""
    found = []
    done = int((points["status"] == FINISHED).sum())
    if run.status == "failed":
        shown = f"This page shows what was finished: {done} of {len(points)} points."
        found.append(Banner("failed", "FAILED:", f"{scrub(run.error or '').rstrip('.')}.\n{shown}"))
    elif run.status == "running":
        found.append(Banner("note", "Still running:", f"{done} of {len(points)} points so far."))
    elif done < len(points):
        found.append(Banner("failed", "INCOMPLETE:", state(run, points)))
    if failure is not None:
        found.append(Banner("failed", "REPORT FAILED:", failure))
    if run.manifest["synthetic"]:
        found.append(
            Banner(
                "synthetic",
                "SYNTHETIC:",
                "acceptance was simulated by the engine: speeds can be studied, outputs mean nothing.",
            )
        )
    return found
