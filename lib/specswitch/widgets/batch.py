"""The parameters of a sweep as text that the command takes back: one shell line, or YAML."""

from __future__ import annotations

import json
import shlex
from typing import Any

import yaml

from specswitch.sweep.parameters import SweepParameters


def command_line(parameters: SweepParameters) -> str:
    """`specswitch sweep -p NAME VALUE ...` with everything that is not at its default."""
    words = ["specswitch", "sweep"]
    for name, value in parameters.changed().items():
        words += ["-p", name, _text(value)]
    return shlex.join(words)


def as_yaml(parameters: SweepParameters) -> str:
    """The same as YAML, for `specswitch sweep -y`."""
    return yaml.safe_dump(parameters.changed(), sort_keys=False, allow_unicode=True)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)
