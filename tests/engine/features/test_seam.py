"""`seam.py` is the whole list of engine names used, and fits the installed engine."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
from pathlib import Path

import pytest

from engine.children import in_process
from specswitch.engine import seam

ENGINE = Path(seam.__file__).parent


def imported_names(file: Path) -> set[str]:
    """Dotted path of every name that the file takes from SGLang."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sglang":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "sglang"}
    return found


@pytest.mark.parametrize("file", sorted(ENGINE.glob("*.py")), ids=lambda f: f.name)
def test_every_engine_name_imported_is_listed(file: Path) -> None:
    listed = [n.path for n in (*seam.HOOKED.values(), *seam.USED)]
    missing = {
        name
        for name in imported_names(file)
        if not any(p == name or p.startswith(name + ".") for p in listed)
    }
    assert not missing, f"add to seam.USED: {sorted(missing)}"


def test_the_walk_sees_imports() -> None:
    assert "sglang.srt.mem_cache.common.alloc_for_decode" in imported_names(ENGINE / "plain_step_v1.py")


def test_the_installed_engine_has_every_name_with_its_parameters() -> None:
    assert in_process(seam.differences) == []


OTHERWISE = [
    (seam.Name("sglang.srt.mem_cache.common.alloc_for_decoding"), "alloc_for_decoding does not exist"),
    (seam.Name("sglang.srt.no_such_module.thing"), "no_such_module"),
    (
        seam.Name("sglang.srt.mem_cache.common.alloc_for_decode", ("token_per_req", "batch")),
        "expected parameters",
    ),
    (seam.Name("sglang.srt.managers.utils.GenerationBatchResult", fields=("tokens",)), "has no field tokens"),
]


def differences_with(names: list[seam.Name]) -> list[str]:
    seam.USED = (*seam.USED, *names)
    return seam.differences()


def test_names_that_are_gone_or_otherwise_are_named() -> None:
    found = in_process(functools.partial(differences_with, [name for name, _ in OTHERWISE]))
    assert len(found) == len(OTHERWISE)
    for said, (_, expected) in zip(found, OTHERWISE, strict=True):
        assert expected in said


def test_another_version_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam, "TESTED_VERSION", "0.0.1")
    monkeypatch.setattr(seam, "HOOKED", {})
    monkeypatch.setattr(seam, "USED", ())
    with pytest.raises(
        seam.SeamError, match=rf"{importlib.metadata.version('sglang')} is installed, 0\.0\.1"
    ):
        seam.check()
