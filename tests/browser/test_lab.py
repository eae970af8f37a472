"""The README's way to a notebook, in a real JupyterLab: open it, run all, save it; the checkout stays clean."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from browser.lab import jupyter_lab, run_all
from specswitch.config import project_root

COPIED = ("notebooks", "pyproject.toml", ".gitignore", "README.md")


def git(checkout: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *own, *words], cwd=checkout, check=True, capture_output=True, encoding="utf-8"
    ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of this very code in a repository of its own."""
    root = tmp_path / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "mine", ".ipynb_checkpoints")
    shutil.copytree(project_root() / "lib", root / "lib", ignore=unwanted)
    for name in COPIED:
        source = project_root() / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=unwanted)
        else:
            shutil.copyfile(source, root / name)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    assert git(root, "ls-files", "notebooks").count(".ipynb") >= 5
    return root


@pytest.fixture
def page(chromium) -> Page:
    page = chromium.new_page()
    page.set_default_timeout(90_000)
    yield page
    page.close()


def test_open_run_and_save_leave_the_checkout_clean_and_the_own_change_in_place(
    checkout: Path, tmp_path: Path, page: Page
) -> None:
    (line,) = [
        text.split("#")[0].split()
        for text in (checkout / "README.md").read_text(encoding="utf-8").splitlines()
        if text.startswith(".venv/bin/specswitch lab 04-live")
    ]
    program = [sys.executable, "-m", "specswitch", *line[1:], "--"]
    copy = checkout / "notebooks" / "mine" / "04-live.ipynb"
    (tmp_path / "jupyter").mkdir()
    with jupyter_lab(tmp_path / "jupyter", program, PYTHONPATH=str(checkout / "lib")) as url:
        text = copy.read_text(encoding="utf-8")
        copy.write_text(text.replace("threshold = 4", "threshold = 5"), encoding="utf-8")
        run_all(page, f"{url}/lab/tree/04-live.ipynb")
        page.locator(".specswitch-status", has_text="Stopped").wait_for()
        page.evaluate("async () => { await jupyterapp.commands.execute('docmanager:save'); }")
    saved = json.loads(copy.read_text(encoding="utf-8"))
    code = [c for c in saved["cells"] if c["cell_type"] == "code"]
    assert all(c["execution_count"] for c in code), "it was run, and that was saved"
    assert any(c["outputs"] for c in code)
    assert "threshold = 5" in "".join(code[0]["source"])
    assert git(checkout, "status", "--porcelain") == ""
    assert saved["metadata"]["specswitch"]["copied"], "by which a later start knows that it was changed"
