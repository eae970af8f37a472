"""Errors in plain words: which value, what is wrong with it, one line each; and why a text file cannot be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
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
    "model_type": "give names with values",
    "int_parsing": "give a whole number",
    "int_parsing_size": "give a smaller number",
    "float_parsing": "give a number",
    "bool_parsing": "give true or false",
    "too_long": "give at most {max_length}",
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
        given = list(error["input"]) if isinstance(error["input"], tuple) else error["input"]
        value = f" = {given!r}" if place and not isinstance(given, dict) else ""
        lines.append(f"{place}{value}: {reason(error)}" if place else reason(error))
    return "; ".join(lines)


def reason(error: Mapping[str, Any]) -> str:
    """What is wrong, from one entry of `ValidationError.errors()`."""
    if error["type"] == "value_error":  # raised by our own checks, in our own words
        return str(error["msg"]).removeprefix("Value error, ")
    words = WORDS.get(error["type"], "no possible value")
    limits = {k: f"{v:g}" if isinstance(v, float) else v for k, v in (error.get("ctx") or {}).items()}
    return words.format_map(limits)


def why_unreadable(problem: OSError | UnicodeDecodeError) -> str:
    """Why a text file cannot be read: `no such file or directory`, or `it is no UTF-8 text (byte 0)`."""
    if isinstance(problem, UnicodeDecodeError):
        return f"it is no UTF-8 text (byte {problem.start})"
    return os.strerror(problem.errno).lower() if problem.errno else str(problem)


def read_given_text(path: Path) -> str:
    """The text of a file that a user names. Raises ValueError, which names it, when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{str(path)!r} cannot be read: {why_unreadable(problem)}") from problem
