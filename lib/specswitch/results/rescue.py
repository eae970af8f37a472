"""What was measured for minutes is not lost because its folder can no longer be written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from specswitch.results.layout import ResultsError

Saved = TypeVar("Saved")


def save_or_rescue(save: Callable[[Path], Saved], folder: Path) -> Saved:
    """`save(folder)`; where that fails, the same into a new folder of temporary files, which then stays.

    Raises:
        ResultsError: why `folder` could not be written, and where the results are instead.
    """
    try:
        return save(folder)
    except ResultsError as problem:
        try:
            instead = Path(tempfile.mkdtemp(prefix="specswitch-rescued-"))
            save(instead)
        except (OSError, ResultsError) as again:
            raise ResultsError(f"{problem}; nor are temporary files possible: {again}") from problem
        raise ResultsError(f"{problem}. What was measured is in {instead} instead") from problem
