"""A command that takes a sweep's parameters refuses those that it would do nothing with."""

from __future__ import annotations

from typing import Any

import pytest

from specswitch.calibration import run
from specswitch.serving.errors import PreflightError
from specswitch.soak import plan
from specswitch.sweep.grid import launch_config, points
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.used import SERVER, refuse_unused

# Of each parameter of a server, something else than the default, and what that needs beside it.
OTHER: dict[str, dict[str, Any]] = {
    "model": {"model": "shape:llama-8b"},
    "draft": {"model": "/m", "draft": "/d"},
    "device": {"device": "cuda"},
    "cpu_threads": {"cpu_threads": 2},
    "dtype": {"dtype": "bfloat16"},
    "attention_backend": {"attention_backend": "triton"},
    "tp": {"tp": 2},
    "num_steps": {"num_steps": 5},
    "topk": {"topk": 2},
    "num_draft_tokens": {"topk": 2, "num_draft_tokens": 6},
    "lazy_window": {"lazy_window": 64},
    "page_size": {"page_size": 16},
    "max_running_requests": {"max_running_requests": 96},
    "max_total_tokens": {"max_total_tokens": 4096},
    "context_length": {"context_length": 512},
    "mem_fraction_static": {"mem_fraction_static": 0.5},
    "port": {"port": 30001},
    "seed": {"seed": 7},
    "ready_timeout_s": {"ready_timeout_s": 10.0},
    "simulated_accept_length": {"simulated_accept_length": 2.0},
    "synthetic": {"synthetic": True},
    "extra_args": {"extra_args": ["--log-requests"]},
    "env": {"env": ["A=b"]},
}


def server_of(values: dict[str, Any]) -> str:
    asked = SweepParameters.of({"arms": ["dynamic-v1-t4"], **values})
    return launch_config(points(asked.plan())[0].server).canonical()


@pytest.mark.parametrize("name", sorted(SERVER))
def test_each_parameter_of_a_server_changes_the_server(name: str) -> None:
    without = {} if name == "draft" else {k: v for k, v in OTHER[name].items() if k != name}
    assert server_of(OTHER[name]) != server_of(without)


class Tomorrow(SweepParameters):
    """A sweep with one parameter more than today."""

    brand_new: int = 0


@pytest.mark.parametrize("used", [run.USED, plan.USED])
def test_a_new_parameter_is_refused_until_it_is_used(used: frozenset[str]) -> None:
    given = Tomorrow.of({"brand_new": 3, "request_timeout_s": 9.0})
    with pytest.raises(PreflightError, match=r"^brand_new=3: this command does not use this, leave it out$"):
        refuse_unused(given, used, "this command")


def test_every_refused_parameter_is_named_at_once_with_its_own_cure() -> None:
    given = SweepParameters.of({"window_s": 9.0, "arms": ["none"]})
    with pytest.raises(PreflightError) as refused:
        refuse_unused(given, run.USED, "a calibration", run.CURES)
    assert "window_s=9.0: a calibration does not use this, leave it out" in str(refused.value)
    assert "arms=['none']: a calibration has none; --path says which worker, leave it out" in str(
        refused.value
    )


@pytest.mark.parametrize("command", [run, plan])
def test_a_cure_is_for_a_parameter_that_exists_and_is_refused(command: Any) -> None:
    assert set(command.CURES) <= set(SweepParameters.model_fields) - set(command.USED)
    assert set(SweepParameters.model_fields) >= command.USED
