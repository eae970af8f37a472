"""Each fault that was once made, or nearly, in a plain step: something in the test bench notices it, by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.dynamic import faults, runs
from engine.dynamic.fault_list import FAULTS, IN_THE_FULL_RUN_ONLY, LARGE, V1
from engine.dynamic.faults import Fault, Reference
from engine.dynamic.runs import Pair

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def right(pair: Pair) -> dict[str, Reference]:
    outputs = runs.in_child(faults.reference, "none", pair, "outputs")
    assert len(outputs) == 13
    return {
        path: Reference(outputs, runs.in_child(faults.reference, path, pair, "rows")) for path in ("v1", "v2")
    }


@pytest.mark.parametrize(
    "rule", [pytest.param({}, id="small"), pytest.param(LARGE, id="large", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("retract", [False, True], ids=["steady", "retraction"])
@pytest.mark.parametrize("path", ["v1", "v2"])
def test_nothing_is_noticed_without_a_fault(
    pair: Pair, right: dict[str, Reference], path: str, retract: bool, rule: dict[str, Any]
) -> None:
    none = Fault("none", path, (), "", retract=retract, rule=rule)
    assert noticed_of(pair, none, right) == ""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f, id=str(f), marks=pytest.mark.slow if IN_THE_FULL_RUN_ONLY.search(str(f)) else ())
        for f in FAULTS
    ],
)
def test_fault_is_noticed(pair: Pair, right: dict[str, Reference], fault: Fault) -> None:
    try:
        noticed = noticed_of(pair, fault, right)
    except (AssertionError, RuntimeError) as error:
        noticed = str(error)
    assert noticed, "nothing was noticed"
    assert re.search(fault.caught_by, noticed), noticed[-3000:]


def test_a_fault_that_no_longer_matches_the_source_is_an_error(
    pair: Pair, right: dict[str, Reference]
) -> None:
    with pytest.raises(RuntimeError, match="adapt the fault"):
        noticed_of(pair, Fault("", "v1", ((V1, "no such line", ""),), ""), right)


def noticed_of(pair: Pair, fault: Fault, right: dict[str, Reference]) -> str:
    env = runs.retraction(every=9) if fault.retract else {}
    return "\n".join(runs.in_child(faults.probe, pair, fault, right[fault.path], env=env))
