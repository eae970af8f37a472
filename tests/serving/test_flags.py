"""Server flags are understood as the engine understands them, without importing it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specswitch.serving.errors import FlagError
from specswitch.serving.flags import parse_flags, rule_of


def test_long_short_and_abbreviated_names_mean_the_same() -> None:
    spellings = (["--tp", "2"], ["--tp-size=2"], ["--tensor-parallel-size", "2"])
    assert {parse_flags(s).tensor_parallel_size for s in spellings} == {2}
    assert parse_flags(["--model", "x", "--speculative-eagle-top", "4"]).speculative_eagle_topk == 4


def test_unset_flags_are_none_so_that_the_engines_defaults_are_not_invented() -> None:
    flags = parse_flags([])
    assert flags.speculative_num_steps is None
    assert flags.max_running_requests is None
    assert flags.device is None


@pytest.mark.parametrize(("text", "tokens"), [("4096", 4096), ("4k", 4000), ("4Ki", 4096), ("1.5k", 1500)])
def test_token_counts_may_have_units(text: str, tokens: int) -> None:
    assert parse_flags(["--context-length", text]).context_length == tokens


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--tp", "two"], "two"),
        (["--context-length", "4kk"], "4kk"),
        (["--context-length", "long"], "long"),
        (["--speculative-draft-sync", "sometimes"], "sometimes"),
        (["--speculative-disable-batch-threshold", "many"], "many"),
        (["--disable"], "ambiguous"),
        (["stray"], "stray"),
        (["--kv-cache-dtype", "nonsense"], "'nonsense'.*'fp8_e5m2'"),
        (["--attention-backend", "fa9"], "'fa9'.*'triton', 'torch_native'.*'fa3'"),
        (["--config", "server.yaml"], "server.yaml"),
    ],
)
def test_flags_that_the_engine_would_refuse_are_refused_by_name(argv: list[str], named: str) -> None:
    with pytest.raises(FlagError, match=named):
        parse_flags(argv)


def test_an_impossible_rule_is_refused() -> None:
    flags = ["--speculative-disable-batch-threshold", "2", "--speculative-enable-batch-threshold", "4"]
    with pytest.raises(FlagError, match="enable_threshold=4"):
        rule_of(parse_flags(flags))


def test_the_engine_is_not_imported_for_it() -> None:
    program = (
        "import sys; from specswitch.serving.engine_options import known_options; "
        "print(len(known_options()), 'sglang.srt.server_args' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8")
    known, imported = said.stdout.split()
    assert int(known) > 300
    assert imported == "False"
