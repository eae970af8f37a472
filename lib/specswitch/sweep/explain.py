"""Validation errors in plain words: which value, what is wrong with it, one line each."""

from __future__ import annotations

from pydantic import ValidationError


def explain(problem: ValidationError) -> str:
    """`concurrencies.1 = -4: Input should be greater than or equal to 1`, problems joined by `; `."""
    lines = []
    for error in problem.errors(include_url=False):
        place = ".".join(str(part) for part in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        value = f" = {error['input']!r}" if place and not isinstance(error["input"], dict) else ""
        lines.append(f"{place}{value}: {message}" if place else message)
    return "; ".join(lines)
