"""Run in a process of its own: what the engine itself decides for each case on standard input.

In: JSON list of {"argv": [...], "env": {...}}. Out: one JSON list; per case the worker class and the resolved
arguments, or `error`, the engine's exception; and the engine's option strings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.server_args import ServerArgs  # noqa: E402  (after the plugins)
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

PARSER = argparse.ArgumentParser()
ServerArgs.add_cli_args(PARSER)


def decide(argv: list[str], env: dict[str, str]) -> dict[str, Any]:
    """The engine's decision for one command line in one environment."""
    os.environ.pop("SGLANG_ENABLE_SPEC_V2", None)
    os.environ.update(env)
    try:
        args = ServerArgs.from_cli_args(PARSER.parse_args(argv))
        algorithm = SpeculativeAlgorithm.from_string(args.speculative_algorithm)
        worker = None if algorithm.is_none() else algorithm.create_worker(args).__name__
    except (Exception, SystemExit) as e:
        return {"error": f"{type(e).__name__}: {e}"}
    return {
        "worker_class": worker,
        "overlap": not args.disable_overlap_schedule,
        "num_steps": args.speculative_num_steps,
        "topk": args.speculative_eagle_topk,
        "num_draft_tokens": args.speculative_num_draft_tokens,
    }


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    answer = {
        "options": sorted(PARSER._option_string_actions),
        "decisions": [decide(**c) for c in cases],
    }
    print(f"\nANSWER {json.dumps(answer)}")  # noqa: T201
