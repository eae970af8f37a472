"""What is foretold for flags, how a server's report is held against it, and which variable the server gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.support import clean_environment
from specswitch.models import pair
from specswitch.serving.code_path import (
    COMMON,
    EAGLE3,
    Foretold,
    common,
    compared,
    environment,
    foretell,
    in_package,
    prove,
    written_spec,
)

SERVED = [
    *EAGLE3,
    "--model-path",
    str(pair.target_dir()),
    "--speculative-draft-model-path",
    str(pair.draft_dir()),
]
SERVED += ["--device", "cpu", "--page-size", "1"]
RULE = ["--speculative-disable-batch-threshold", "4"]


def reported(**changes: Any) -> dict[str, Any]:
    return {
        "path": "v2",
        "worker_class": "DynamicEAGLEWorkerV2",
        "worker_file": "/env/lib/specswitch/engine/workers.py",
        "stock_class": "EAGLEWorkerV2",
        "stock_file": "/env/site-packages/sglang/srt/speculative/eagle_worker_v2.py",
        "overlap": True,
        "topk": 1,
        "num_draft_tokens": 4,
        "spec_v2_env": None,
        "threshold": 4,
        "enable_threshold": None,
        "dwell": 1,
        "sync": "lazy",
        "speculative_steps": 7,
        "plain_steps": 0,
    } | changes


def seen(*more: str) -> Foretold:
    return foretell([*SERVED, *RULE, *more], {})


@pytest.mark.usefixtures("fake_engine")
def test_a_server_with_an_api_key_is_proved_with_it(target: Path, draft: Path, tmp_path: Path) -> None:
    argv = [*EAGLE3, "--model-path", str(target), "--speculative-draft-model-path", str(draft)]
    asked = foretell([*argv, *RULE, "--device", "cpu", "--api-key", "secret"], {})
    rows = {row.what: row for row in prove(asked, clean_environment(), tmp_path / "server.log", 60.0)}
    assert rows["worker_class"].agrees
    assert rows["threshold"].reported == (4,)


def verdicts(state: dict[str, Any], **more: Any) -> dict[str, bool | None]:
    return {row.what: row.agrees for row in compared(more.get("seen") or seen(), None, state)}


def test_a_server_as_foretold_agrees_in_everything_that_was_foretold() -> None:
    """Field case A22."""
    found = verdicts(reported())
    assert {k for k, v in found.items() if v is None} == {
        "worker_file",
        "sync",
        "speculative_steps",
        "plain_steps",
    }
    assert all(v is not False for v in found.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "v1"},
        {"worker_class": "EAGLEWorkerV2"},
        {"stock_file": "/elsewhere/eagle_worker_v2.py"},
        {"stock_file": "/env/sglang/srt/speculative/eagle_worker.py"},
        {"overlap": False},
        {"spec_v2_env": "0"},
        {"threshold": 8},
        {"dwell": 2},
    ],
)
def test_one_difference_is_shown_as_one(changes: dict[str, Any]) -> None:
    found = verdicts(reported(**changes))
    assert [k for k, v in found.items() if v is False] == list(changes)


def test_one_rank_that_differs_is_a_difference_and_a_missing_one_too() -> None:
    ranks = [reported(), reported(worker_class="EAGLEWorkerV2")]
    found = verdicts({**ranks[0], "ranks": ranks}, seen=seen("--tp-size", "2"))
    assert found["ranks"] is True
    assert found["worker_class"] is False
    assert verdicts(reported(), seen=seen("--tp-size", "2"))["ranks"] is False


def test_a_sync_rule_that_was_asked_for_is_judged() -> None:
    asked = seen("--speculative-draft-sync", "eager")
    assert verdicts(reported(), seen=asked)["sync"] is False


@pytest.mark.parametrize("value", [None, "0", "on"])
def test_the_server_gets_the_variable_exactly_as_written(value: str | None) -> None:
    spec = written_spec(SERVED, environment({"PATH": "/bin"}, value), 60.0)
    assert spec.environment.values.get("SGLANG_ENABLE_SPEC_V2") == value
    assert spec.expected.decision.path == ("v1" if value == "0" else "v2")


def test_the_common_flags_show_every_path_a_refusal_and_no_flag_that_the_engine_does_not_know() -> None:
    found = common()
    assert len(found) == len(COMMON)
    assert {d.path for _, d in found} == {"none", "v1", "v2", "other"}
    assert any(d.refused for _, d in found)


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("/a/site-packages/sglang/srt/x.py", "sglang/srt/x.py"),
        ("/home/me/specswitch/lib/specswitch/engine/workers.py", "specswitch/engine/workers.py"),
        ("/tmp/mine.py", "/tmp/mine.py"),
        (None, None),
    ],
)
def test_files_are_told_from_their_package_on(file: str | None, short: str | None) -> None:
    assert in_package(file) == short
