"""Parquet round trips: what was recorded comes back equal, missing stays missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from results.made_up import records, steps
from specswitch.metrics.records import RequestRecord
from specswitch.results.frames import (
    VERSION_KEY,
    read_requests,
    read_step_records,
    requests_to_parquet,
    steps_to_parquet,
)
from specswitch.results.layout import DamagedError, SchemaError

ODD = RequestRecord(
    request_id=9,
    scheduled_s=1.0,
    sent_s=1.5,
    end_s=2.0,
    outcome="failed",
    error="café 東京 🚀",
    warmup=True,
)


def test_requests_come_back_equal(tmp_path: Path) -> None:
    written = [*records(), ODD]
    (tmp_path / "r.parquet").write_bytes(requests_to_parquet(written))
    assert read_requests(tmp_path / "r.parquet") == written


def test_steps_come_back_equal(tmp_path: Path) -> None:
    written = [*steps(), replace(steps(1)[0], step_ms=None)]
    (tmp_path / "s.parquet").write_bytes(steps_to_parquet(written))
    assert read_step_records(tmp_path / "s.parquet") == written


def test_no_records_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_bytes(requests_to_parquet([]))
    (tmp_path / "s.parquet").write_bytes(steps_to_parquet([]))
    assert read_requests(tmp_path / "r.parquet") == []
    assert read_step_records(tmp_path / "s.parquet") == []


def test_a_cut_file_is_called_damaged(tmp_path: Path) -> None:
    whole = requests_to_parquet(records())
    (tmp_path / "r.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedError, match=r"r\.parquet"):
        read_requests(tmp_path / "r.parquet")


def test_another_schema_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    path.write_bytes(steps_to_parquet(steps()))
    table = pq.read_table(path).replace_schema_metadata({VERSION_KEY: b"99"})
    pq.write_table(table, path)
    with pytest.raises(SchemaError, match="schema version 99"):
        read_step_records(path)
