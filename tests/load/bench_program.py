"""Runs the engine's serving benchmark again and again without importing it (15 s of a core) every time.

    python tests/load/bench_program.py      # stdin: command lines as JSON lists; stdout: its output, then END

Each line is run as `python -m sglang.bench_serving WORDS...` would run it, in this process.
"""

from __future__ import annotations

import json
import runpy
import sys
import traceback

END = "@@ended "

if __name__ == "__main__":
    for line in sys.stdin:
        sys.argv = ["bench_serving", *json.loads(line)]
        code = 0
        try:
            runpy.run_module("sglang.bench_serving", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code or 0
        except Exception:
            traceback.print_exc(file=sys.stdout)
            code = 1
        print(f"\n{END}{code}", flush=True)  # noqa: T201
