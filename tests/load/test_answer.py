"""Events out of bytes, and what an odd event does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fakes.script import DONE, Step, build_events
from specswitch.load.answer import Answer, EventSplitter

STREAM = b"".join(
    e.payload for e in build_events([Step(0, 2, "a\n\nb"), Step(0, 0, "", "empty"), Step(0, 3, "é🚀")], 8, 0)
)


def read(*pieces: bytes) -> Answer:
    answer, splitter = Answer(), EventSplitter()
    for i, piece in enumerate(pieces):
        for payload in splitter.feed(piece):
            answer.take(payload, float(i))
    return answer


@given(st.lists(st.integers(0, len(STREAM + DONE)), max_size=12))
def test_however_the_bytes_are_cut_the_answer_is_the_same(cuts):
    data = STREAM + DONE
    borders = [0, *sorted(cuts), len(data)]
    answer = read(*(data[a:b] for a, b in pairwise(borders)))
    assert answer.done
    assert answer.error is None
    assert len(answer.token_times_s) == len(answer.output_ids) == 5
    assert answer.finish_reason == "length"


def test_an_unfinished_event_is_not_counted():
    assert read(STREAM[:-3]).finish_reason is None


def test_comments_and_other_fields_are_ignored():
    assert read(b": keep-alive\n\nevent: ping\n\n" + DONE).done


def test_what_is_no_answer_becomes_an_error_that_shows_it():
    assert "not JSON" in read(b"data: {oops\n\n").error
    assert "completion_tokens" in read(b'data: {"text": "hi"}\n\n').error
    assert read(b'data: {"error": "plain words"}\n\n').error == "server error: plain words"


def test_the_engines_own_counts_are_taken_over():
    answer = read(
        b'data: {"output_ids":[5,6],"meta_info":{"completion_tokens":2,"prompt_tokens":3,"cached_tokens":1,'
        b'"spec_verify_ct":4,"finish_reason":{"type":"stop","matched":6}}}\n\n'
    )
    assert (answer.prompt_tokens, answer.cached_tokens, answer.spec_verify_ct) == (3, 1, 4)
    assert answer.finish_reason == "stop"
    assert answer.output_ids == [5, 6]
