"""The switch's Prometheus metrics: increments, none twice, and what "no threshold" looks like."""

from __future__ import annotations

import math

import pytest
from prometheus_client import REGISTRY

from specswitch.engine.counters import Totals
from specswitch.engine.policy import Mode, Rule
from specswitch.engine.prometheus import PERIOD_S, Exporter, threshold_value

LABELS = {"model_name": "m", "tp_rank": 0}


@pytest.fixture(scope="module")
def exporter() -> Exporter:
    return Exporter(LABELS)


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"model_name": "m", "tp_rank": "0"} | labels)


def test_totals_are_exported_as_they_grow(exporter: Exporter) -> None:
    totals = Totals(plain_steps=3, speculative_steps=5, proposed=30, accepted=12, synced_tokens=7)
    exporter.update(10.0, totals, 6, Mode.PLAIN, 2, Rule(4))
    exporter.update(11.0, totals, 6, Mode.PLAIN, 2, Rule(4))
    assert value("specswitch_steps_total", mode="plain") == 3
    assert value("specswitch_steps_total", mode="speculative") == 5
    assert value("specswitch_draft_tokens_total", kind="proposed") == 30
    assert value("specswitch_draft_tokens_total", kind="accepted") == 12
    assert value("specswitch_synced_tokens_total") == 7
    assert value("specswitch_switches_total") == 2
    assert (value("specswitch_mode"), value("specswitch_running_batch"), value("specswitch_threshold")) == (
        0,
        6,
        4,
    )
    totals.plain_steps += 1
    exporter.update(12.0, totals, 0, Mode.SPECULATIVE, 3, Rule())
    assert value("specswitch_steps_total", mode="plain") == 4
    assert (value("specswitch_mode"), value("specswitch_running_batch")) == (1, 0)
    assert value("specswitch_threshold") == math.inf


def test_it_is_due_once_a_period(exporter: Exporter) -> None:
    exporter.update(50.0, Totals(4, 5, 0, 0, 30, 12, 0, 7), 1, Mode.PLAIN, 3, Rule(4))
    assert not exporter.due(50.0 + 0.9 * PERIOD_S)
    assert exporter.due(50.0 + PERIOD_S)


def test_what_is_no_number_is_nan() -> None:
    assert threshold_value(Rule(0)) == 0
    assert math.isnan(threshold_value(None))
    assert math.isnan(threshold_value(Rule(ranges=((1, 4),))))
