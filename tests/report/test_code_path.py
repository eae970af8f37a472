"""The code path in words and tables."""

from __future__ import annotations

import re

import pytest

from specswitch.report import code_path as words
from specswitch.serving.code_path import COMMON, Compared, foretell
from specswitch.serving.wrong_file import Outcome

V2 = Outcome(None, "v2", "EAGLEWorkerV2", "sglang/srt/speculative/eagle_worker_v2.py", 38, 3, 14, None, None)
V1 = Outcome(
    "0",
    "v1",
    "EAGLEWorker",
    "sglang/srt/speculative/eagle_worker.py",
    38,
    3,
    0,
    "PreflightError: path='v2' was asked, these flags take 'v1'",
    "PathMismatchError: path: asked 'v2', the server has 'v1'",
)


def rows(html: str) -> list[list[str]]:
    found = re.findall(r"<tr>(.*?)</tr>", html)
    return [[re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in found]


def test_the_way_is_told_question_by_question_with_the_worker_at_its_end() -> None:
    seen = foretell(["--model-path", "/nowhere", "--disable-overlap-schedule"], {})
    told = words.way(seen)
    assert told[0] == "Is a speculative algorithm given? No: no --speculative-algorithm."
    assert told[1] == "So the scheduler holds TpModelWorker (path none)."
    assert told[2].startswith("Specswitch would not start such a server: ")


def test_the_common_flags_are_one_row_each_and_say_what_decided() -> None:
    head, *body = rows(words.common_flags())
    assert len(body) == len(COMMON)
    by_what = {row[0]: dict(zip(head, row, strict=True)) for row in body}
    tree = by_what["a tree of drafts"]
    assert (tree["Path"], tree["Worker"]) == ("v1", "EAGLEWorker")
    assert "more than 1 runs on v1 only" in tree["Why"]
    assert by_what["a rule, on v1"]["Worker"] == "DynamicEAGLEWorker"
    assert by_what["no draft shape, a Llama"]["Worker"] == "EAGLEWorkerV2, refused"


def test_the_flags_have_room_in_jupyterlab_which_has_no_style_sheet_of_ours() -> None:
    (row,) = [r for r in words.common_flags().split("<tr>") if "a tree of drafts" in r]
    assert re.search(r'<td class="wrap" style="min-width: 19em[^>]*>--speculative-algorithm', row)


def test_the_proof_shows_differences_and_ranks_apart() -> None:
    found = [
        Compared("path", "v2", ("v2", "v2"), True),
        Compared("worker_class", "EAGLEWorkerV2", ("EAGLEWorkerV2", "EAGLEWorker"), False),
        Compared("plain_steps", None, (0, 0), None),
        Compared("spec_v2_env", None, (None, "0"), False),
    ]
    _, path, worker, steps, variable = rows(words.proof(found))
    assert path == ["path", "v2", "v2", "as foretold"]
    assert worker[2:] == ["rank 0: EAGLEWorkerV2; rank 1: EAGLEWorker", "differs"]
    assert steps == ["plain steps made", "–", "0", "–"]
    assert variable == ["SGLANG_ENABLE_SPEC_V2", "unset", "rank 0: unset; rank 1: 0", "differs"]
    assert "no server was started" in words.proof("live = False: no server was started.")


def test_the_mistake_stands_beside_the_start_in_which_the_change_runs() -> None:
    head, *body = rows(words.mistake([V1, V2]))
    assert head == ["", "SGLANG_ENABLE_SPEC_V2 0", "SGLANG_ENABLE_SPEC_V2 unset"]
    told = {row[0]: row[1:] for row in body}
    assert told["Times that the change ran"] == ["0", "14"]
    assert told["Asked for v2, of the running server"][1] == "accepted"
    assert "PathMismatchError" in told["Asked for v2, of the running server"][0]


@pytest.mark.parametrize(
    ("outcome", "ending"), [(V1, "the proof refuses the server."), (V2, "ran 14 times.")]
)
def test_what_the_replay_shows_is_said_of_each_start(outcome: Outcome, ending: str) -> None:
    (sentence,) = words.caught([outcome])
    assert sentence.endswith(ending)
    assert outcome.worker_class in sentence
