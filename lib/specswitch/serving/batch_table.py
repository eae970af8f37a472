"""The batch table file, read before the engine is imported: a wrong one should be known at once.

The server reads the file again, by the engine room's own parser; a test holds the two to the same answers.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from specswitch.explain import read_given_text
from specswitch.serving.errors import FlagError

FLAG = "--speculative-batch-table"
FORM = '{"speculate": [[1, 8], [33, 64]]}'


def read_batch_table(path: str) -> tuple[tuple[int, int], ...]:
    """The batch ranges [first, last] in which to speculate, ascending.

    Raises:
        FlagError: no such file, or it does not hold a batch table.
    """
    try:
        table = json.loads(read_given_text(Path(path)))
    except (ValueError, RecursionError) as problem:
        raise FlagError(f"{FLAG} {path!r}: {problem}: give a JSON file with {FORM}") from problem
    if not isinstance(table, dict) or set(table) != {"speculate"} or not are_ranges(table["speculate"]):
        raise FlagError(
            f"{FLAG} {path!r} holds {str(table)[:80]}: write {FORM}, ranges [first, last] of whole numbers >= 1 "
            "that ascend and do not overlap"
        )
    return tuple((first, last) for first, last in table["speculate"])


def are_ranges(value: Any) -> bool:
    """Whether this is a list of [first, last], whole numbers >= 1, ascending and not overlapping."""
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return False
    ends = [end for pair in value for end in pair]
    if not ends or not all(type(end) is int and end >= 1 for end in ends):
        return False
    return all(a <= b for a, b in value) and all(p[1] < q[0] for p, q in itertools.pairwise(value))
