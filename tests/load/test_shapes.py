"""Shapes over time: what they want when, how they are written, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specswitch.load.shapes import Burst, Constant, Poisson, Ramp, Sawtooth, Square, Step, Trace, parse_shape


def test_a_step_changes_once_at_its_time():
    step = Step(before=2, after=12, at_s=3.0, duration_s=8.0)
    assert [step.target(t) for t in (0.0, 2.999, 3.0, 7.9)] == [2, 2, 12, 12]
    assert step.peak == 12


def test_a_step_may_go_down():
    step = Step(before=12, after=2, at_s=3.0, duration_s=8.0)
    assert [step.target(t) for t in (0.0, 3.0)] == [12, 2]
    assert step.peak == 12


def test_a_square_wave_is_low_then_high_in_every_period():
    square = Square(low=2, high=12, period_s=4.0, duration_s=12.0)
    assert [square.target(t) for t in (0.0, 1.99, 2.0, 3.99, 4.0, 6.0, 10.5)] == [2, 2, 12, 12, 2, 12, 12]


def test_a_ramp_stays_equally_long_on_every_stair():
    ramp = Ramp(low=1, high=4, duration_s=8.0)
    assert [ramp.target(t) for t in (0.0, 1.9, 2.0, 4.0, 6.0, 7.99)] == [1, 1, 2, 3, 4, 4]


def test_a_sawtooth_climbs_in_every_period_and_falls_at_once():
    saw = Sawtooth(low=0, high=3, period_s=4.0, duration_s=8.0)
    assert [saw.target(t) for t in (0.0, 1.0, 2.0, 3.0, 3.99, 4.0, 7.5)] == [0, 1, 2, 3, 3, 0, 3]


@given(low=st.integers(0, 20), rise=st.integers(1, 40), share=st.floats(0, 0.999_999))
def test_slots_never_leave_low_to_high(low, rise, share):
    high = low + rise
    for shape in (
        Ramp(low=low, high=high, duration_s=7.0),
        Sawtooth(low=low, high=high, period_s=3.0, duration_s=7.0),
        Square(low=low, high=high, period_s=3.0, duration_s=7.0),
    ):
        assert low <= shape.target(share * shape.duration_s) <= shape.peak == high


def test_constant_arrivals_are_equally_spaced_and_end_before_the_end():
    arrivals = Constant(rate=4.0, duration_s=1.0).arrivals()
    assert arrivals == (0.0, 0.25, 0.5, 0.75)


def test_poisson_arrivals_have_their_rate_and_repeat_by_seed():
    shape = Poisson(rate=50.0, duration_s=200.0, seed=7)
    arrivals = shape.arrivals()
    assert len(arrivals) == pytest.approx(10_000, abs=4 * 100)
    gaps = [b - a for a, b in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert spread == pytest.approx(mean, rel=0.1)  # exponential gaps
    assert shape.arrivals() == arrivals
    assert shape.arrivals(repeat=1) != arrivals
    assert shape.arrivals(repeat=1) == shape.model_copy(update={"seed": 8}).arrivals()
    assert arrivals[0] >= 0
    assert arrivals[-1] < 200.0


def test_a_burst_keeps_both_rates():
    burst = Burst(low=5.0, high=40.0, period_s=4.0, duration_s=400.0)
    in_low = [t for t in burst.arrivals() if t % 4.0 < 2.0]
    in_high = [t for t in burst.arrivals() if t % 4.0 >= 2.0]
    assert len(in_low) / 200 == pytest.approx(5.0, rel=0.15)
    assert len(in_high) / 200 == pytest.approx(40.0, rel=0.1)


def test_a_burst_without_a_base_rate_is_silent_in_between():
    burst = Burst(low=0.0, high=40.0, period_s=4.0, duration_s=40.0)
    assert all(t % 4.0 >= 2.0 for t in burst.arrivals())


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
        ("square:low=2,high=12,period=0,duration=8", "period: .*greater than 0"),
        ("square:low=2,high=12,period=nan,duration=8", "period: .*finite|period: .*greater"),
        ("square:low=2,high=12,period=4", "duration: Field required"),
        ("square:low=2,high=12,period=4,duration=8,phase=1", "phase: Extra"),
        ("square:low=2,low=3,high=12,period=4,duration=8", "'low=3' is no new name=value"),
        ("square:low=2.5,high=12,period=4,duration=8", "low: .*integer"),
        ("square:2,12", "'2' is no new name=value"),
        ("step:before=2,after=2,at=1,duration=8", "no step"),
        ("step:before=2,after=3,at=9,duration=8", "at=9 is not before the end"),
        ("poisson:rate=0,duration=5", "rate: .*greater than 0"),
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
