"""Our rules and our parser against the engine's own, asked in one subprocess for every case at once."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serving.support import clean_environment, write_draft, write_target
from specswitch.serving.engine_options import OWN_OPTIONS, known_options
from specswitch.serving.errors import FlagError
from specswitch.serving.flags import parse_flags
from specswitch.serving.path_rules import PathDecision, decide

pytestmark = pytest.mark.engine

SIZES: dict[str, Any] = {
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 16,
}
MATRIX = 24  # the first cases, in which the engine has to decide
RULE = ["--speculative-disable-batch-threshold", "4"]


def shape(steps: int, topk: int, tokens: int) -> list[str]:
    return [
        *("--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", str(topk)),
        *("--speculative-num-draft-tokens", str(tokens)),
    ]


def cases() -> list[tuple[list[str], dict[str, str]]]:
    """(flags without the models, environment). First the promised matrix, then the corners."""
    env_name = "SGLANG_ENABLE_SPEC_V2"
    found: list[tuple[list[str], dict[str, str]]] = []
    for env, topk, no_overlap, rule in itertools.product([None, "0", "1"], [1, 2], [False, True], [[], RULE]):
        overlap = ["--disable-overlap-schedule"] if no_overlap else []
        flags = ["--speculative-algorithm", "EAGLE3", *shape(3, topk, 4), *overlap, *rule]
        found.append((flags, {} if env is None else {env_name: env}))
    eagle3 = ["--speculative-algorithm", "EAGLE3"]
    found += [(eagle3 + shape(3, 1, 4), {env_name: w}) for w in ("true", "YES", "n", "on", "off", "")]
    corners = [
        [],
        ["--disable-overlap-schedule"],
        eagle3,
        [*eagle3, *shape(3, 1, 8)],
        [*eagle3, "--speculative-num-steps", "3"],
        [*eagle3, "--speculative-eagle-topk", "1"],
        [*eagle3, *shape(3, 4, 8), "--page-size", "16"],
        [*eagle3, *shape(3, 1, 4), "--enable-multi-layer-eagle"],
        ["--speculative-algorithm", "eagle", *shape(3, 1, 4)],
        ["--speculative-algorithm", "NEXTN", *shape(3, 1, 4)],
        ["--speculative-algorithm", "STANDALONE", *shape(3, 1, 4)],
        ["--speculative-algorithm", "EAGLE9", *shape(3, 1, 4)],
        [*eagle3, *shape(3, 1, 4), *RULE, "--speculative-adaptive"],
        [*eagle3, *shape(3, 1, 4), *RULE, "--pp-size", "2"],
    ]
    return found + [(c, {}) for c in corners]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return write_target(root / "target", **SIZES), write_draft(root / "draft", **SIZES)


@pytest.fixture(scope="module")
def engine(models: tuple[Path, Path]) -> dict[str, Any]:
    """The engine's answers, in the order of `cases`."""
    asked = [{"argv": command(models, flags), "env": env} for flags, env in cases()]
    program = Path(__file__).with_name("engine_decisions.py")
    ran = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=clean_environment(SPECSWITCH_CPU="1", SGLANG_PLUGINS="specswitch", PYTHONDONTWRITEBYTECODE=""),
        timeout=500,
        check=False,
    )
    line = next((x for x in ran.stdout.splitlines() if x.startswith("ANSWER ")), None)
    assert line is not None, ran.stdout[-2000:] + ran.stderr[-4000:]
    return json.loads(line.removeprefix("ANSWER "))


def command(models: tuple[Path, Path], flags: list[str]) -> list[str]:
    target, draft = models
    given = ["--model-path", str(target), "--device", "cpu", "--attention-backend", "torch_native", *flags]
    if "--speculative-algorithm" in flags:
        given += ["--speculative-draft-model-path", str(draft)]
    return given


def test_every_decision_is_the_engines(models: tuple[Path, Path], engine: dict[str, Any]) -> None:
    """Field case A22, A24 (c, d): class, overlap and draft shape, or a refusal where the engine fails."""
    assert len(engine["decisions"]) == len(cases())
    assert not [d for d in engine["decisions"][:MATRIX] if "error" in d]
    differences = []
    for (flags, env), theirs in zip(cases(), engine["decisions"], strict=True):
        try:
            ours: PathDecision | None = decide(
                parse_flags(command(models, flags)), env, "LlamaForCausalLM", "LlamaForCausalLMEagle3"
            )
        except FlagError:
            ours = None
        if not agree(ours, theirs):
            differences.append((flags, env, ours, theirs))
    assert not differences, "\n".join(map(str, differences))


def agree(ours: PathDecision | None, theirs: dict[str, Any]) -> bool:
    if "error" in theirs:
        return ours is None or bool(ours.refused)
    if ours is None:
        return False
    if ours.path == "none":
        return theirs["worker_class"] is None and theirs["overlap"] == ours.overlap
    return theirs == {
        "worker_class": ours.worker_class,
        "overlap": ours.overlap,
        "num_steps": ours.num_steps,
        "topk": ours.topk,
        "num_draft_tokens": ours.num_draft_tokens,
    }


def test_our_parser_knows_exactly_the_engines_options_and_ours(engine: dict[str, Any]) -> None:
    assert set(engine["options"]) - {"-h", "--help"} == known_options()
    assert {name for name, _ in OWN_OPTIONS} <= set(engine["options"])
