"""Lengths that no server could serve are refused with the value that would do; the bounds are the engine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.support import write_draft
from specswitch.config import Path_, ServerConfig
from specswitch.serving.argv import server_flags
from specswitch.serving.errors import PreflightError
from specswitch.serving.flags import parse_flags
from specswitch.serving.lengths import check_lengths


@pytest.fixture
def config(config: ServerConfig) -> ServerConfig:
    return config.model_copy(update={"context_length": 128})


def check(cfg: ServerConfig, path: Path_, prompt: int, output: int, **changes: object) -> None:
    values = cfg.model_dump() | {"path": path} | ({"draft": None} if path == "none" else {}) | changes
    server = ServerConfig.model_validate(values)
    check_lengths(parse_flags(server_flags(server, 1)), path, prompt, output)


@pytest.mark.parametrize(
    ("path", "prompt", "longest", "tree"),
    [
        ("none", 60, 66, {}),
        ("none", 120, 6, {}),
        ("v1", 60, 64, {}),
        ("v2", 60, 64, {}),
        ("v2", 120, 4, {}),
        ("v1", 60, 56, {"topk": 4, "num_steps": 3, "num_draft_tokens": 8}),
    ],
)
def test_prompt_output_and_what_the_engine_keeps_back_fit_the_context(
    config: ServerConfig, path: Path_, prompt: int, longest: int, tree: dict[str, int]
) -> None:
    check(config, path, prompt, longest, **tree)
    with pytest.raises(
        PreflightError, match=r"a context of 129 tokens .*context_length is 128: shorten .*raise"
    ):
        check(config, path, prompt, longest + 1, **tree)


def test_the_tokens_are_named_that_the_engine_would_name(config: ServerConfig) -> None:
    with pytest.raises(
        PreflightError, match="prompt_tokens=900 and output_tokens=124 need a context of 1028"
    ):
        check(config, "v2", 900, 124, context_length=1024)


def test_a_prompt_that_leaves_less_than_seven_tokens_is_refused(config: ServerConfig) -> None:
    check(config, "none", 121, 4)
    with pytest.raises(PreflightError, match="a context of 129"):
        check(config, "none", 122, 1)


def test_a_workload_longer_than_the_model_s_or_the_draft_s_positions_is_refused(
    config: ServerConfig, tmp_path: Path
) -> None:
    short = write_draft(tmp_path / "short", max_position_embeddings=100)
    with pytest.raises(PreflightError, match="the draft's max_position_embeddings is 100: shorten"):
        check(config, "v2", 60, 40, draft=str(short))
    with pytest.raises(PreflightError, match="the model's max_position_embeddings is"):
        check(config, "none", 10**6, 1, context_length=None)


@pytest.mark.parametrize(("path", "longest"), [("none", 50), ("v1", 50), ("v2", 45)])
def test_one_request_alone_fits_the_kv_cache_in_its_last_step_too(
    config: ServerConfig, path: Path_, longest: int
) -> None:
    check(config, path, 48, longest, max_total_tokens=100)
    with pytest.raises(
        PreflightError, match=r"a KV cache of 101 tokens .*max_total_tokens is 100: .*at least 101"
    ):
        check(config, path, 48, longest + 1, max_total_tokens=100)


def test_the_kv_cache_is_counted_in_pages(config: ServerConfig) -> None:
    for prompt, longest in ((48, 47), (49, 31)):
        check(config, "v2", prompt, longest, max_total_tokens=112, page_size=16)
        with pytest.raises(PreflightError, match=r"a KV cache of 113 tokens .*at least 128"):
            check(config, "v2", prompt, longest + 1, max_total_tokens=112, page_size=16)
    with pytest.raises(PreflightError, match=r"max_total_tokens is 127: .*at least 128"):
        check(config, "none", 49, 40, max_total_tokens=127, page_size=16)


def test_a_limit_among_the_extra_arguments_counts(config: ServerConfig) -> None:
    extra = ("--context-length", "64")
    with pytest.raises(PreflightError, match="context_length is 64"):
        check(config, "none", 48, 20, context_length=None, extra_args=extra)
