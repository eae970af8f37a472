"""Everything that can be wrong with a run and can be known before a server is started, in a few seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from specswitch.config import ServerConfig
from specswitch.load.crossing_plan import AnyPlan, AnyPoint, CrossingPoint
from specswitch.load.prompts import Prompts
from specswitch.load.shapes import ArrivalShape
from specswitch.results.layout import ResultsError
from specswitch.results.lock import BusyError, is_locked
from specswitch.results.manifest import RunRequest
from specswitch.results.provenance import shorten
from specswitch.results.store import check_open, check_resume
from specswitch.serving import model_files
from specswitch.serving.argv import redact, server_flags
from specswitch.serving.errors import PreflightError
from specswitch.serving.flags import parse_flags
from specswitch.serving.lengths import check_lengths
from specswitch.serving.spec import spec_from_config
from specswitch.sweep import grid
from specswitch.sweep.prompting import prompts_of


@dataclass(frozen=True, slots=True)
class Checked:
    """A run that can begin: its points in order, its servers and their commands, its first prompts."""

    points: Sequence[AnyPoint]
    servers: list[ServerConfig]
    commands: list[list[str]]
    prompts: Prompts

    def describe(self) -> str:
        """What would be done, in lines of text."""
        names = [grid.server_name(s) for s in self.servers]
        commands = [
            f"  {name}{self._rules(server)}: {' '.join(shorten(redact(command)))}"
            for name, server, command in zip(names, self.servers, self.commands, strict=True)
        ]
        seconds = sum(point.load_s for point in self.points)
        return "\n".join(
            [
                f"{len(self.points)} points, at least {seconds:,.0f} s of load, on {len(self.servers)} servers:",
                *commands,
                "in this order:",
                *(f"  {p.point_id}" for p in self.points),
            ]
        )

    def _rules(self, server: ServerConfig) -> str:
        """Of a server with a rule: it is started with any, and told each point's own before the point."""
        if server.rule.threshold is None:
            return ""
        served = [p.arm for p in self.points if grid.launch_config(p.server) == server]
        measured = ", ".join(
            str(t) for t in sorted({a.rule.threshold for a in served if a.rule.threshold is not None})
        )
        return f" (threshold and the rest of the rule: set per point; thresholds measured: {measured})"


def precheck(plan: AnyPlan, out_dir: Path, *, resume: bool = False, hold: grid.Hold = "all") -> Checked:
    """Check folder, models, prompts, lengths, ports and what each server would run. Starts and writes nothing.

    Raises:
        ResultsError: the folder cannot be written or holds another run. BusyError: somebody writes there.
        PreflightError: a server of the plan, or its prompts, cannot work.
    """
    if not out_dir.is_absolute():
        raise ResultsError(f"run folder {str(out_dir)!r}: give an absolute path")
    check_open(out_dir, resume)
    if is_locked(out_dir):
        raise BusyError(
            f"another run is writing into {out_dir}: wait for it, or choose another output folder"
        )
    points = grid.points(plan, hold)
    _check_arrivals(points)
    check_resume(out_dir, RunRequest(plan, points))
    servers = grid.launch_configs(points)
    if plan.server.port is not None and hold == "all" and len(servers) > 1:
        raise PreflightError(
            f"port {plan.server.port} for {len(servers)} servers at once: leave the port open, or hold='one'"
        )
    scratch_log = Path(tempfile.gettempdir()) / "not-written.log"
    commands = [list(spec_from_config(server, scratch_log).argv) for server in servers]
    _check_cache_fits(plan)
    workload = plan.workload
    for server in servers:
        flags = parse_flags(server_flags(server, 1))
        check_lengths(flags, server.path, workload.prompt_tokens, workload.output_tokens)
    try:
        prompts = prompts_of(points[0])
    except (ValueError, FileNotFoundError) as problem:
        raise PreflightError(str(problem)) from problem
    return Checked(points, servers, commands, prompts)


def _check_arrivals(points: Sequence[AnyPoint]) -> None:
    """Raise PreflightError for a random load that, in some repeat, never sends anything."""
    for point in points:
        if not isinstance(point, CrossingPoint) or not isinstance(point.shape, ArrivalShape):
            continue
        if not point.shape.arrivals(point.repeat):
            raise PreflightError(
                f"load {point.shape.text!r}: nothing arrives in repeat {point.repeat}: give a higher rate, a longer "
                "duration or another seed"
            )


def _check_cache_fits(plan: AnyPlan) -> None:
    """Raise PreflightError where a CPU server's KV cache alone is larger than this machine's memory.

    Of a model whose configuration does not say how large a token's K and V are, nothing is said.
    """
    tokens = plan.server.max_total_tokens
    if tokens is None or plan.server.device != "cpu":
        return
    sizes = model_files.text_config(model_files.read_config(Path(plan.model), "model"))
    heads = sizes.get("num_key_value_heads") or sizes.get("num_attention_heads")
    width = sizes.get("head_dim") or (sizes.get("hidden_size") or 0) // (
        sizes.get("num_attention_heads") or 1
    )
    layers = sizes.get("num_hidden_layers")
    if not (heads and width and layers):
        return
    of_token = 2 * layers * heads * width * (4 if plan.server.dtype == "float32" else 2)
    here = psutil.virtual_memory().total
    if tokens * of_token > here:
        raise PreflightError(
            f"max_total_tokens={tokens}: K and V of so many tokens take {tokens * of_token / 2**30:,.0f} GiB, this "
            f"machine has {here / 2**30:,.0f}: give less than {here // of_token}"
        )
