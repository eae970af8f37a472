"""What a server with a rule refuses at its start, with the reason (field cases A24, A27)."""

from __future__ import annotations

import contextlib
import functools
import io
from typing import Any

import pytest

from engine.children import in_process
from engine.features.arms import Pair
from engine.harness import _argv, _default_options

RULE = {"speculative_disable_batch_threshold": 4}
CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "adaptive": ({"speculative_adaptive": True}, "--speculative-adaptive: it changes the draft width"),
    "no algorithm": (
        {
            "speculative_algorithm": None,
            "speculative_draft_model_path": None,
            "speculative_num_steps": None,
            "speculative_eagle_topk": None,
            "speculative_num_draft_tokens": None,
        },
        "there is nothing to switch",
    ),
    "no draft": ({"speculative_draft_model_path": None}, "give --speculative-draft-model-path"),
    "wrong algorithm": ({"speculative_algorithm": "EAGLE"}, "use EAGLE3"),
    "steps only": (
        {"speculative_eagle_topk": None, "speculative_num_draft_tokens": None},
        "give --speculative-eagle-topk, --speculative-num-draft-tokens as well",
    ),
    "negative threshold": ({"speculative_disable_batch_threshold": -1}, "threshold=-1"),
    "upside down": ({"speculative_enable_batch_threshold": 9}, "enable_threshold=9 > threshold=4"),
    "no dwell": ({"speculative_switch_dwell": 0}, "dwell=0"),
    "no window": ({"speculative_lazy_window": 0}, "lazy window 0"),
    "no table": ({"speculative_batch_table": "/nowhere/table.json"}, "/nowhere/table.json"),
    "no sync": ({"speculative_draft_sync": "never"}, None),  # argparse says what may be chosen
    "pipeline": ({"pipeline_parallel_size": 2, "disable_overlap_schedule": True}, "pipeline parallel size 2"),
}


def parse_all(pair: Pair, cases: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What the engine's own argument parsing answers, under the plugin, to each set of options."""
    from sglang.srt.plugins import load_plugins

    load_plugins()
    from sglang.srt.server_args import prepare_server_args

    said = {}
    for name, options in cases.items():
        stderr = io.StringIO()
        try:
            with contextlib.redirect_stderr(stderr):
                args = prepare_server_args(_argv(_default_options("v2", *pair) | options))
            said[name] = f"accepted, {args.speculative_num_draft_tokens} draft tokens"
        except SystemExit as e:
            said[name] = f"exit: {e.code}\n{stderr.getvalue()}"
    return said


@pytest.fixture(scope="module")
def said(pair: Pair) -> dict[str, str]:
    cases = {name: RULE | options for name, (options, _) in CASES.items()}
    return in_process(functools.partial(parse_all, pair, cases))


@pytest.mark.parametrize("name", CASES)
def test_a_server_that_cannot_have_the_rule_exits_with_the_reason(said: dict[str, str], name: str) -> None:
    assert said[name].startswith("exit: ")
    assert (CASES[name][1] or "choose from") in said[name]


def test_a_draft_that_is_no_head_is_refused(pair: Pair) -> None:
    options = RULE | {"speculative_draft_model_path": str(pair[0])}
    said = in_process(functools.partial(parse_all, pair, {"target": options}))
    assert "is a LlamaForCausalLM, not an EAGLE-3 head" in said["target"]


def test_supported_servers_are_accepted(pair: Pair) -> None:
    shape = {"speculative_num_steps": 3, "speculative_num_draft_tokens": 8}
    cases = {
        "rule": RULE,
        "no rule": {},
        "too many": RULE | shape,  # this engine makes it steps + 1 where topk is 1
        "upstream's feature alone": {"speculative_adaptive": True},
    }
    said = in_process(functools.partial(parse_all, pair, cases))
    assert said == dict.fromkeys(cases, "accepted, 4 draft tokens")


def help_text() -> str:
    import argparse

    from sglang.srt.plugins import load_plugins

    load_plugins()
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="server")
    ServerArgs.add_cli_args(parser)
    return parser.format_help()


def test_the_options_are_in_the_servers_help() -> None:
    text = in_process(help_text)
    for option in (
        "--speculative-disable-batch-threshold N",
        "--speculative-enable-batch-threshold M",
        "--speculative-switch-dwell STEPS",
        "--speculative-draft-sync {lazy,eager,stale}",
        "--speculative-lazy-window TOKENS",
        "--speculative-batch-table FILE",
        "--specswitch-check",
    ):
        assert option in text
