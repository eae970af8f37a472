"""Draft heads with M-RoPE: text counts the same in all three of its dimensions, behind an image from another start."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from engine.cpu.random_pair import HEAD_DIM
from engine.dynamic import draft_rows, faults, loads, runs
from engine.dynamic.draft_rows import Rows, differing
from engine.dynamic.runs import Pair, Run
from engine.harness import Engine

pytestmark = pytest.mark.engine

SECTION = [2, 3, 3]
Edits = tuple[tuple[str, str, str], ...]


@pytest.fixture(scope="module")
def mrope_pair(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The same pair; the head's config asks for M-RoPE."""
    assert 2 * sum(SECTION) == HEAD_DIM
    draft = tmp_path_factory.mktemp("mrope") / "draft"
    shutil.copytree(pair[1], draft)
    file = draft / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["rope_scaling"] = {"type": "mrope", "rope_type": "default", "mrope_section": SECTION}
    file.write_text(json.dumps(config), encoding="utf-8")
    return pair[0], draft


def crossing(engine: Engine) -> None:
    """Three requests, joined by three, which switch speculation off, and by three that are prefilled off."""
    longs, shorts = loads.crossing()
    for ask in longs:
        loads.submit(engine, ask)
    for i, ask in enumerate(shorts):
        loads.submit(engine, ask, at_step=40 if i < 3 else 46)
    engine.run()


def served(path: str, pair: Pair, opts: dict[str, Any], edits: Edits = ()) -> tuple[Rows, Run, bool]:
    """Draft rows and outputs of a crossing load, and whether the head has M-RoPE."""
    faults.inject(edits)
    engine = Engine(path, *pair, **opts)
    rows = draft_rows.watched(engine, crossing)
    return rows, runs.finish(engine), draft_rows.draft_runner(engine).model_is_mrope


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_rows_of_an_mrope_head_are_those_of_a_server_that_always_speculates(
    mrope_pair: Pair, plain_crossing: dict[str, list[int]], path: str
) -> None:
    reference, _, _ = runs.in_child(served, path, mrope_pair, {})
    rows, run, mrope = runs.in_child(served, path, mrope_pair, runs.options(4))
    assert mrope
    assert run.outputs == plain_crossing
    assert run.report["kv_rows_forwards"] > 1, "a prefill while off and full windows"
    assert run.report["draft_extend_forwards"] > 0, "catching up"
    compared, wrong = differing(rows, reference)
    assert compared > 900
    assert wrong == 0


@pytest.mark.parametrize(
    ("edits", "noticed"),
    [
        (
            (("draft_sync", "multimodal_inputs=[None] * len(rows)", "multimodal_inputs=None"),),
            "TypeError: 'NoneType' object is not subscriptable",
        ),
        (
            (("draft_sync", "mrope_of_text(positions, of_row, batch.multimodal_inputs) if mrope", "None if mrope"),),
            "Error",
        ),
        (
            (("draft_kv_rows", "mrope_of_text(of_token) if self.draft_runner.model_is_mrope", "None if True"),),
            "Error",
        ),
    ],
    ids=["no inputs", "no positions of pending tokens", "no positions of prompts"],
)  # fmt: skip
def test_the_scheduler_ends_where_mrope_is_forgotten(mrope_pair: Pair, edits: Edits, noticed: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        runs.in_child(served, "v2", mrope_pair, runs.options(4), edits)
    assert re.search(noticed, str(caught.value))
    assert "mrope" in str(caught.value)


def positions_behind_images() -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Ours for text, for a batch whose second row has an image; and the engine's for a single token of that row."""
    from types import SimpleNamespace

    import torch
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    from specswitch.engine.draft_state import mrope_of_text

    image = SimpleNamespace(
        mrope_position_delta=torch.tensor([[-7]]), mrope_position_delta_repeated_cache=None
    )
    positions, rows = torch.tensor([4, 5, 30, 31, 32]), torch.tensor([0, 0, 1, 1, 1])
    text = mrope_of_text(positions)
    mixed = mrope_of_text(positions, rows, [None, image])
    engines = ForwardBatch._expand_mrope_from_input(SimpleNamespace(), image, 32 + 1)
    return text.tolist(), mixed.tolist(), engines.tolist()


def test_text_behind_an_image_counts_on_from_where_the_image_ends() -> None:
    text, mixed, engines = runs.in_child(positions_behind_images)
    assert text == [[4, 5, 30, 31, 32]] * 3
    assert mixed == [[4, 5, 23, 24, 25]] * 3
    assert engines == [[25]] * 3, "the engine's own count for the last of them"
