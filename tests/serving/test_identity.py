"""Each way in which a server can be another than the one asked for is an error of its own."""

from __future__ import annotations

from typing import Any

import pytest

from specswitch import __version__
from specswitch.config import Rule
from specswitch.serving import errors
from specswitch.serving.flags import parse_flags
from specswitch.serving.identity import Expected, check_identity
from specswitch.serving.path_rules import decide

URL = "http://127.0.0.1:1"
FLAGS = [
    *("--model-path", "m", "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
]
RULE = Rule(threshold=8, enable_threshold=4, dwell=2, sync="lazy")


def expected(tp: int = 1) -> Expected:
    flags = parse_flags([*FLAGS, "--speculative-disable-batch-threshold", "8"])
    return Expected("ours", decide(flags, {}), RULE, tp)


def state(**changes: Any) -> dict[str, Any]:
    return {
        "version": __version__,
        "nonce": "ours",
        "tp_rank": 0,
        "path": "v2",
        "worker_class": "DynamicEAGLEWorkerV2",
        "overlap": True,
        "topk": 1,
        "num_draft_tokens": 4,
        "threshold": 8,
        "enable_threshold": 4,
        "dwell": 2,
        "ranges": None,
        "sync": "lazy",
        "lazy_window": 128,
    } | changes


def info(**changes: Any) -> dict[str, Any]:
    return {"version": "0.5.12.post1", "internal_states": [{"specswitch": state(**changes)}]}


def test_the_server_that_was_asked_for_passes() -> None:
    assert check_identity(info(), expected(), URL)["worker_class"] == "DynamicEAGLEWorkerV2"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"nonce": "theirs"}, errors.NotOurServerError),
        ({"nonce": None}, errors.NotOurServerError),
        ({"version": "0.0.1"}, errors.VersionMismatchError),
        ({"path": "v1"}, errors.PathMismatchError),
        ({"worker_class": "EAGLEWorkerV2"}, errors.WorkerClassMismatchError),
        ({"worker_class": "EAGLEWorker"}, errors.WorkerClassMismatchError),
        ({"overlap": False}, errors.ShapeMismatchError),
        ({"num_draft_tokens": 8}, errors.ShapeMismatchError),
        ({"topk": 2}, errors.ShapeMismatchError),
        ({"threshold": 16}, errors.RuleMismatchError),
        ({"threshold": None}, errors.RuleMismatchError),
        ({"enable_threshold": None}, errors.RuleMismatchError),
        ({"dwell": 1}, errors.RuleMismatchError),
        ({"ranges": [[1, 8]]}, errors.RuleMismatchError),
        ({"sync": "eager"}, errors.RuleMismatchError),
        ({"tp_rank": 1}, errors.RankCountError),
    ],
)
def test_every_difference_is_refused_with_its_own_class(
    changes: dict[str, Any], error: type[errors.IdentityError]
) -> None:
    """Field case A22: asked is compared with what the running server says; a difference is an error."""
    with pytest.raises(error) as caught:
        check_identity(info(**changes), expected(), URL)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ranges": [[1, 8]]}, r"ranges: asked \[\[1, 8\], \[33, 64\]\], the server has \[\[1, 8\]\]"),
        ({"ranges": None}, "the batch table did not arrive"),
        ({"threshold": 8}, "threshold"),
        ({"dwell": 1}, "dwell"),
        ({"sync": "eager"}, "sync"),
    ],
)
def test_a_batch_table_has_to_be_in_force_with_the_rest_of_its_rule(
    changes: dict[str, Any], named: str
) -> None:
    rule = Rule(dwell=2, sync="lazy")
    asked = Expected("ours", expected().decision, rule, ranges=((1, 8), (33, 64)))
    as_asked = {"threshold": None, "enable_threshold": None, "ranges": [[1, 8], [33, 64]]}
    check_identity(info(**as_asked), asked, URL)
    with pytest.raises(errors.RuleMismatchError, match=named):
        check_identity(info(**as_asked | changes), asked, URL)


def test_the_message_names_both_sides_and_the_reason() -> None:
    with pytest.raises(errors.PathMismatchError, match=r"asked 'v2'.*'v1'.*overlap scheduler"):
        check_identity(info(path="v1"), expected(), URL)


@pytest.mark.parametrize("answer", [{}, {"internal_states": []}, {"internal_states": [{}]}])
def test_a_stock_engine_is_refused_as_that(answer: dict[str, Any]) -> None:
    with pytest.raises(errors.PluginMissingError, match="stock SGLang"):
        check_identity(answer, expected(), URL)


def test_a_field_that_is_not_reported_is_not_taken_for_equal() -> None:
    incomplete = info()
    del incomplete["internal_states"][0]["specswitch"]["overlap"]
    with pytest.raises(errors.ShapeMismatchError, match="does not report"):
        check_identity(incomplete, expected(), URL)


def test_every_rank_has_to_report_and_to_agree() -> None:
    two = state() | {"ranks": [state(), state(tp_rank=1)]}
    assert check_identity({"internal_states": [{"specswitch": two}]}, expected(tp=2), URL) == two
    with pytest.raises(errors.RankCountError, match="2 tensor parallel ranks"):
        check_identity(info(), expected(tp=2), URL)
    one_stock = state() | {"ranks": [state(), state(tp_rank=1, worker_class="EAGLEWorkerV2")]}
    with pytest.raises(errors.WorkerClassMismatchError):
        check_identity({"internal_states": [{"specswitch": one_stock}]}, expected(tp=2), URL)


@pytest.mark.parametrize("of_the_other", [{"lazy_window": 64}, {"sync": "eager"}])
def test_ranks_must_have_one_ring_and_one_sync_rule(of_the_other: dict[str, Any]) -> None:
    rule = RULE.model_copy(update={"sync": None})  # any will do, if it is one
    asked = Expected("ours", expected().decision, rule, tp=2)
    two = state() | {"ranks": [state(), state(tp_rank=1, **of_the_other)]}
    [key] = of_the_other
    with pytest.raises(errors.RuleMismatchError, match=f"{key} differs between the tensor parallel ranks"):
        check_identity({"internal_states": [{"specswitch": two}]}, asked, URL)
