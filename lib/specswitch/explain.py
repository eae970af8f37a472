"""Validation errors in plain words: which value, what is wrong with it, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

# By pydantic's error type; braces are filled from the error's own context.
WORDS = {
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "float_type": "give a number",
    "bool_type": "give true or false",
    "string_type": "give a text",
    "list_type": "give a list, as [1, 2] or 1,2",
    "tuple_type": "give a list, as [1, 2] or 1,2",
    "dict_type": "give names with values",
    "finite_number": "give a finite number",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give less than {lt}",
    "less_than_equal": "give {le} or less",
    "literal_error": "choose {expected}",
    "too_short": "give at least {min_length}",
    "missing": "missing",
    "extra_forbidden": "no such name",
}


def explain(problem: ValidationError) -> str:
    """`concurrencies.1 = -4: give 1 or more`, problems joined by `; `."""
    lines = []
    for error in problem.errors(include_url=False):
        place = ".".join(str(part) for part in error["loc"])
        value = f" = {error['input']!r}" if place and not isinstance(error["input"], dict) else ""
        lines.append(f"{place}{value}: {reason(error)}" if place else reason(error))
    return "; ".join(lines)


def reason(error: Mapping[str, Any]) -> str:
    """What is wrong, from one entry of `ValidationError.errors()`."""
    words = WORDS.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ")
    limits = {k: f"{v:g}" if isinstance(v, float) else v for k, v in (error.get("ctx") or {}).items()}
    return words.format_map(limits)
