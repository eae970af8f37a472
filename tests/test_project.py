"""What holds of the project as a whole: pins agree, imports go one way, notebooks are clean, files are small."""

from __future__ import annotations

import importlib.util
import json
import re
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


def test_nobody_is_told_to_open_a_notebook_of_the_checkout_itself() -> None:
    """Jupyter saves into what it opens; `specswitch lab` opens a copy."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    assert [p.name for p in pages if re.search(r"jupyter[ -]lab\s+\S", p.read_text(encoding="utf-8"))] == []


def _field_cases() -> dict[str, list[Path]]:
    """Test files by number of the field case, as the page lists them."""
    found = {}
    for row in _lines(ROOT / "docs/field-cases.md"):
        cells = row.split("|")
        if re.fullmatch(r" [ABC]\d+ ", cells[1] if len(cells) > 4 else ""):
            folder, files = "", []
            for name in re.findall(r"`([\w/]+)`", cells[4]):
                folder = name.rpartition("/")[0] or folder
                files.append(ROOT / "tests" / folder / f"{name.rpartition('/')[2]}.py")
            found[cells[1].strip()] = files
    return found


def test_every_field_case_on_the_page_is_named_by_the_tests_it_lists() -> None:
    cases = _field_cases()
    assert len(cases) >= 38
    for case, files in cases.items():
        assert files, case
        for file in files:
            text = file.read_text(encoding="utf-8")
            assert re.search(rf"\b{case}\b|_{case.lower()}_", text), f"{file.name} does not name {case}"


def _numbers_left_free() -> list[str]:
    """The numbers that the page says have no case, from the paragraph that says so."""
    text = (ROOT / "docs/field-cases.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"their numbers stay free:\n([^.]*)\.", text)
    return re.split(r",\s+", listed.strip())


def test_every_number_of_a_field_case_has_a_row_or_is_said_to_be_free() -> None:
    told = [*_field_cases(), *_numbers_left_free()]
    last = {"A": 27, "B": 10, "C": 17}
    numbers = [f"{room}{n}" for room, most in last.items() for n in range(1, most + 1)]
    assert sorted(told) == sorted(numbers), "each once"


def test_every_field_case_that_a_test_names_is_on_the_page() -> None:
    told = set(_field_cases())
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        lists = re.findall(r"[Ff]ield cases? (.*)", text)
        named = [number for words in lists for number in re.findall(r"\b[ABC]\d+\b", words)]
        named += [n.upper() for n in re.findall(r"def test_([abc]\d+)_", text)]
        assert set(named) <= told, file.name
