"""The environment of a server: what is dropped, set, refused and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specswitch.serving.environment import ChildEnvironment, child_environment
from specswitch.serving.errors import EnvironmentRefusedError

BASE = {"PATH": "/bin", "HOME": "/home/x", "LD_LIBRARY_PATH": "/lib"}


def build(**changes: Any) -> ChildEnvironment:
    given = {"spec_v2": True, "cpu": True, "nonce": "n", "inherited": BASE} | changes
    return child_environment(**given)


def test_the_path_of_an_earlier_run_is_not_inherited() -> None:
    """Field case A26: SGLANG_ENABLE_SPEC_V2=0 of run 1 must not reach run 2."""
    environment = build(inherited=BASE | {"SGLANG_ENABLE_SPEC_V2": "0"})
    assert environment.values["SGLANG_ENABLE_SPEC_V2"] == "1"
    assert build(spec_v2=False).values["SGLANG_ENABLE_SPEC_V2"] == "0"


def test_engine_variables_are_dropped_and_named() -> None:
    dirty = {
        "SGLANG_LOG_X": "1",
        "SGL_OLD": "1",
        "SPECSWITCH_NONCE": "old",
        "SPECSWITCH_STEPS_DIR": "/old",
        "TRITON_INTERPRET": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment = build(cpu=False, inherited=BASE | dirty)
    assert set(dirty) == set(environment.dropped)
    assert environment.values["SPECSWITCH_NONCE"] == "n"
    left = set(environment.values) & (set(dirty) - {"SPECSWITCH_NONCE"})
    assert left == set()
    assert set(BASE) <= set(environment.values)


@pytest.mark.parametrize("name", ["SGLANG_SIMULATE_ACC_LEN", "SGLANG_TEST_RETRACT"])
def test_inherited_simulation_is_refused(name: str) -> None:
    """Field case A26: SGLANG_SIMULATE_ACC_LEN left over from an earlier cell."""
    with pytest.raises(EnvironmentRefusedError, match=name):
        build(inherited=BASE | {name: "3"})


def test_simulation_that_was_asked_for_needs_the_label() -> None:
    """Field case A26: a simulated run must be labelled."""
    asked = {"SGLANG_SIMULATE_ACC_LEN": "2.5"}
    with pytest.raises(EnvironmentRefusedError, match="synthetic=True"):
        build(extra=asked)
    assert build(extra=asked, synthetic=True).values["SGLANG_SIMULATE_ACC_LEN"] == "2.5"


def test_a_labelled_run_still_takes_its_values_from_the_configuration_only() -> None:
    environment = build(
        synthetic=True,
        inherited=BASE | {"SGLANG_SIMULATE_ACC_LEN": "9"},
        extra={"SGLANG_SIMULATE_ACC_LEN": "2"},
    )
    assert environment.values["SGLANG_SIMULATE_ACC_LEN"] == "2"
    assert (
        "SGLANG_SIMULATE_ACC_LEN"
        not in build(synthetic=True, inherited=BASE | {"SGLANG_SIMULATE_ACC_LEN": "9"}).values
    )


@pytest.mark.parametrize("name", ["SGLANG_ENABLE_SPEC_V2", "SPECSWITCH_NONCE", "SPECSWITCH_CPU"])
def test_reserved_names_cannot_be_set(name: str) -> None:
    with pytest.raises(EnvironmentRefusedError, match=name):
        build(extra={name: "1"})


def test_plugins_without_ours_are_refused() -> None:
    with pytest.raises(EnvironmentRefusedError, match="specswitch"):
        build(extra={"SGLANG_PLUGINS": "other"})


def test_the_cpu_platform_is_chosen_and_cuda_hidden() -> None:
    assert build().values["SPECSWITCH_CPU"] == "1"
    assert build().values["CUDA_VISIBLE_DEVICES"] == ""
    gpu = build(cpu=False, inherited=BASE | {"CUDA_VISIBLE_DEVICES": "1", "SPECSWITCH_CPU": "1"})
    assert "SPECSWITCH_CPU" not in gpu.values
    assert gpu.values["CUDA_VISIBLE_DEVICES"] == "1"


def test_the_record_says_everything_that_was_set_and_no_secret(tmp_path: Path) -> None:
    inherited = BASE | {"HF_TOKEN": "hf_secret", "SGLANG_LOG_X": "1"}
    environment = build(steps_dir=tmp_path, extra={"SGLANG_API_KEY": "s3cret"}, inherited=inherited)
    record = environment.record()
    assert record["set"]["SPECSWITCH_STEPS_DIR"] == str(tmp_path)  # type: ignore[index]
    assert record["set"]["SGLANG_ENABLE_SPEC_V2"] == "1"  # type: ignore[index]
    assert record["dropped"] == ["SGLANG_LOG_X"]
    assert "s3cret" not in str(record)
    assert "hf_secret" not in str(record)
