"""The parameters that a notebook's cells have set: the plain values among all that its namespace holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN = (bool, int, float, str, list, dict, tuple, type(None))
# What a notebook's namespace holds besides the user's own plain values.
_NOT_PARAMETERS = ("In", "Out")


def plain_values(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Names and values that may be parameters: pass `globals()`. Modules, functions, private names are none."""
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in _NOT_PARAMETERS and isinstance(value, _PLAIN)
    }
