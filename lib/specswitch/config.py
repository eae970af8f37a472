"""What a user asks for, typed: rule, arm, server, workload, sweep plan. Unknown keys are refused.

Every model is frozen and serialises to canonical JSON, so that a point's identity (`Point.point_id`) is a
hash of exactly what was asked. Nothing here touches the machine: existence of files, ports and devices is
checked by `serving.preflight`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SHAPE_PREFIX = "shape:"  # a model of which only the shape is there
Path_ = Literal["none", "v1", "v2"]
Mode = Literal["none", "always", "off", "dynamic"]
SyncRule = Literal["lazy", "eager", "stale"]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """Base of every config object: frozen, no unknown keys, no silent type changes, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def canonical(self) -> str:
        """Canonical JSON of this object: sorted keys, no spaces. Equal objects give equal strings."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


class Rule(Strict):
    """When to speculate and what happens to the draft KV cache meanwhile.

    `threshold`: largest running batch that still speculates; 0 = never, None = always (stock code path).
    `enable_threshold`: once off, on again only at batch <= this (<= threshold; None = threshold).
    `dwell`: decode steps to stay in a mode at least. `sync`: draft sync rule, None = the server's default.
    """

    threshold: NonNegative | None = None
    enable_threshold: NonNegative | None = None
    dwell: Positive = 1
    sync: SyncRule | None = None
    lazy_window: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Rule:
        if self.enable_threshold is not None:
            if self.threshold is None:
                raise ValueError(
                    f"enable_threshold={self.enable_threshold} without threshold: set threshold, too"
                )
            if self.enable_threshold > self.threshold:
                raise ValueError(
                    f"enable_threshold={self.enable_threshold} is larger than threshold={self.threshold}: "
                    f"give an enable_threshold of {self.threshold} or less, or raise threshold"
                )
        return self


class Arm(Strict):
    """One way to serve. `path` none takes no speculative flags; `overlap` matters for path none only."""

    mode: Mode
    path: Path_ = "none"
    overlap: bool = True
    rule: Rule = Rule()

    @model_validator(mode="after")
    def _consistent(self) -> Arm:
        if (self.mode == "none") != (self.path == "none"):
            raise ValueError(f"arm mode={self.mode!r} does not go with path={self.path!r}")
        if self.mode in ("none", "always") and self.rule.threshold is not None:
            raise ValueError(f"arm mode={self.mode!r} takes no threshold, got {self.rule.threshold}")
        if self.mode == "off" and self.rule.threshold != 0:
            raise ValueError("arm mode='off' means threshold 0")
        if self.mode == "dynamic" and not self.rule.threshold:
            raise ValueError("arm mode='dynamic' needs a threshold >= 1")
        return self

    @property
    def label(self) -> str:
        """Short unique name, used in files, tables and legends, e.g. `dynamic-v2-t8-lazy`."""
        if self.mode == "none":
            return "none" if self.overlap else "none-sync"
        parts: list[str] = [self.mode, self.path]
        r = self.rule
        if self.mode == "dynamic":
            parts.append(f"t{r.threshold}")
            if r.enable_threshold is not None:
                parts.append(f"e{r.enable_threshold}")
        if self.mode in ("off", "dynamic"):
            if r.dwell != 1:
                parts.append(f"d{r.dwell}")
            if r.sync is not None:
                parts.append(r.sync)
        return "-".join(parts)


class ServerConfig(Strict):
    """How to start one server. One launch serves every arm with the same `server_key`.

    `load_format` dummy: random weights and no tokenizer, for models of which only the shape is there.
    """

    model: str
    draft: str | None = None
    path: Path_ = "none"
    overlap: bool = True
    rule: Rule = Rule()
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    load_format: Literal["auto", "dummy"] = "auto"
    attention_backend: str | None = None
    tp: Positive = 1
    num_steps: Positive = 3
    topk: Positive = 1
    num_draft_tokens: Positive = 4
    page_size: Positive = 1
    max_running_requests: Positive = 64
    max_total_tokens: Positive | None = None
    context_length: Positive | None = None
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    seed: NonNegative = 1
    check: bool = False
    synthetic: bool = False
    extra_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    ready_timeout_s: Annotated[float, Field(gt=0)] = 300.0

    @model_validator(mode="after")
    def _dummy_is_synthetic(self) -> ServerConfig:
        if self.load_format == "dummy" and not self.synthetic:
            raise ValueError("load_format='dummy' means random weights: label the run with synthetic=True")
        return self

    @model_validator(mode="after")
    def _draft_goes_with_path(self) -> ServerConfig:
        if self.path == "none" and self.draft is not None:
            raise ValueError("a draft model was given but path is 'none'")
        if self.path != "none" and self.draft is None:
            raise ValueError(f"path={self.path!r} needs a draft model (an EAGLE-3 head for {self.model!r})")
        if self.path == "v2" and self.topk > 1:
            raise ValueError(f"path='v2' with topk={self.topk}: the engine runs topk > 1 on v1 only")
        if self.topk == 1 and self.num_draft_tokens != self.num_steps + 1:
            raise ValueError(
                f"topk=1 with num_steps={self.num_steps} means num_draft_tokens={self.num_steps + 1}, "
                f"got {self.num_draft_tokens}"
            )
        return self


class Requests(Strict):
    """What is sent: prompts, lengths, sampling. `request_timeout_s`: a request that takes longer has failed."""

    dataset: str = "pydocs"
    prompt_tokens: Positive = 48
    output_tokens: Positive = 64
    ignore_eos: bool = True
    temperature: Annotated[float, Field(ge=0)] = 0.0
    seed: NonNegative = 1
    request_timeout_s: Annotated[float, Field(gt=0)] = 120.0


class Workload(Requests):
    """What is sent, closed loop, and how long a point lasts.

    Times in seconds. `window_s` is the target length of the steady window (in-flight >= 0.95 of the
    concurrency); `warmup_s` runs at full concurrency before it and is not counted. `refill` False: a closed
    batch, the concurrency's requests sent once and none replaced; both times then mean nothing.
    """

    refill: bool = True
    warmup_s: Annotated[float, Field(ge=0)] = 1.0
    window_s: Annotated[float, Field(gt=0)] = 4.0


class Point(Strict):
    """One measured cell: arm x workload x concurrency x repeat, on one server configuration."""

    arm: Arm
    server: ServerConfig
    workload: Workload
    concurrency: Positive
    repeat: NonNegative

    @property
    def point_id(self) -> str:
        """`<arm label>-c<concurrency>-r<repeat>-<12 hex of the SHA-256 of the canonical JSON>`."""
        digest = hashlib.sha256(self.canonical().encode()).hexdigest()[:12]
        return f"{self.arm.label}-c{self.concurrency}-r{self.repeat}-{digest}"

    @property
    def load_s(self) -> float:
        """Seconds of load at least, the drain not counted. Not known of a closed batch: 0."""
        return self.workload.warmup_s + self.workload.window_s if self.workload.refill else 0.0


class Plan(Strict):
    """What every plan has: arms x loads x repeats. `server` is the base; an arm sets path, overlap and rule."""

    model: str
    draft: str
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]
    repeats: Positive = 3
    server: ServerConfig

    @model_validator(mode="after")
    def _no_arm_twice(self) -> Self:
        labels = [a.label for a in self.arms]
        if len(set(labels)) != len(labels):
            raise ValueError(f"the same arm twice: {labels}")
        return self

    @model_validator(mode="after")
    def _sync_named_by_all_or_none(self) -> Self:
        """Arms of one path share a server, which keeps the sync rule that was set last."""
        for path in ("v1", "v2"):
            switchable = [a for a in self.arms if a.path == path and a.rule.threshold is not None]
            open_ = [a.label for a in switchable if a.rule.sync is None]
            named = [a.label for a in switchable if a.rule.sync is not None]
            if open_ and named:
                raise ValueError(
                    f"arms {', '.join(open_)} leave the sync rule open while {', '.join(named)} set it on the same "
                    f"server: name it in all, e.g. {open_[0]}-lazy"
                )
        return self


class SweepPlan(Plan):
    """A whole sweep: arms x concurrencies x repeats."""

    concurrencies: Annotated[tuple[Positive, ...], Field(min_length=1)]
    workload: Workload = Workload()

    @model_validator(mode="after")
    def _possible_concurrencies(self) -> SweepPlan:
        if len(set(self.concurrencies)) != len(self.concurrencies):
            raise ValueError(f"the same concurrency twice: {list(self.concurrencies)}")
        too_many = [c for c in self.concurrencies if c > self.server.max_running_requests]
        if too_many:
            raise ValueError(
                f"concurrency {too_many} exceeds max_running_requests={self.server.max_running_requests}: "
                "the server would queue, not run them; raise max_running_requests"
            )
        return self

    @property
    def loads(self) -> Sequence[int]:
        """What each arm is measured under."""
        return self.concurrencies

    def point(self, arm: Arm, server: ServerConfig, at: int, repeat: int) -> Point:
        """The point of `arm` under `loads[at]`."""
        return Point(
            arm=arm, server=server, workload=self.workload, concurrency=self.loads[at], repeat=repeat
        )


def project_root(start: Path | None = None) -> Path:
    """The checkout's root, found from the marker `pyproject.toml` that names specswitch.

    Looks upwards from `start` (default: this file), never at the caller's directory.

    Raises:
        FileNotFoundError: no such marker above `start`.
    """
    here = (start or Path(__file__)).resolve()
    for parent in [here, *here.parents]:
        marker = parent / "pyproject.toml"
        if marker.is_file() and 'name = "specswitch"' in marker.read_text(encoding="utf-8"):
            return parent
    raise FileNotFoundError(f"no specswitch checkout above {here}: run from a clone of the repository")
