"""A batch run as a program of its own, with a one-line page instead of a report.

    python tests/sweep/batch_program.py OUT_DIR PARAMETERS_AS_JSON

Prints the outcome as JSON and ends with its exit code. Servers are fake engines if the environment says so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `sweep`, as this runs as a program

from specswitch.sweep.batch import run_batch
from sweep.support import one_line_page, small

if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    outcome = run_batch(small(Path(sys.argv[1]), given.pop("tricks", None), **given), one_line_page)
    print(json.dumps({"exit_code": outcome.exit_code, "message": outcome.message}))  # noqa: T201
    sys.exit(outcome.exit_code)
