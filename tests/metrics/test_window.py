"""What happens inside the steady window counts, and how many requests were in flight."""

from __future__ import annotations

from metrics.synthetic import plain_step, request, verify_step
from specswitch.metrics import acceptance
from specswitch.metrics.point import point_metrics
from specswitch.metrics.window import Window, in_flight_curve, in_flight_max

CLIENTS, RAMP_S, PLATEAU_S, DRAIN_S = 64, 8.0, 20.0, 12.0


def ramp_plateau_drain():
    """64 clients join over 8 s, stay 20 s and leave over 12 s, each sending 1 s requests back to back."""
    records = []
    for i in range(CLIENTS):
        start = RAMP_S * i / (CLIENTS - 1)
        end = RAMP_S + PLATEAU_S + DRAIN_S * i / (CLIENTS - 1)
        while start < end - 1e-9:
            stop = min(start + 1.0, end)
            records.append(request(start, stop, (start + 0.25, stop)))
            start = stop + 0.002 if stop < end else end
    return records


def steps_of(records, threshold):
    """One decode step every 50 ms whose mode follows the running batch."""
    steps, level, curve = [], 0, in_flight_curve(records)
    for tick in range(int(40 / 0.05)):
        t_s = tick * 0.05
        while curve and curve[0][0] <= t_s:
            level = curve.pop(0)[1]
        if level:
            steps.append(verify_step(t_s, level) if level <= threshold else plain_step(t_s, level))
    return steps


def test_ramp_and_drain_are_outside_the_window():
    """B7: of 8 s ramp, 20 s plateau, 12 s drain only the plateau counts, with speculation off all through."""
    records = ramp_plateau_drain()
    window = Window(RAMP_S, RAMP_S + PLATEAU_S)
    steps = steps_of(records, threshold=32)
    assert acceptance.speculated_steps(steps).value > 0
    assert acceptance.speculated_steps(acceptance.steps_in(steps, window)).value == 0
    metrics = point_metrics(records, steps, window)
    assert metrics["speculated_share"] == 0
    assert metrics["speculated_share_whole_run"] > 0
    assert metrics["output_tok_s"] > metrics["output_tok_s_whole_run"]


def test_a_run_without_steady_window_is_flagged_and_has_no_windowed_number():
    """B7."""
    records = [request(0.0, 1.0, (0.5, 1.0)) for _ in range(32)]
    metrics = point_metrics(records, [plain_step(0.5)], None)
    assert metrics["steady"] is False
    assert metrics["output_tok_s"] is None
    assert metrics["ttft_ms"] == {"mean": None, "p50": None, "p90": None, "p99": None}
    assert metrics["max_running_observed"] is None
    assert metrics["completed"] == 32


def test_a_request_that_ends_as_the_next_begins_is_not_two_in_flight():
    assert in_flight_max([]) is None
    assert in_flight_max([request(0.0, 1.0), request(1.0, 2.0)]) == 1
    assert in_flight_max([request(0.0, 1.0), request(0.5, 2.0)]) == 2
