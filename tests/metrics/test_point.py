"""The dictionary of a point: the contract's keys, JSON-clean, None where nothing was."""

from __future__ import annotations

import json

from metrics.synthetic import plain_step, request, verify_step
from specswitch.metrics.point import point_metrics
from specswitch.metrics.window import Window

CONTRACT_KEYS = {
    "output_tok_s", "ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "accept_length", "accept_rate",
    "speculated_share", "switches", "completed", "failed", "max_running_observed",
}  # fmt: skip


def test_a_point_has_the_contract_keys_and_every_rate_its_counts():
    records = [
        request(0.0, 1.0, (0.2, 0.6, 1.0), cached_tokens=0, output_ids=(1, 2, 3)),
        request(0.0, 1.0, (0.2,), outcome="failed", error="HTTP 503: no"),
        request(1.0, 2.0, (1.2,), outcome="cancelled"),
    ]
    steps = [verify_step(0.3, accepted=2), plain_step(0.7, batch=2, switched=True), verify_step(9.0)]
    metrics = point_metrics(records, steps, Window(0.0, 2.0))
    assert metrics.keys() >= CONTRACT_KEYS
    assert metrics["output_tok_s"] == 2.5
    assert metrics["accept_length"] == 3.0
    assert metrics["ratios"]["accept_rate"] == {"num": 2, "den": 3}
    assert metrics["speculated_share"] == 0.5
    assert metrics["switches"] == 1
    assert metrics["max_running_observed"] == 2
    assert (metrics["completed"], metrics["failed"], metrics["cancelled"]) == (1, 1, 1)
    assert metrics["errors"] == {"HTTP 503: no": 1}
    assert metrics["output_tokens"] == 5
    assert metrics["output_lengths"] == {"min": 3, "mean": 3.0, "max": 3}
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_a_point_without_records_steps_and_window_is_all_none_not_zero():
    metrics = point_metrics([], [], None)
    numbers = CONTRACT_KEYS - {"completed", "failed", "ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"}
    assert all(metrics[key] is None for key in numbers)
    assert metrics["degenerate"] is None
    assert metrics["completed"] == 0


def test_a_server_without_step_counters_still_gives_throughput_and_latency():
    metrics = point_metrics([request(0.0, 1.0, (0.5, 1.0))], [], Window(0.0, 2.0))
    assert metrics["output_tok_s"] == 1.0
    assert metrics["accept_length"] is None
    assert metrics["switches"] is None


def test_latencies_of_a_closed_batch_are_those_of_every_request():
    """Its window opens when the last request has a token and closes when the first ends: none begins or ends inside."""
    records = [request(0.0, 5.0 + i, (1.0 + i, 2.0 + i, 5.0 + i)) for i in range(3)]
    window = Window(3.0, 5.0)
    inside = point_metrics(records, [], window)
    assert (inside["measured_requests"], inside["ttft_ms"]["mean"]) == (0, 3000.0)
    closed = point_metrics(records, [], window, closed_batch=True)
    assert closed["measured_requests"] == 3
    assert closed["ttft_ms"]["mean"] == 2000.0
    assert closed["tpot_ms"]["mean"] == 2000.0
    assert closed["e2e_ms"]["p50"] == 6000.0
    assert closed["output_tok_s"] == inside["output_tok_s"]
