"""The drawn tree and the decision agree: many flags, each followed from the root to its worker."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from specswitch.serving.flags import parse_flags
from specswitch.serving.path_rules import PathDecision, decide
from specswitch.serving.path_tree import NODES, ROOT, Question, TreeError, Worker, way

ALGORITHMS = (None, "EAGLE3", "EAGLE", "NEXTN", "STANDALONE", "NGRAM", "DFLASH")
TOPKS = (None, 1, 4)
VARIABLES = (None, "1", "0", "no", "on")
SWITCHES = (
    ("--disable-overlap-schedule",),
    ("--pp-size", "2"),
    ("--enable-multi-layer-eagle",),
    ("--speculative-disable-batch-threshold", "4"),
    ("--speculative-batch-table", "table.json"),
)
SUBSETS = [s for n in range(len(SWITCHES) + 1) for s in itertools.combinations(SWITCHES, n)]


def decision(
    algorithm: str | None, topk: int | None, variable: str | None, switches: tuple[tuple[str, ...], ...] = ()
) -> PathDecision:
    argv = [] if algorithm is None else ["--speculative-algorithm", algorithm]
    if topk is not None:
        argv += ["--speculative-num-steps", "3", "--speculative-eagle-topk", str(topk)]
        argv += ["--speculative-num-draft-tokens", "4"]
    env = {} if variable is None else {"SGLANG_ENABLE_SPEC_V2": variable}
    return decide(parse_flags([*argv, *itertools.chain(*switches)]), env)


def exit_question(found: PathDecision) -> str:
    """The question with the first answer no: where the way leaves the one to v2."""
    return next(s.question for s in found.steps if not s.yes)


def test_every_decision_ends_at_its_own_worker_in_the_tree() -> None:
    """Field case A22."""
    ends = set()
    for algorithm, topk, variable, switches in itertools.product(ALGORITHMS, TOPKS, VARIABLES, SUBSETS):
        found = decision(algorithm, topk, variable, switches)
        end = NODES[way(found)[-1]]
        assert isinstance(end, Worker)
        assert end.path == found.path
        assert end.worker_class in (None, found.worker_class)
        assert all(step.why for step in found.steps)
        ends.add(way(found)[-1])
    assert ends == {key for key, node in NODES.items() if isinstance(node, Worker)}


@pytest.mark.parametrize(
    ("asked", "question"),
    [
        ((None, None, None), "algorithm"),
        (("NGRAM", None, None), "eagle"),
        (("EAGLE3", 1, None, (SWITCHES[2],)), "eagle"),
        (("EAGLE3", 1, None, (SWITCHES[0],)), "overlap"),
        (("EAGLE3", 1, None, (SWITCHES[1],)), "overlap"),
        (("EAGLE3", 4, "0", (SWITCHES[0],)), "overlap"),
        (("EAGLE3", 4, "0"), "topk"),
        (("EAGLE3", 1, "0"), "spec_v2"),
        (("EAGLE3", 1, "1"), "rule-v2"),
    ],
)
def test_the_way_leaves_at_the_question_that_decided(asked: tuple, question: str) -> None:
    assert exit_question(decision(*asked)) == question


def test_every_node_is_reached_from_the_root_once_asked() -> None:
    reached, todo = set(), [ROOT]
    while todo:
        key = todo.pop()
        reached.add(key)
        node = NODES[key]
        todo += [node.yes, node.no] if isinstance(node, Question) else []
    assert reached == set(NODES)


def test_a_tree_and_a_decision_that_differ_are_refused() -> None:
    found = decision("EAGLE3", 1, None)
    with pytest.raises(TreeError, match="ends at v2"):
        way(dataclasses.replace(found, path="v1", worker_class="EAGLEWorker"))
    with pytest.raises(TreeError, match="'algorithm'"):
        way(dataclasses.replace(found, steps=found.steps[1:]))
    with pytest.raises(TreeError, match="question"):
        way(dataclasses.replace(found, steps=found.steps[:-1]))
    with pytest.raises(TreeError, match="the tree is at 'stock-v2'"):
        way(dataclasses.replace(found, steps=(*found.steps, found.steps[-1])))
