"""The step timeline: modes and batch by slice of time, small however many steps."""

import pandas as pd
import pytest

from specswitch.plots.timeline import binned, timeline


def steps(n=1000, batch=lambda i: 4):
    return pd.DataFrame(
        [
            {
                "t_s": 5 + 0.01 * i,
                "batch": batch(i),
                "mode": "speculative" if batch(i) <= 4 else "plain",
                "accepted": batch(i) if batch(i) <= 4 else 0,
                "emitted": batch(i) * (2 if batch(i) <= 4 else 1),
            }
            for i in range(n)
        ]
    )


def test_token_rate_and_batch_of_slices_match_the_steps():
    slices = binned(steps(), bins=10)
    assert slices["batch"].tolist() == [4.0] * 10
    total = (slices["tok_s"] * slices["width_s"]).sum()
    assert total == pytest.approx(8 * 1000)


def test_a_slice_with_both_modes_is_split_in_proportion():
    figure = timeline(steps(100, lambda i: 2 if i < 25 else 8), threshold=4, bins=1)
    speculative, plain = figure.data[:2]
    assert (speculative.name, plain.name) == ("speculative steps", "plain steps")
    mean_batch = 0.25 * 2 + 0.75 * 8
    assert speculative.y[0] == pytest.approx(0.25 * mean_batch)
    assert plain.y[0] == pytest.approx(0.75 * mean_batch)


def test_a_long_run_stays_small():
    figure = timeline(steps(20_000))
    assert max(len(t.x) for t in figure.data) <= 240
    assert len(figure.to_json()) < 60_000


def test_a_slice_in_one_mode_has_no_mark_of_the_other():
    figure = timeline(steps(100), bins=5)
    assert figure.data[1].y == (None,) * 5


def test_no_steps_no_figure():
    assert timeline(steps(0).reindex(columns=["t_s", "batch", "mode", "accepted", "emitted"])) is None


def test_accept_length_is_that_of_the_verify_steps_and_a_gap_without_any():
    slices = binned(steps(100, lambda i: 2 if i < 50 else 8), bins=2)
    assert slices["accept_length"].iloc[0] == 2.0
    assert pd.isna(slices["accept_length"].iloc[1])
    line = timeline(steps(100, lambda i: 2 if i < 50 else 8), bins=2).data[3]
    assert (line.name, line.y) == ("accept length", (2.0, None))


def test_without_verify_steps_there_is_no_panel_for_them():
    assert [t.name for t in timeline(steps(100, lambda i: 8)).data][2:] == ["output tokens/s"]


def test_the_wanted_slots_put_the_axis_on_the_clock_of_the_load():
    figure = timeline(steps(100), bins=10, target=[(0.0, 4), (6.0, 0)])
    (wanted,) = [t for t in figure.data if t.name == "slots wanted"]
    assert (wanted.x, wanted.y) == ((0.0, 6.0), (4, 0))
    assert figure.data[0].x[0] > 5  # the first step was 5 s after the start
    assert timeline(steps(100), bins=10).data[0].x[0] < 1


def test_the_lines_break_where_a_slice_has_no_step_and_the_words_say_why():
    paused = steps(100)
    paused = paused[(paused.index < 40) | (paused.index >= 60)]
    figure = timeline(paused, bins=10)
    rate, accepted = figure.data[2:4]
    assert (rate.name, accepted.name) == ("output tokens/s", "accept length")
    for line in (rate, accepted):
        assert [y is None for y in line.y] == [False] * 4 + [True] * 2 + [False] * 4
        assert len(line.x) == 10
        assert line.connectgaps is False
    assert rate.customdata[4:6] == (None, None)
    assert "no decode step ended" in figure.layout.meta["reading"]


def test_a_slice_between_two_gaps_is_seen():
    alone = steps(100)
    alone = alone[(alone.index < 20) | (alone.index >= 80) | ((alone.index >= 50) & (alone.index < 55))]
    rate = timeline(alone, bins=10).data[2]
    assert [y is None for y in rate.y] == [False] * 2 + [True] * 3 + [False] + [True] * 2 + [False] * 2
    assert "markers" in rate.mode
