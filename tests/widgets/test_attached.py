"""What a running server tells of its start becomes parameters that start the same one."""

from __future__ import annotations

from typing import Any

import pytest

from specswitch.models import pair
from specswitch.sweep.parameters import SweepParameters
from specswitch.widgets.attached import parameters_of, path_of

INFO: dict[str, Any] = {
    "model_path": "/models/target",
    "speculative_draft_model_path": "/models/head",
    "dtype": "bfloat16",
    "tp_size": 2,
    "speculative_num_steps": 5,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 16,
    "page_size": 16,
    "max_running_requests": 48,
    "context_length": None,
}


def test_model_shape_and_limits_are_taken_over_the_base() -> None:
    told = parameters_of(INFO, {"lazy_window": 77}, SweepParameters(prompt_tokens=9, tp=1)).changed()
    assert told == {
        "model": "/models/target",
        "draft": "/models/head",
        "prompt_tokens": 9,
        "dtype": "bfloat16",
        "tp": 2,
        "num_steps": 5,
        "topk": 4,
        "num_draft_tokens": 16,
        "page_size": 16,
        "max_running_requests": 48,
        "lazy_window": 77,
    }


def test_the_bundled_pair_and_the_default_draft_width_stay_unnamed() -> None:
    info = {
        "model_path": str(pair.target_dir()),
        "speculative_draft_model_path": str(pair.draft_dir()),
        "speculative_num_steps": 3,
        "speculative_num_draft_tokens": 4,
    }
    assert parameters_of(info, {}, SweepParameters()).changed() == {}


def test_a_target_without_a_draft_cannot_be_swept_and_is_left_out() -> None:
    assert parameters_of({"model_path": "/models/target"}, {}, SweepParameters()).model is None
    base = SweepParameters(model="/models/other", draft="/models/head")
    assert parameters_of({"model_path": "/models/target"}, {}, base).model == "/models/target"


@pytest.mark.parametrize("odd", [{"dtype": "float8"}, {"page_size": "16"}, {"tp_size": 0}])
def test_what_a_sweep_cannot_take_is_left_as_it_was(odd: dict[str, Any]) -> None:
    base = SweepParameters(page_size=4)
    assert parameters_of(odd, {}, base) == base


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"path": "v1", "overlap": False}, "v1"),
        ({"path": "v2", "overlap": True}, "v2"),
        ({"path": "none", "overlap": True}, "none"),
        ({"path": "none", "overlap": False}, "none-sync"),
    ],
)
def test_the_path_is_the_servers_own_word(state: dict[str, Any], path: str) -> None:
    assert path_of(state) == path
