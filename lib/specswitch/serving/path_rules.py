"""Which worker class SGLang 0.5.12 takes for given flags and environment, and why: the engine's rules as functions.

They restate `ServerArgs._handle_speculative_decoding` and `SpeculativeAlgorithm.create_worker`; a test compares
them with the engine's own decision over the whole matrix. Not covered: models with a Mamba state, whose cache
settings may switch the overlap scheduler off, and devices other than CUDA and the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specswitch.serving.errors import FlagError
from specswitch.serving.flags import ServerFlags

SPEC_V2_ENV = "SGLANG_ENABLE_SPEC_V2"
TRUE_WORDS = ("true", "1", "yes", "y")
FALSE_WORDS = ("false", "0", "no", "n")
PLAIN_WORKER = "TpModelWorker"

_EAGLE_NAMES = ("EAGLE", "EAGLE3", "NEXTN")
_NO_OVERLAP = {"DFLASH": "DFlashWorker", "FROZEN_KV_MTP": "FrozenKVMTPWorker", "NGRAM": "NGRAMWorker"}
_DEFAULT_5_4_8 = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")


@dataclass(frozen=True, slots=True)
class Step:
    """One question on the way to the worker: its key in `path_tree.NODES`, the answer, and why, in words."""

    question: str
    yes: bool
    why: str


@dataclass(frozen=True, slots=True)
class PathDecision:
    """What the engine will do.

    `path`: none, v1, v2, or `other` for a speculative worker without a Specswitch counterpart. `worker_class`:
    the class that the scheduler will hold; `stock_class`: the engine's own class below it. `refused`: why the
    engine or the switch would end or crash on these flags; empty if they work. `steps`: the questions that were
    asked, in the order of `path_tree`.
    """

    path: Literal["none", "v1", "v2", "other"]
    worker_class: str
    stock_class: str
    overlap: bool
    num_steps: int | None
    topk: int | None
    num_draft_tokens: int | None
    reasons: tuple[str, ...]
    refused: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def supported(self) -> bool:
        """Whether these flags give a server that runs, on a path that Specswitch knows."""
        return not self.refused and self.path != "other"


def spec_v2_enabled(value: str | None) -> tuple[bool, str]:
    """The engine's reading of SGLANG_ENABLE_SPEC_V2, and the reading in words."""
    if value is None:
        return True, f"{SPEC_V2_ENV} is unset, which means true"
    if value.lower() in TRUE_WORDS:
        return True, f"{SPEC_V2_ENV}={value} means true"
    if value.lower() in FALSE_WORDS:
        return False, f"{SPEC_V2_ENV}={value} means false"
    words = ", ".join(TRUE_WORDS + FALSE_WORDS)
    return True, f"{SPEC_V2_ENV}={value!r} is none of {words}: the engine warns and takes its default, true"


def decide(
    flags: ServerFlags,
    env: Mapping[str, str],
    target_architecture: str | None = None,
    draft_architecture: str | None = None,
) -> PathDecision:
    """Say which worker these flags and this environment give.

    Args:
        flags: parsed server flags.
        env: the server's environment.
        target_architecture, draft_architecture: from the models' config.json; None if not known.

    Raises:
        FlagError: the engine does not know the speculative algorithm.
    """
    off = _overlap_switched_off(flags, env)
    overlap, reasons = not off, list(off)
    algorithm = _resolve_algorithm(flags, draft_architecture, reasons)
    if algorithm is None:
        reasons.append("no --speculative-algorithm: the scheduler holds the plain target worker")
        refused = ["a switching rule was given without --speculative-algorithm: there is nothing to switch"]
        return PathDecision(
            path="none",
            worker_class=PLAIN_WORKER,
            stock_class=PLAIN_WORKER,
            overlap=overlap,
            num_steps=None,
            topk=None,
            num_draft_tokens=None,
            reasons=tuple(reasons),
            refused=tuple(refused if flags.dynamic else ()),
            steps=(Step("algorithm", False, "no --speculative-algorithm"),),
        )
    known = _single_layer_eagle(flags, algorithm)
    asked = [Step("algorithm", True, f"--speculative-algorithm {flags.speculative_algorithm}"), known]
    overlap, about_overlap = _overlap_with_speculation(flags, env, algorithm, off, reasons)
    steps, topk, tokens, refused = _draft_shape(flags, algorithm, target_architecture, reasons)
    stock = _stock_class(flags, algorithm, overlap)
    path: Literal["v1", "v2", "other"] = "other"
    if known.yes:
        path = "v2" if overlap else "v1"
        asked += [*about_overlap, _rule_given(flags, path)]
        if overlap and topk is not None and topk > 1:
            refused.append(
                f"top-k {topk} is filled in after v2 was chosen, and the v2 worker takes top-k 1 only: give "
                "all three, e.g. --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
            )
    elif flags.dynamic:
        refused.append(f"{stock} has no switch: it exists for EAGLEWorker and EAGLEWorkerV2 only")
    if flags.dynamic:
        refused += _switch_refusals(flags)
    dynamic = flags.dynamic and path != "other"
    reasons.append(f"{algorithm} {'with' if overlap else 'without'} the overlap scheduler takes {stock}")
    if dynamic:
        reasons.append(f"a switching rule was given: Dynamic{stock} takes its place")
    return PathDecision(
        path=path,
        worker_class=f"Dynamic{stock}" if dynamic else stock,
        stock_class=stock,
        overlap=overlap,
        num_steps=steps,
        topk=topk,
        num_draft_tokens=tokens,
        reasons=tuple(reasons),
        refused=tuple(refused),
        steps=tuple(asked),
    )


def _overlap_switched_off(flags: ServerFlags, env: Mapping[str, str]) -> tuple[str, ...]:
    """What switches the overlap scheduler off, speculation apart; empty if nothing does."""
    off = []
    if flags.disable_overlap_schedule:
        off.append("--disable-overlap-schedule: no overlap scheduler")
    if flags.pipeline_parallel_size > 1:
        off.append(
            f"pipeline parallel size {flags.pipeline_parallel_size} switches the overlap scheduler off"
        )
    if "SGLANG_EMBEDDINGS_SPARSE_HEAD" in env:
        off.append("SGLANG_EMBEDDINGS_SPARSE_HEAD switches the overlap scheduler off")
    return tuple(off)


def _resolve_algorithm(flags: ServerFlags, draft_architecture: str | None, reasons: list[str]) -> str | None:
    if flags.speculative_algorithm is None:
        return None
    name = flags.speculative_algorithm.upper()
    if name not in (*_EAGLE_NAMES, *_NO_OVERLAP, "STANDALONE"):
        raise FlagError(
            f"--speculative-algorithm {flags.speculative_algorithm}: the engine knows EAGLE3, EAGLE, NEXTN, "
            "STANDALONE, NGRAM, DFLASH"
        )
    if name in ("EAGLE", "NEXTN") and draft_architecture == "Gemma4AssistantForCausalLM":
        reasons.append(f"{name} with a Gemma 4 assistant draft becomes FROZEN_KV_MTP")
        return "FROZEN_KV_MTP"
    if name == "NEXTN":
        reasons.append("NEXTN is another name for EAGLE")
        return "EAGLE"
    return name


def _single_layer_eagle(flags: ServerFlags, algorithm: str) -> Step:
    if algorithm not in ("EAGLE", "EAGLE3"):
        return Step("eagle", False, f"{algorithm} has a worker of its own")
    if flags.enable_multi_layer_eagle:
        return Step("eagle", False, "--enable-multi-layer-eagle has a worker of its own")
    return Step("eagle", True, algorithm)


def _overlap_with_speculation(
    flags: ServerFlags, env: Mapping[str, str], algorithm: str, off: Sequence[str], reasons: list[str]
) -> tuple[bool, list[Step]]:
    """Whether the overlap scheduler runs, and the questions that decided it."""
    if algorithm in _NO_OVERLAP:
        reasons.append(f"{algorithm} runs without the overlap scheduler")
        return False, []
    steps = [Step("overlap", not off, "; ".join(off) or "nothing switches it off")]
    if off:
        return False, steps
    topk = flags.speculative_eagle_topk
    if topk is not None and topk > 1:
        reasons.append(f"--speculative-eagle-topk {topk}: more than 1 runs on v1 only")
        return False, [*steps, Step("topk", False, reasons[-1])]
    steps.append(Step("topk", True, "not given" if topk is None else f"--speculative-eagle-topk {topk}"))
    enabled, words = spec_v2_enabled(env.get(SPEC_V2_ENV))
    reasons.append(words)
    return enabled, [*steps, Step("spec_v2", enabled, words)]


def _rule_given(flags: ServerFlags, path: str) -> Step:
    if flags.speculative_batch_table is not None:
        why = "--speculative-batch-table"
    elif flags.speculative_disable_batch_threshold is not None:
        why = f"--speculative-disable-batch-threshold {flags.speculative_disable_batch_threshold}"
    else:
        why = "no threshold and no batch table"
    return Step(f"rule-{path}", flags.dynamic, why)


def _draft_shape(
    flags: ServerFlags, algorithm: str, target_architecture: str | None, reasons: list[str]
) -> tuple[int | None, int | None, int | None, list[str]]:
    """(steps, top-k, draft tokens) as the engine fills them in, and why it would fail."""
    given = {
        "--speculative-num-steps": flags.speculative_num_steps,
        "--speculative-eagle-topk": flags.speculative_eagle_topk,
        "--speculative-num-draft-tokens": flags.speculative_num_draft_tokens,
    }
    steps, topk, tokens = given.values()
    if algorithm in _NO_OVERLAP:
        return steps, topk, tokens, []
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == 3:
        default = (
            (5, 4, 8) if target_architecture in _DEFAULT_5_4_8 and algorithm != "STANDALONE" else (3, 1, 4)
        )
        reasons.append(f"no draft shape given: the engine fills in steps, top-k, draft tokens = {default}")
        return *default, []
    if steps is None or topk is None or tokens is None:
        return (
            steps,
            topk,
            tokens,
            [f"{', '.join(missing)} missing: give all three of {', '.join(given)} or none, e.g. 3 1 4"],
        )
    refused = []
    if topk == 1 and tokens != steps + 1:
        reasons.append(f"with top-k 1 the engine makes draft tokens {tokens} into steps + 1 = {steps + 1}")
        tokens = steps + 1
    if topk > 1 and (flags.page_size or 1) > 1 and flags.attention_backend not in ("flashinfer", "fa3"):
        refused.append(
            f"top-k {topk} with page size {flags.page_size}: the engine allows it with the attention backends "
            "flashinfer and fa3 only; use --page-size 1"
        )
    return steps, topk, tokens, refused


def _stock_class(flags: ServerFlags, algorithm: str, overlap: bool) -> str:
    if algorithm in _NO_OVERLAP:
        return _NO_OVERLAP[algorithm]
    suffix = "V2" if overlap else ""
    if algorithm == "STANDALONE":
        return f"StandaloneWorker{suffix}"
    if flags.enable_multi_layer_eagle:
        return f"MultiLayerEagleWorker{suffix}"
    return f"EAGLEWorker{suffix}"


def _switch_refusals(flags: ServerFlags) -> list[str]:
    """Combinations in which the decision would not be the same everywhere, or another feature interferes."""
    refused = []
    if flags.enable_dp_attention:
        refused.append("DP attention: ranks see different batches and could decide differently")
    if flags.pipeline_parallel_size > 1:
        refused.append(f"pipeline parallel size {flags.pipeline_parallel_size}: the switch needs 1")
    if flags.enable_two_batch_overlap:
        refused.append("--enable-two-batch-overlap splits batches by their verify shape")
    if flags.speculative_adaptive:
        refused.append("--speculative-adaptive changes the draft width behind the switch: use one of the two")
    return refused
