"""Arms by name: every label can be read back, everything else is refused with the forms that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specswitch.config import Arm, Rule
from specswitch.sweep.arms import parse_arm

SYNC = st.sampled_from([None, "lazy", "eager", "stale"])
PATH = st.sampled_from(["v1", "v2"])


@st.composite
def arms(draw: st.DrawFn) -> Arm:
    mode = draw(st.sampled_from(["none", "always", "off", "dynamic"]))
    if mode == "none":
        return Arm(mode="none", overlap=draw(st.booleans()))
    if mode == "always":
        return Arm(mode="always", path=draw(PATH))
    threshold = 0 if mode == "off" else draw(st.integers(1, 512))
    enable = None if mode == "off" else draw(st.none() | st.integers(0, threshold))
    rule = Rule(threshold=threshold, enable_threshold=enable, dwell=draw(st.integers(1, 64)), sync=draw(SYNC))
    return Arm(mode=mode, path=draw(PATH), rule=rule)


@given(arms())
def test_every_label_is_read_back(arm: Arm) -> None:
    assert parse_arm(arm.label) == arm


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("always-v3", "write none, none-sync"),
        ("always", "write none, none-sync"),
        ("none-v1", "write none, none-sync"),
        ("dynamic-v2", "threshold >= 1"),
        ("dynamic-v2-t0", "threshold >= 1"),
        ("dynamic-v2-t4-e8", "give an enable_threshold of 4 or less"),
        ("always-v2-t4", "takes no threshold"),
        ("off-v2-t0", "'off-v2', write that"),
        ("dynamic-v2-t08", "'dynamic-v2-t8', write that"),
        ("always-v1-lazy", "'always-v1', write that"),
        ("", "write none, none-sync"),
    ],
)
def test_what_is_no_arm_is_refused_by_name(label: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        parse_arm(label)
    assert repr(label) in str(refused.value)


def test_the_lazy_window_goes_where_there_is_a_rule() -> None:
    assert parse_arm("dynamic-v2-t8", lazy_window=32).rule.lazy_window == 32
    assert parse_arm("always-v2", lazy_window=32).rule.lazy_window is None
