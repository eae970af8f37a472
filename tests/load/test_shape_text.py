"""Shapes as text: read as they are written, refused with the value and the form."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.load.shape_text import parse_shape
from specswitch.load.shapes import Trace


@pytest.mark.parametrize(
    "text",
    [
        "step:before=2,after=12,at=3,duration=8",
        "ramp:low=1,high=16,duration=20",
        "sawtooth:low=0,high=16,period=5,duration=20",
        "square:low=2,high=12,period=4,duration=12.5",
        "constant:rate=2.5,duration=10",
        "poisson:rate=20,duration=10,seed=3",
        "burst:low=0,high=30,period=4,duration=20,seed=1",
    ],
)
def test_a_shape_writes_itself_as_it_is_read(text):
    assert parse_shape(text).text == text


def test_a_trace_comes_from_a_file_of_seconds(tmp_path: Path):
    (tmp_path / "arrivals.txt").write_text("0\n0.5\n\n0.5\n2.25\n", encoding="utf-8")
    trace = parse_shape("trace:file=arrivals.txt", tmp_path)
    assert isinstance(trace, Trace)
    assert trace.arrivals() == trace.arrivals(repeat=3) == (0.0, 0.5, 0.5, 2.25)
    assert trace.duration_s == 2.25
    assert trace.text == "trace:4 arrivals in 2.25 s"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "squar:low=2,high=12",
            r"unknown shape 'squar'.*square:low=\.\.,high=\.\.,period=\.\.,duration=\.\.",
        ),
        ("square:low=12,high=2,period=4,duration=8", "low=12 is not below high=2"),
        ("square:low=2,high=12,period=0,duration=8", "period: give more than 0"),
        ("square:low=2,high=12,period=nan,duration=8", "period: .*finite|period: .*greater"),
        ("square:low=2,high=12,period=4", "duration: missing"),
        ("square:low=2,high=12,period=4,duration=8,phase=1", "phase: no such name"),
        ("square:low=2,high=12,duration=8,perod=2", "perod: no such name"),
        ("square:low=2,low=3,high=12,period=4,duration=8", "'low=3' is no new name=value"),
        ("square:low=2.5,high=12,period=4,duration=8", "low: give a whole number"),
        ("square:2,12", "'2' is no new name=value"),
        ("step:before=2,after=2,at=1,duration=8", "no step"),
        ("step:before=2,after=3,at=9,duration=8", "at=9 is not before the end"),
        ("poisson:rate=0,duration=5", "rate: give more than 0"),
        ("burst:low=9,high=3,period=2,duration=5", "low=9 is not below high=3"),
        ("trace:rate=3", "trace:file=PATH"),
    ],
)
def test_bad_shapes_are_refused_with_the_value_and_the_form(text, says):
    with pytest.raises(ValueError, match=says):
        parse_shape(text)


def test_a_bad_trace_names_file_and_line(tmp_path: Path):
    path = tmp_path / "arrivals.txt"
    with pytest.raises(FileNotFoundError, match=r"arrivals\.txt"):
        parse_shape(f"trace:file={path}")
    path.write_text("0\nsoon\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"arrivals\.txt line 2: 'soon'"):
        parse_shape(f"trace:file={path}")
    path.write_text("0\n2\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"arrival 3 \(1 s\) is before the one above"):
        parse_shape(f"trace:file={path}")
