"""What lies where in a run folder, and the version of that layout.

<run>/manifest.json                 status, effective parameters, planned points, provenance
<run>/points/<point_id>/            requests.parquet, steps.parquet, and last of all point.json
<run>/servers/<name>.log            one log per server launch; a point refers to its part of it
<run>/executed.ipynb, report.html   what the sweep's batch run and the report leave
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1

MANIFEST = "manifest.json"
POINTS = "points"
POINT = "point.json"
REQUESTS = "requests.parquet"
STEPS = "steps.parquet"
SERVERS = "servers"
LOCK = ".lock"


class ResultsError(RuntimeError):
    """Results cannot be written or read. The message names the path, the value and the cure."""


class DamagedError(ResultsError):
    """A stored file is cut, altered or not what its name says."""


class SchemaError(ResultsError):
    """A stored file was written under another schema version."""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`, its `schema_version` checked.

    Raises:
        DamagedError: no such file, not JSON, or no object. SchemaError: another schema version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise DamagedError(f"{path}: {problem}") from problem
    if not isinstance(data, dict) or "schema_version" not in data:
        raise DamagedError(f"{path}: no schema_version in it")
    check_schema(data["schema_version"], path)
    return data


def check_schema(version: object, path: Path) -> None:
    """Raise SchemaError unless `version` is the one that this program writes."""
    if version != SCHEMA_VERSION:
        raise SchemaError(
            f"{path} has schema version {version!r}, this program reads and writes {SCHEMA_VERSION}: read it "
            "with the version that wrote it (`git_commit` in its provenance), or measure into a new folder"
        )
