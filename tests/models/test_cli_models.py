"""The `specswitch models` verbs."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from specswitch.cli import main


def test_a_shape_is_written_as_target_and_draft(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["models", "shape", "llama-8b", str(tmp_path)])
    assert done.exit_code == 0, done.output
    target, draft = (json.loads((Path(p) / "config.json").read_text("utf-8")) for p in done.output.split())
    assert target["architectures"] == ["LlamaForCausalLM"]
    assert draft["architectures"] == ["LlamaForCausalLMEagle3"]
    assert draft["hidden_size"] == target["hidden_size"]
    assert draft["num_hidden_layers"] == 1


def test_an_unknown_shape_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["models", "shape", "llama-9b", str(tmp_path / "x")])
    assert done.exit_code == 2
    assert "llama-9b" in done.output
    assert "llama-8b" in done.output
    assert not (tmp_path / "x").exists()


def test_smollm2_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious", encoding="utf-8")
    done = CliRunner().invoke(main, ["models", "smollm2", str(tmp_path)])
    assert done.exit_code == 2
    assert "new or empty directory" in done.output
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "precious"
