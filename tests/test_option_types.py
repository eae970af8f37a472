"""Numbers on the command line: taken, or refused with what to give."""

from __future__ import annotations

import click
import pytest

from specswitch.option_types import Number, Whole


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (Whole(min=0), "0", 0),
        (Whole(0, 9), "9", 9),
        (Whole(), "-3", -3),
        (Number(min=1), "1", 1.0),
        (Number(min=0, min_open=True), "1e-3", 0.001),
    ],
)
def test_numbers_within_the_limits_are_taken(kind: click.ParamType[float], text: str, number: float) -> None:
    taken = kind.convert(text, None, None)
    assert taken == number
    assert type(taken) is type(number)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Whole(min=1), "0", "'0': give a whole number of 1 or more"),
        (Whole(min=1), "1.5", "'1.5': give a whole number of 1 or more"),
        (Whole(0, 9), "10", "'10': give a whole number from 0 to 9"),
        (Whole(), "many", "'many': give a whole number"),
        (Number(min=1), "0.5", "'0.5': give a number of 1 or more"),
        (Number(min=0, min_open=True), "0", "'0': give a number above 0"),
        (Number(min=1), "nan", "'nan': give a number of 1 or more"),
        (Number(min=1), "inf", "'inf': give a number of 1 or more"),
        (Number(), "x", "'x': give a number"),
    ],
)
def test_others_are_refused_with_the_cure(kind: click.ParamType[float], text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)
    assert refused.value.message == words
