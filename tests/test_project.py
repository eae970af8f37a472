"""What holds of the project as a whole: pins agree, imports go one way, notebooks are clean, files are small."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from specswitch.config import project_root

ROOT = project_root()
LIB = ROOT / "lib" / "specswitch"


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _locks():
    spec = importlib.util.spec_from_file_location("locks", ROOT / "requirements" / "locks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lean_lock_is_the_full_lock_without_the_named_drops() -> None:
    full, lean = _lines(ROOT / "requirements/full.lock"), _lines(ROOT / "requirements/lean.lock")
    assert lean == _locks().lean_lines(full)
    assert len(full) - len(lean) >= len(_locks().drops())


def test_env_yml_holds_the_same_pins_as_the_lean_lock() -> None:
    lean = _lines(ROOT / "requirements/lean.lock")
    assert (ROOT / "env.yml").read_text(encoding="utf-8") == _locks().env_yml(lean)


def test_locks_pin_exactly_and_name_no_index() -> None:
    for lock in ("full.lock", "lean.lock"):
        for line in _lines(ROOT / "requirements" / lock):
            assert "==" in line
            assert "://" not in line
            assert not line.startswith("-")


@pytest.mark.parametrize(
    "pin",
    ["sglang==0.5.12.post1", "kernels==0.14.1", "plotly==7.1.0", "papermill==2.7.0", "nbconvert==7.17.2"],
)
def test_the_tried_versions_are_pinned(pin: str) -> None:
    assert pin in _lines(ROOT / "requirements/lean.lock")


def test_imports_go_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_have_one_parameters_cell_and_no_outputs(path: Path) -> None:
    """Field case C2."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert sum("parameters" in c["metadata"].get("tags", []) for c in cells) == 1
    code = [c for c in cells if c["cell_type"] == "code"]
    assert all(not c["outputs"] and c["execution_count"] is None for c in code)


def test_there_are_notebooks() -> None:
    assert len(list((ROOT / "notebooks").glob("*.ipynb"))) >= 2


def test_files_stay_small() -> None:
    sizes = {p.relative_to(ROOT): len(_lines(p)) for p in LIB.rglob("*.py") if len(_lines(p)) > 1}
    assert statistics.median(sizes.values()) < 120, sizes
    assert {p: n for p, n in sizes.items() if n > 400} == {}


def test_readme_has_a_line_for_every_module() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    modules = [p for p in LIB.rglob("*.py") if len(_lines(p)) > 1 and "__pycache__" not in p.parts]
    missing = [
        str(p.relative_to(LIB)) for p in modules if p.name != "__init__.py" and f"`{p.name}`" not in readme
    ]
    assert missing == []
