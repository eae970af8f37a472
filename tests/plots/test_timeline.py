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
    assert timeline(steps(0).reindex(columns=["t_s", "batch", "mode", "emitted"])) is None
