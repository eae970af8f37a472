"""Records to parquet bytes and back, one column per field, types written down."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.results.layout import SCHEMA_VERSION, DamagedError, SchemaError, check_schema

VERSION_KEY = b"specswitch_schema_version"

REQUEST_SCHEMA = pa.schema(
    [
        ("request_id", pa.int64()),
        ("scheduled_s", pa.float64()),
        ("sent_s", pa.float64()),
        ("end_s", pa.float64()),
        ("token_times_s", pa.list_(pa.float64())),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("spec_verify_ct", pa.int64()),
        ("finish_reason", pa.string()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        ("warmup", pa.bool_()),
        ("output_ids", pa.list_(pa.int64())),
    ]
)
STEP_SCHEMA = pa.schema(
    [
        ("t_s", pa.float64()),
        ("batch", pa.int32()),
        ("mode", pa.string()),
        ("proposed", pa.int32()),
        ("accepted", pa.int32()),
        ("emitted", pa.int32()),
        ("synced", pa.int32()),
        ("switched", pa.bool_()),
        ("step_ms", pa.float64()),
    ]
)

# How columns are packed: a dictionary of times, which differ in every bit, would be larger than the times.
REPETITIVE = ("finish_reason", "outcome", "error", "mode", "output_ids.list.element")
TIMES = ("token_times_s.list.element", "t_s")


def requests_to_parquet(records: Sequence[RequestRecord]) -> bytes:
    """Parquet file of request records, in order."""
    return _to_parquet(records, RequestRecord, REQUEST_SCHEMA)


def steps_to_parquet(steps: Sequence[StepRecord]) -> bytes:
    """Parquet file of step records, in order."""
    return _to_parquet(steps, StepRecord, STEP_SCHEMA)


def read_requests(path: Path) -> list[RequestRecord]:
    """The request records of a parquet file. Raises DamagedError, SchemaError."""
    rows: list[dict[str, Any]] = _read(path, REQUEST_SCHEMA).to_pylist()
    for row in rows:
        row.update(token_times_s=tuple(row["token_times_s"]), output_ids=tuple(row["output_ids"]))
    return [RequestRecord(**row) for row in rows]


def read_step_records(path: Path) -> list[StepRecord]:
    """The step records of a parquet file. Raises DamagedError, SchemaError."""
    return [StepRecord(**row) for row in _read(path, STEP_SCHEMA).to_pylist()]


def _to_parquet(records: Sequence[Any], kind: type, schema: pa.Schema) -> bytes:
    columns = {
        f.name: pa.array([getattr(r, f.name) for r in records], schema.field(f.name).type)
        for f in fields(kind)
    }
    table = pa.table(columns, schema=schema)
    table = table.replace_schema_metadata({VERSION_KEY: str(SCHEMA_VERSION).encode()})
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=9,
        use_dictionary=[c for c in REPETITIVE if c.split(".")[0] in schema.names],
        use_byte_stream_split=[c for c in TIMES if c.split(".")[0] in schema.names],
    )
    return buffer.getvalue()


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
        version = (table.schema.metadata or {}).get(VERSION_KEY, b"none").decode()
        check_schema(int(version) if version.isdigit() else version, path)
        return table.select(schema.names).cast(schema)
    except SchemaError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError) as problem:
        raise DamagedError(f"{path}: {problem}") from problem
