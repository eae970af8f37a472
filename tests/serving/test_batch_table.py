"""The batch table file: read here as the server will read it, and refused with file and cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.engine.policy import RuleError, load_batch_table
from specswitch.serving.batch_table import read_batch_table
from specswitch.serving.errors import FlagError
from specswitch.serving.flags import parse_flags, ranges_of

GOOD = ('{"speculate": [[1, 8], [33, 64]]}', '{"speculate": [[4, 4]]}')
BAD = (
    *("", "{cut", "[[1, 8]]", '{"on": [[1, 8]]}', '{"speculate": [[1, 8]], "on": 1}', "\ufeff" + GOOD[0]),
    *(
        f'{{"speculate": {t}}}'
        for t in ("null", "[]", "[1, 8]", "[[1]]", "[[0, 3]]", "[[4, 2]]", "[[1, 2.0]]")
    ),
    *(
        f'{{"speculate": {t}}}'
        for t in ("[[1, 5], [5, 9]]", "[[7, 9], [1, 2]]", "[[true, 3]]", "[[1, null]]")
    ),
    "[" * 100_000,
)


@pytest.mark.parametrize("text", GOOD)
def test_a_table_is_read_as_the_server_reads_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(text, encoding="utf-8")
    assert read_batch_table(str(file)) == load_batch_table(str(file))


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:40])
def test_what_the_server_refuses_is_refused_here_with_file_and_cure(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((RuleError, RecursionError)):
        load_batch_table(str(file))
    with pytest.raises(FlagError, match=r'table\.json.*\{"speculate": \[\[1, 8\], \[33, 64\]\]\}') as caught:
        read_batch_table(str(file))
    assert len(str(caught.value)) < 500


def test_a_missing_file_and_one_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=r"nowhere\.json.*no such file"):
        read_batch_table(str(tmp_path / "nowhere.json"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(FlagError, match="no UTF-8"):
        read_batch_table(str(tmp_path / "bytes"))


def test_a_threshold_beside_a_table_is_refused_and_no_table_is_no_ranges() -> None:
    both = parse_flags(["--speculative-batch-table", "t", "--speculative-disable-batch-threshold", "4"])
    with pytest.raises(FlagError, match=r"threshold 4 and --speculative-batch-table 't'"):
        ranges_of(both)
    assert ranges_of(parse_flags([])) is None
