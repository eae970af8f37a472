"""The flat parameters of a measuring notebook, typed: what a parameters cell or `-p name value` may say.

`RunParameters` is what every such notebook takes, `SweepParameters` adds what a sweep needs. Each is the one
list of names, types and defaults; the notebook's parameters cell repeats it, and a test compares the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import psutil
from pydantic import Field, ValidationError

from specswitch.config import (
    SHAPE_PREFIX,
    NonNegative,
    Positive,
    Requests,
    ServerConfig,
    Strict,
    SweepPlan,
    Workload,
    project_root,
)
from specswitch.explain import explain
from specswitch.load.crossing_plan import AnyPlan, CrossingPlan
from specswitch.load.prompts import FILE_PREFIX
from specswitch.sweep.arms import parse_arm
from specswitch.sweep.grid import Hold, launch_configs, points
from specswitch.sweep.namespace import plain_values

# What a CPU server with the bundled pair takes, its three processes together (measured: 2.2 GiB).
CPU_SERVER_BYTES = 5 * 2**29
# Far above what pays; the engine's memory grows with the square of it.
MOST_STEPS = 100
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Seconds = Annotated[float, Field(gt=0)]
Sent = TypeVar("Sent", bound=Requests)
PlanOf = TypeVar("PlanOf", SweepPlan, CrossingPlan)


def in_checkout(path: str) -> Path:
    """`path` made absolute: a relative one begins at the checkout's root, `~` is the home folder."""
    return project_root() / Path(path).expanduser()


class ParameterError(ValueError):
    """A parameter is unknown, of the wrong type, or impossible. The message names it and the cure."""


class RunParameters(Strict):
    """Parameters of every measuring notebook, all plain values. Times in seconds.

    `NOTEBOOK` is the notebook's file, `COMMAND` the verb that runs it; subclasses add their own parameters and
    say how they become a plan.

    Relative paths are relative to the checkout, wherever the notebook is started. `out_dir`: run folder; None
    makes a new one under `reports/`. `model`, `draft`: directories; None is the bundled pair, and `shape:NAME` as
    the model stands for both with random weights (see `models.shapes`). `arms`: labels,
    see `arms.FORM`. `hold`: `all` keeps one server per kind up at once, so that repeats interleave; `one`
    starts one at a time; `auto` is all on the CPU where the memory allows it, one on CUDA. `executor`: measure
    from this process, or on the Ray cluster of this machine (RAY_ADDRESS). `cpu_threads`: of a
    CPU server's matrix work; the default leaves a second core to the tokenizer, HTTP and the client, and two
    threads on two cores wait for each other. `num_draft_tokens` None: num_steps + 1. `env`: `NAME=value`, for
    the servers. `simulated_accept_length`: the engine pretends that this many tokens are accepted per verify step,
    whatever the draft says. `synthetic`: label the run as made up in part; simulated acceptance and shapes set it.
    `progress`: a progress bar, for somebody who looks on.
    """

    NOTEBOOK: ClassVar[str]
    COMMAND: ClassVar[str]

    out_dir: str | None = None
    resume: bool = False
    model: str | None = None
    draft: str | None = None
    arms: list[str]
    repeats: Positive = 3
    dataset: str = "pydocs"
    prompt_tokens: Positive = 48
    output_tokens: Positive = 64
    ignore_eos: bool = True
    temperature: Annotated[float, Field(ge=0)] = 0.0
    seed: NonNegative = 1
    request_timeout_s: Seconds = 120.0
    device: Literal["cpu", "cuda"] = "cpu"
    cpu_threads: Positive = 1
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    attention_backend: str | None = None
    tp: Positive = 1
    num_steps: Steps = 3
    topk: Steps = 1
    num_draft_tokens: Positive | None = None
    lazy_window: Positive | None = None
    page_size: Positive = 1
    max_running_requests: Positive = 64
    max_total_tokens: Positive | None = None
    context_length: Positive | None = None
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    ready_timeout_s: Seconds = 300.0
    hold: Literal["auto", "all", "one"] = "auto"
    executor: Literal["local", "ray"] = "local"
    simulated_accept_length: Annotated[float, Field(gt=1)] | None = None
    synthetic: bool = False
    extra_args: list[str] = Field(default=[])
    env: list[str] = Field(default=[])
    progress: bool = True

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The parameters with these values, defaults elsewhere.

        Raises:
            ParameterError: an unknown name (with the nearest known one) or an impossible value.
        """
        unknown = [name for name in values if name not in cls.model_fields]
        if unknown:
            raise ParameterError("; ".join(map(cls._unknown, unknown)))
        try:
            return cls.model_validate(dict(values))
        except ValidationError as problem:
            raise ParameterError(f"parameter {explain(problem)}") from problem

    @classmethod
    def of_namespace(cls, namespace: Mapping[str, Any]) -> Self:
        """The parameters that a notebook's cells have set so far: pass `globals()`.

        Every plain value in it counts, so that a misspelt name is found out however it was injected.

        Raises:
            ParameterError: as `of`.
        """
        return cls.of(plain_values(namespace))

    @classmethod
    def _unknown(cls, name: str) -> str:
        near = get_close_matches(name, cls.model_fields, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(cls.model_fields)}"
        return f"unknown parameter {name!r}: {hint}"

    def changed(self) -> dict[str, Any]:
        """The parameters that differ from the defaults."""
        defaults = self.of({})
        return {k: v for k, v in self.model_dump().items() if v != getattr(defaults, k)}

    def run_dir(self) -> Path:
        """The absolute run folder; a new one under `reports/` when none was given."""
        reports = project_root() / "reports"
        if self.out_dir is None:
            return reports / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        return in_checkout(self.out_dir)

    def held(self) -> Hold:
        """How many servers are up at once."""
        if self.hold != "auto":
            return self.hold
        if self.device == "cuda" or self.executor == "ray":
            return "one"
        servers = len(launch_configs(points(self.plan())))
        enough = psutil.virtual_memory().available >= servers * CPU_SERVER_BYTES
        return "all" if enough else "one"

    def plan(self) -> AnyPlan:
        """The plan that these parameters describe.

        Raises:
            ParameterError: they contradict each other, e.g. a concurrency above max_running_requests.
        """
        raise NotImplementedError

    def _planned(self, make: Callable[..., PlanOf]) -> PlanOf:
        """What `make` makes of the entries of `config.Plan`, checked. Raises as `plan`."""
        model, draft = self._pair()
        try:
            plan = make(
                model=model,
                draft=draft,
                arms=tuple(parse_arm(label, self.lazy_window) for label in self.arms),
                repeats=self.repeats,
                server=self._server(model),
            )
            points(plan)  # a server that an arm asks for may be impossible, too
            return plan
        except ValidationError as problem:
            raise ParameterError(explain(problem)) from problem
        except (ValueError, FileNotFoundError) as problem:
            raise ParameterError(str(problem)) from problem

    @property
    def _shape(self) -> str | None:
        """The name of the shape, where the model is one."""
        model = self.model or ""
        return model.removeprefix(SHAPE_PREFIX) if model.startswith(SHAPE_PREFIX) else None

    def _pair(self) -> tuple[str, str]:
        if self._shape is not None:
            return self._pair_of_shape(self._shape)
        if (self.model is None) != (self.draft is None):
            given, absent = ("model", "draft") if self.draft is None else ("draft", "model")
            raise ParameterError(f"{given} was given without {absent}: an EAGLE-3 draft fits one target only")
        if self.model is None or self.draft is None:
            from specswitch.models import pair

            return str(pair.target_dir()), str(pair.draft_dir())
        return str(in_checkout(self.model)), str(in_checkout(self.draft))

    def _pair_of_shape(self, name: str) -> tuple[str, str]:
        from specswitch.models import shapes

        if self.draft is not None:
            raise ParameterError(f"draft={self.draft!r} with model={self.model!r}: a shape brings its own")
        try:
            target, draft = shapes.shape_dirs(name)
        except KeyError as unknown:
            raise ParameterError(f"model={self.model!r}: {unknown.args[0]}") from unknown
        return str(target), str(draft)

    def _sent(self, kind: type[Sent]) -> Sent:
        """What is sent, as this kind of workload."""
        if self.output_tokens < 2:
            raise ParameterError(
                f"output_tokens={self.output_tokens}: the prompt's own step brings the first token, so that there is "
                "no decode step to measure; give 2 or more"
            )
        values = {name: getattr(self, name) for name in kind.model_fields}
        if self.dataset.startswith(FILE_PREFIX):
            values["dataset"] = f"{FILE_PREFIX}{in_checkout(self.dataset.removeprefix(FILE_PREFIX))}"
        return kind(**values)

    def _server(self, model: str) -> ServerConfig:
        same = set(ServerConfig.model_fields) & set(type(self).model_fields)
        values = {name: getattr(self, name) for name in same - {"model", "draft", "extra_args", "env"}}
        if values["num_draft_tokens"] is None:
            values["num_draft_tokens"] = self.num_steps + 1
        if self._shape is not None:
            values["load_format"] = "dummy"
        values["synthetic"] = (
            self.synthetic or self._shape is not None or self.simulated_accept_length is not None
        )
        return ServerConfig(model=model, extra_args=tuple(self.extra_args), env=self._env(), **values)

    def _env(self) -> dict[str, str]:
        pairs = {}
        for setting in self.env:
            name, equals, value = setting.partition("=")
            if not name or not equals:
                raise ParameterError(f"env {setting!r}: write NAME=value")
            pairs[name] = value
        if self.simulated_accept_length is not None:
            most = self.num_steps + 1
            if self.simulated_accept_length > most:
                raise ParameterError(
                    f"simulated_accept_length={self.simulated_accept_length:g} with num_steps={self.num_steps}: a "
                    f"verify step accepts at most {most} tokens; give {most} or less, or raise num_steps"
                )
            pairs.setdefault("SGLANG_SIMULATE_ACC_LEN", f"{self.simulated_accept_length:g}")
        if self.device == "cpu":
            cores = os.cpu_count() or self.cpu_threads
            if self.cpu_threads > cores:
                raise ParameterError(
                    f"cpu_threads={self.cpu_threads}: this machine has {cores} cores, give {cores} or less"
                )
            pairs.setdefault("OMP_NUM_THREADS", str(self.cpu_threads))
        return pairs


class SweepParameters(RunParameters):
    """Parameters of a sweep: every arm at every one of `concurrencies`, each for warm-up and window (seconds).

    `refill` False: each point is one closed batch instead, see `config.Workload`.
    `ttft_limit_ms`, `tpot_limit_ms`: the report shows the goodput within these limits (None: not asked). They
    judge what was measured and change nothing in it.
    """

    NOTEBOOK: ClassVar[str] = "01-sweep.ipynb"
    COMMAND: ClassVar[str] = "sweep"

    arms: list[str] = Field(
        default=["none", "none-sync", "always-v1", "always-v2", "dynamic-v1-t4", "dynamic-v2-t4"]
    )
    concurrencies: list[Positive] = Field(default=[1, 4, 16, 32])
    refill: bool = True
    warmup_s: Annotated[float, Field(ge=0)] = 0.5
    window_s: Seconds = 2.0
    ttft_limit_ms: Annotated[float, Field(gt=0)] | None = None
    tpot_limit_ms: Annotated[float, Field(gt=0)] | None = None

    def plan(self) -> SweepPlan:
        """The sweep that these parameters describe. Raises ParameterError when they contradict each other."""
        return self._planned(
            lambda **common: SweepPlan(
                **common, concurrencies=tuple(self.concurrencies), workload=self._sent(Workload)
            )
        )
