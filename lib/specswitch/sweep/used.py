"""The parameters of a sweep in other commands: what a command does not use is refused, never passed over in silence."""

from __future__ import annotations

from collections.abc import Mapping, Set

from specswitch.config import ServerConfig
from specswitch.serving.errors import PreflightError
from specswitch.sweep.parameters import SweepParameters

# Those that say how a server is started.
SERVER = frozenset(ServerConfig.model_fields) & frozenset(SweepParameters.model_fields) | {
    "cpu_threads",
    "lazy_window",
    "simulated_accept_length",
}


def refuse_unused(
    given: SweepParameters, used: Set[str], what: str, cures: Mapping[str, str] | None = None
) -> None:
    """Raise PreflightError for each parameter that differs from its default and is not among `used`.

    `what` does not use it, e.g. `a soak`; `cures` say, by name, where the same is said instead.
    """
    refused = [
        f"{name}={value!r}: {(cures or {}).get(name, f'{what} does not use this')}, leave it out"
        for name, value in given.changed().items()
        if name not in used
    ]
    if refused:
        raise PreflightError("; ".join(refused))
