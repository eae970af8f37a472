"""Random weights in a given shape, acceptance simulated, one closed batch per point: on real servers, on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specswitch.models import shapes
from specswitch.results import read_run, table
from specswitch.sweep.bare import run_bare
from specswitch.sweep.batch import OK
from specswitch.sweep.parameters import SweepParameters

pytestmark = pytest.mark.engine
SMALL = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 1, "max_position_embeddings": 1024,
}  # fmt: skip


def small_shape(folder: Path) -> None:
    """The shape `small`: llama-8b made narrow, shallow and cheap."""
    own = {"target": {"num_hidden_layers": 8}, "draft": {"draft_vocab_size": 256}}
    for source in shapes.shape_dirs("llama-8b"):
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        directory = folder / "small" / source.name
        directory.mkdir(parents=True)
        text = json.dumps(config | SMALL | own[source.name])
        (directory / "config.json").write_text(text, encoding="utf-8")


def test_a_shape_is_served_with_the_acceptance_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_shape(tmp_path / "shapes")
    monkeypatch.setattr(shapes, "SHAPES", tmp_path / "shapes")
    asked = SweepParameters.of(
        {
            "out_dir": str(tmp_path / "run"),
            "model": "shape:small",
            "simulated_accept_length": 2.5,
            "arms": ["dynamic-v2-t2-lazy"],
            "concurrencies": [2, 4],
            "repeats": 1,
            "dataset": "random",
            "prompt_tokens": 16,
            "output_tokens": 128,
            "refill": False,
            "max_running_requests": 8,
            "hold": "one",
        }
    )
    ended = run_bare(asked)
    assert ended.exit_code == OK, ended.message
    run = read_run(tmp_path / "run")
    assert run.manifest["synthetic"] is True
    points = table(run).set_index(["label", "concurrency"])
    assert points["synthetic"].all()
    assert (points["completed"] == points.index.get_level_values("concurrency")).all()
    assert (points["window_s"] > 0).all()
    speculating = points.loc[("dynamic-v2-t2-lazy", 2)]
    assert speculating["accept_length"] == pytest.approx(2.5, abs=0.4)
    assert speculating["speculated_share_steps"] == 1.0
    above = points.loc[("dynamic-v2-t2-lazy", 4)]
    assert above["speculated_share_steps"] < 0.1, "four requests run plain but for the first and last moments"
