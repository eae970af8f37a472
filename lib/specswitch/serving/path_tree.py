"""The engine's decision as a tree: its questions, the workers at its ends, and the way that given flags take.

The shape only. Which way flags go and why is said by `path_rules.decide` (`PathDecision.steps`); a test walks many
flags and demands that the two end at the same worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from specswitch.serving.path_rules import PLAIN_WORKER, PathDecision


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `yes`, `no`: keys of the nodes that follow."""

    text: str
    yes: str
    no: str


@dataclass(frozen=True, slots=True)
class Worker:
    """One end. `worker_class`: None where there are several. `file`: the engine's source file of the path."""

    path: str
    worker_class: str | None
    file: str | None


_V1, _V2 = "sglang/srt/speculative/eagle_worker.py", "sglang/srt/speculative/eagle_worker_v2.py"
_RULE = "is a switching rule given?"

ROOT = "algorithm"
NODES: dict[str, Question | Worker] = {
    "algorithm": Question("Is a speculative algorithm given?", yes="eagle", no="none"),
    "eagle": Question("Is it EAGLE, EAGLE3 or NEXTN, single-layer?", yes="overlap", no="other"),
    "overlap": Question("Is the overlap scheduler left on?", yes="topk", no="rule-v1"),
    "topk": Question("Is top-k 1, or not given?", yes="spec_v2", no="rule-v1"),
    "spec_v2": Question("Does SGLANG_ENABLE_SPEC_V2 mean true?", yes="rule-v2", no="rule-v1"),
    "rule-v1": Question(f"Path v1: {_RULE}", yes="dynamic-v1", no="stock-v1"),
    "rule-v2": Question(f"Path v2: {_RULE}", yes="dynamic-v2", no="stock-v2"),
    "none": Worker("none", PLAIN_WORKER, "sglang/srt/managers/tp_worker.py"),
    "other": Worker("other", None, None),
    "stock-v1": Worker("v1", "EAGLEWorker", _V1),
    "dynamic-v1": Worker("v1", "DynamicEAGLEWorker", _V1),
    "stock-v2": Worker("v2", "EAGLEWorkerV2", _V2),
    "dynamic-v2": Worker("v2", "DynamicEAGLEWorkerV2", _V2),
}


class TreeError(ValueError):
    """The tree and the decision do not go together: one of the two was changed alone."""


def following(key: str, yes: bool) -> str:
    """Key of the node that follows this answer to the question `key`. Raises TreeError if that is no question."""
    node = NODES[key]
    if not isinstance(node, Question):
        raise TreeError(f"{key!r} is no question: nothing follows")
    return node.yes if yes else node.no


def way(decision: PathDecision) -> list[str]:
    """Keys of the nodes that a decision passes, from the root to its worker.

    Raises:
        TreeError: a step answers another question than the tree asks there, or the way ends at none or another
            worker.
    """
    keys = [ROOT]
    for step in decision.steps:
        if step.question != keys[-1]:
            raise TreeError(f"the tree is at {keys[-1]!r}, the decision answers {step.question!r}")
        keys.append(following(step.question, step.yes))
    worker_at(keys[-1], decision)
    return keys


def worker_at(key: str, decision: PathDecision) -> Worker:
    """The worker node `key`, at which this decision ends. Raises TreeError if it does not."""
    end = NODES[key]
    if not isinstance(end, Worker):
        raise TreeError(f"the decision for {decision.worker_class} ends at the question {key!r}")
    if end.path != decision.path or end.worker_class not in (None, decision.worker_class):
        raise TreeError(
            f"the tree ends at {end.path}, {end.worker_class}; the decision is {decision.path}, "
            f"{decision.worker_class}"
        )
    return end
