"""What a running server says about its own start, as the parameters that a sweep would start it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specswitch.models import pair
from specswitch.sweep.parameters import ParameterError, SweepParameters
from specswitch.widgets.parameters import Kind

# The engine's name of an argument -> ours.
NAMES = {
    "model_path": "model",
    "speculative_draft_model_path": "draft",
    "dtype": "dtype",
    "tp_size": "tp",
    "speculative_num_steps": "num_steps",
    "speculative_eagle_topk": "topk",
    "speculative_num_draft_tokens": "num_draft_tokens",
    "page_size": "page_size",
    "max_running_requests": "max_running_requests",
    "context_length": "context_length",
}


def path_of(state: Mapping[str, Any]) -> Kind:
    """How the server runs, from its state."""
    if state.get("path") in ("v1", "v2"):
        return state["path"]
    return "none" if state.get("overlap", True) else "none-sync"


def parameters_of(
    info: Mapping[str, Any], state: Mapping[str, Any], base: SweepParameters
) -> SweepParameters:
    """`base` with what /server_info and our state in it tell; what a sweep cannot take is left as in `base`."""
    told = {ours: info[theirs] for theirs, ours in NAMES.items() if info.get(theirs) is not None}
    if state.get("lazy_window") is not None:
        told["lazy_window"] = state["lazy_window"]
    if told.get("model") == str(pair.target_dir()):
        told.pop("model")
        told.pop("draft", None)
    elif "draft" not in told and base.draft is None:
        told.pop("model", None)  # a sweep wants both or none
    if told.get("num_draft_tokens") == told.get("num_steps", base.num_steps) + 1:
        told.pop("num_draft_tokens")  # the default
    values = base.changed()
    for name, value in told.items():
        try:
            SweepParameters.of({name: value})
        except ParameterError:
            continue
        values[name] = value
    return SweepParameters.of(values)
