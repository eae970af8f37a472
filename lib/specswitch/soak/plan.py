"""What a soak does, checked before anything starts: its servers, its requests, how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specswitch.config import Point, ServerConfig
from specswitch.load.prompts import Prompts
from specswitch.soak.asks import Mix
from specswitch.sweep.grid import launch_config, points
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.precheck import precheck
from specswitch.sweep.used import SERVER, refuse_unused

SpeculatingPath = Literal["v1", "v2"]
# A small pool: the prefix cache fills it within seconds, then slots are evicted and used again all the time.
DEFAULTS = {"prompt_tokens": 96, "output_tokens": 64, "max_total_tokens": 2560}
# The parameters of a sweep that a soak uses.
USED = SERVER | {"dataset", "prompt_tokens", "output_tokens", "request_timeout_s"}
CURES = {
    "arms": "--path and --threshold say what is soaked",
    "concurrencies": "the load goes up to three times the --threshold",
    "repeats": "--requests and --minutes say how much",
    "out_dir": "--out says where the results go",
    "temperature": "a soak draws it anew for each request",
    "ignore_eos": "a soak draws it anew for each request",
}
STRICT = {
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
}
# glibc: give large blocks back to the system when they are freed, instead of keeping ever more of them for later. Of
# resident memory that is growth without a leak, and the noise in which a leak hides.
STEADY_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """A checked soak. `servers` by path, `plain` to compare with; `seconds` of load per path at most."""

    servers: dict[str, ServerConfig]
    plain: ServerConfig
    prompts: Prompts
    mix: Mix
    threshold: int
    peak: int
    requests: int
    seconds: float
    seed: int
    request_timeout_s: float


def make_plan(
    parameters: SweepParameters,
    folder: Path,
    *,
    paths: Sequence[SpeculatingPath],
    threshold: int,
    requests: int,
    minutes: float,
) -> SoakPlan:
    """Check a soak of `paths`. Of the parameters, prompt and output tokens are the longest lengths (see DEFAULTS).

    The load goes up to three times the threshold. `minutes` are for all paths together.

    Raises as `sweep.precheck.precheck`, and PreflightError for parameters that are not `USED`.
    """
    refuse_unused(parameters, USED, "a soak", CURES)
    peak = 3 * threshold
    arms = ["none", *(f"dynamic-{path}-t{threshold}" for path in paths)]
    ours = SweepParameters.of({**parameters.changed(), "arms": arms, "concurrencies": [peak], "repeats": 1})
    checked = precheck(ours.plan(), folder, hold="one")
    by_path = {p.server.path: p for p in points(ours.plan(), "one")}
    return SoakPlan(
        servers={path: _strict(by_path[path]) for path in paths},
        plain=by_path["none"].server,
        prompts=checked.prompts,
        mix=Mix(longest_prompt=ours.prompt_tokens, longest_output=ours.output_tokens),
        threshold=threshold,
        peak=peak,
        requests=requests,
        seconds=60 * minutes / len(paths),
        seed=ours.seed,
        request_timeout_s=ours.request_timeout_s,
    )


def _strict(point: Point) -> ServerConfig:
    """The server of a point with every check that there is: the engine's of its pools, and ours of the batch.

    Its resident memory shows what is in use; a variable that the caller gave stays as given.
    """
    server = launch_config(point.server)
    return server.model_copy(update={"check": True, "env": {**STEADY_HEAP, **server.env, **STRICT}})
