"""Looping text is flagged, ordinary text is not."""

from __future__ import annotations

from zlib import crc32

from metrics.synthetic import request
from specswitch.metrics.degeneracy import is_degenerate, repeat_share, repeated_ngrams
from specswitch.metrics.ratio import Ratio

PARAGRAPH = (
    "The quick study of a small machine shows that the first cost is not the last one: a step that drafts "
    "and checks pays for itself only while the machine would have been idle, and that depends on the load, the "
    "model and the text, so a rule that was right in the morning can be wrong at noon."
)


def test_a_loop_is_flagged():
    """B9: an answer "the the the ..." is degenerate."""
    share = repeat_share([request(0.0, 1.0, output_ids=(7,) * 64)])
    assert share == Ratio(60, 61)
    assert is_degenerate(share) is True


def test_a_paragraph_is_not_flagged():
    """B9: ordinary prose is not degenerate."""
    ids = tuple(crc32(word.encode()) for word in PARAGRAPH.split())
    assert is_degenerate(repeat_share([request(0.0, 1.0, output_ids=ids)])) is False


def test_the_same_answer_to_two_requests_is_no_repetition():
    record = request(0.0, 1.0, output_ids=tuple(range(20)))
    assert repeat_share([record, record]).value == 0.0


def test_no_text_no_verdict():
    assert is_degenerate(repeat_share([])) is None
    assert repeated_ngrams([1, 2, 3]) == Ratio(0, 0)
