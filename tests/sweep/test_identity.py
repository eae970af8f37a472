"""Asked and got: no row whose server is another than its label says."""

from __future__ import annotations

import pytest

from specswitch.config import Point
from specswitch.serving.errors import IdentityError
from specswitch.sweep import grid
from specswitch.sweep.identity import check_rule, identity_row
from specswitch.sweep.parameters import SweepParameters

STATES = {
    "none": {"path": "none", "worker_class": "TpModelWorker", "overlap": True, "dynamic": False},
    "none-sync": {"path": "none", "worker_class": "TpModelWorker", "overlap": False, "dynamic": False},
    "always-v1": {"path": "v1", "worker_class": "EAGLEWorker", "overlap": False, "dynamic": False},
    "always-v2": {"path": "v2", "worker_class": "EAGLEWorkerV2", "overlap": True, "dynamic": False},
    "dynamic-v2-t8": {
        "path": "v2",
        "worker_class": "DynamicEAGLEWorkerV2",
        "overlap": True,
        "dynamic": True,
        "threshold": 8,
    },
}


def state(label: str, **other: object) -> dict:
    draft = {} if label.startswith("none") else {"topk": 1, "num_draft_tokens": 4, "spec_v2_env": "1"}
    rule = {"threshold": None, "enable_threshold": None, "dwell": 1, "sync": None}
    return {**rule, **draft, **STATES[label], **other}


def point(label: str) -> Point:
    return grid.points(SweepParameters(arms=[label]).plan())[0]


@pytest.mark.parametrize("label", STATES)
def test_a_server_as_asked_gives_its_row(label: str) -> None:
    """Field case A22: the row carries what the server says of itself."""
    row = identity_row(point(label), state(label))
    assert row["worker_class"] == STATES[label]["worker_class"]
    assert row["overlap"] == STATES[label]["overlap"]
    assert {"topk", "spec_v2_env", "threshold", "policy"} <= row.keys()


@pytest.mark.parametrize("asked", STATES)
@pytest.mark.parametrize("got", STATES)
def test_a_server_of_another_arm_is_never_stored(asked: str, got: str) -> None:
    if asked == got:
        return
    with pytest.raises(IdentityError, match=r"asked .*, got "):
        identity_row(point(asked), state(got))


@pytest.mark.parametrize(
    "other", [{"topk": 2}, {"num_draft_tokens": 8}, {"threshold": 4}, {"dwell": 3}, {"enable_threshold": 2}]
)
def test_another_draft_shape_or_rule_is_found(other: dict) -> None:
    with pytest.raises(IdentityError, match=next(iter(other))):
        identity_row(point("dynamic-v2-t8"), state("dynamic-v2-t8", **other))


def test_a_sync_rule_that_was_not_asked_for_may_be_any_but_a_named_one_must_hold() -> None:
    check_rule(point("dynamic-v2-t8"), state("dynamic-v2-t8", sync="lazy"))
    with pytest.raises(IdentityError, match="sync: asked 'eager', got 'lazy'"):
        check_rule(point("dynamic-v2-t8-eager"), state("dynamic-v2-t8", sync="lazy"))
