"""The server's own arguments: parsing, defaults, refusals with reasons."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from specswitch.engine import switch_args
from specswitch.engine.policy import RuleError


def parse(*argv: str) -> switch_args.SwitchArgs:
    parser = argparse.ArgumentParser(prog="server")
    switch_args.add_arguments(parser)
    return switch_args.parse(switch_args.collect(parser.parse_args(list(argv))))


def test_without_options_nothing_is_enabled() -> None:
    args = parse()
    assert not args.enabled
    assert args.rule.threshold is None


def test_every_option_reaches_the_rule() -> None:
    args = parse(
        "--speculative-disable-batch-threshold=8",
        "--speculative-enable-batch-threshold=6",
        "--speculative-switch-dwell=4",
        "--speculative-draft-sync=eager",
        "--speculative-lazy-window=32",
        "--specswitch-check",
    )
    assert args.enabled
    assert args.check
    assert (args.rule.threshold, args.rule.enable_threshold, args.rule.dwell) == (8, 6, 4)
    assert (args.sync, args.lazy_window) == ("eager", 32)


def test_threshold_zero_enables_the_switch() -> None:
    assert parse("--speculative-disable-batch-threshold=0").enabled


def test_a_batch_table_file_enables_the_switch(tmp_path) -> None:
    table = tmp_path / "t.json"
    table.write_text('{"speculate": [[1, 4]]}', encoding="utf-8")
    args = parse(f"--speculative-batch-table={table}")
    assert args.enabled
    assert args.rule.ranges == ((1, 4),)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["--speculative-disable-batch-threshold=-1"], "-1"),
        (["--speculative-disable-batch-threshold=4", "--speculative-enable-batch-threshold=9"], "9"),
        (["--speculative-disable-batch-threshold=4", "--speculative-switch-dwell=0"], "dwell=0"),
        (["--speculative-disable-batch-threshold=4", "--speculative-lazy-window=0"], "window 0"),
        (["--speculative-enable-batch-threshold=2"], "enable_threshold=2"),
    ],
)
def test_impossible_values_are_named(argv: list[str], names: str) -> None:
    with pytest.raises(RuleError, match=names):
        parse(*argv)


def server(**changes: object) -> SimpleNamespace:
    base = {"speculative_algorithm": "EAGLE3", "enable_dp_attention": False, "pp_size": 1}
    base |= {
        "enable_two_batch_overlap": False,
        "speculative_adaptive": False,
        "enable_multi_layer_eagle": False,
    }
    return SimpleNamespace(**(base | changes))


def test_a_plain_eagle_server_is_accepted() -> None:
    switch_args.refuse_unsupported(server(), path_is_eagle=True)


@pytest.mark.parametrize(
    ("changes", "eagle", "reason"),
    [
        ({"speculative_algorithm": "NGRAM"}, False, "NGRAM"),
        ({"enable_dp_attention": True}, True, "DP attention"),
        ({"pp_size": 2}, True, "pipeline parallel size 2"),
        ({"enable_two_batch_overlap": True}, True, "two-batch overlap"),
        ({"speculative_adaptive": True}, True, "--speculative-adaptive"),  # field case A27
    ],
)
def test_unsupported_servers_are_refused_with_the_reason(changes: dict, eagle: bool, reason: str) -> None:
    with pytest.raises(RuleError, match=reason):
        switch_args.refuse_unsupported(server(**changes), path_is_eagle=eagle)
