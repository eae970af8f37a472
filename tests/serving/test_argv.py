"""The command line made from a configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from specswitch.config import Rule, ServerConfig
from specswitch.serving.argv import build_argv, redact, server_flags
from specswitch.serving.flags import parse_flags


def config(path: str, **changes: Any) -> ServerConfig:
    draft = None if path == "none" else "/m/draft"
    return ServerConfig(**({"model": "/m/target", "draft": draft, "path": path} | changes))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_arm_has_the_same_capacity_and_only_arms_that_speculate_have_speculative_flags(
    device: str,
) -> None:
    plain, v1, v2 = (
        parse_flags(server_flags(config(p, device=device, max_running_requests=24), 20001))
        for p in ("none", "v1", "v2")
    )
    assert plain.max_running_requests == v1.max_running_requests == v2.max_running_requests == 24
    graphs = 24 if device == "cuda" else None
    assert plain.cuda_graph_max_bs == v1.cuda_graph_max_bs == v2.cuda_graph_max_bs == graphs
    assert plain.speculative_algorithm is None
    assert v1.speculative_algorithm == v2.speculative_algorithm == "EAGLE3"
    assert (v2.speculative_num_steps, v2.speculative_eagle_topk, v2.speculative_num_draft_tokens) == (3, 1, 4)


def test_v1_and_the_synchronous_plain_server_run_without_overlap() -> None:
    assert parse_flags(server_flags(config("v1"), 1)).disable_overlap_schedule
    assert parse_flags(server_flags(config("none", overlap=False), 1)).disable_overlap_schedule
    assert not parse_flags(server_flags(config("none"), 1)).disable_overlap_schedule
    assert not parse_flags(server_flags(config("v2"), 1)).disable_overlap_schedule


def test_without_a_threshold_no_flag_of_ours_is_given() -> None:
    flags = server_flags(config("v2", rule=Rule(dwell=4, sync="eager")), 1)
    assert not [f for f in flags if "threshold" in f or "dwell" in f or "draft-sync" in f]


def test_a_rule_becomes_flags() -> None:
    rule = Rule(threshold=8, enable_threshold=4, dwell=3, sync="stale", lazy_window=32)
    flags = parse_flags(server_flags(config("v2", rule=rule, check=True), 1))
    assert flags.speculative_disable_batch_threshold == 8
    assert flags.speculative_enable_batch_threshold == 4
    assert flags.speculative_switch_dwell == 3
    assert flags.speculative_draft_sync == "stale"
    assert flags.speculative_lazy_window == 32
    assert flags.specswitch_check


def test_threshold_zero_is_a_threshold() -> None:
    flags = parse_flags(server_flags(config("v1", rule=Rule(threshold=0)), 1))
    assert flags.speculative_disable_batch_threshold == 0
    assert flags.dynamic


def test_the_server_listens_on_loopback_unless_told_otherwise() -> None:
    assert parse_flags(server_flags(config("none"), 20001)).host == "127.0.0.1"
    assert parse_flags(server_flags(config("none", host="0.0.0.0"), 20001)).host == "0.0.0.0"
    assert parse_flags(server_flags(config("none"), 20001)).port == 20001


def test_the_cpu_platform_gets_its_backends_and_does_not_spin() -> None:
    flags = parse_flags(server_flags(config("none"), 1))
    assert (flags.attention_backend, flags.sampling_backend, flags.sleep_on_idle) == (
        "torch_native",
        "pytorch",
        True,
    )
    own = server_flags(config("none", attention_backend="triton"), 1)
    assert own.count("--attention-backend") == 1


def test_a_pool_size_that_was_asked_for_is_the_only_one() -> None:
    own = server_flags(config("v2", max_total_tokens=1024), 1)
    assert own.count("--max-total-tokens") == 1
    assert own[own.index("--max-total-tokens") + 1] == "1024"
    assert "--max-total-tokens" in server_flags(config("v2"), 1)


def test_relative_model_paths_do_not_depend_on_the_servers_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = parse_flags(server_flags(ServerConfig(model="m"), 1))
    assert flags.model_path == str(tmp_path / "m")


def test_extra_arguments_come_last_and_the_interpreter_is_ours() -> None:
    command = build_argv(config("none", extra_args=("--log-level", "debug")), 1)
    assert command[:3] == [sys.executable, "-m", "sglang.launch_server"]
    assert command[-2:] == ["--log-level", "debug"]


def test_secrets_are_masked() -> None:
    assert redact(["x", "--api-key", "k", "--admin-api-key=k2", "y"]) == [
        "x",
        "--api-key",
        "***",
        "--admin-api-key=***",
        "y",
    ]
