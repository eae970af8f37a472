"""The code-path notebook, executed for real: three servers on the CPU, one after the other."""

from __future__ import annotations

import re

import pytest
from nbformat import NotebookNode

from specswitch.report.display import PLOTLY_MIMETYPE
from specswitch.report.execution import execute
from specswitch.sweep.code_path import CodePathParameters

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def executed() -> dict[str, NotebookNode]:
    """Cells of the executed notebook by their ids."""
    notebook, failure = execute(CodePathParameters.NOTEBOOK, {})
    assert failure is None, failure
    return {cell["id"]: cell for cell in notebook["cells"]}


def html_of(cell: NotebookNode) -> str:
    return " ".join(o["data"].get("text/html", "") for o in cell["outputs"] if "data" in o)


def rows(html: str) -> dict[str, list[str]]:
    found = re.findall(r"<tr>(.*?)</tr>", html)
    cells = [[re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in found]
    return {row[0]: row[1:] for row in cells}


def test_the_tree_is_drawn_and_told(executed: dict[str, NotebookNode]) -> None:
    cell = executed["tree"]
    assert any(PLOTLY_MIMETYPE in o["data"] for o in cell["outputs"])
    assert "So the scheduler holds DynamicEAGLEWorkerV2 (path v2)." in html_of(cell)


def test_the_live_server_is_what_was_foretold(executed: dict[str, NotebookNode]) -> None:
    """Field case A22: class and file come from the scheduler's own object."""
    found = rows(html_of(executed["proof"]))
    assert found["class of the scheduler&#x27;s worker"][1:] == ["DynamicEAGLEWorkerV2", "as foretold"]
    assert found["file of the engine&#x27;s class"][1] == "sglang/srt/speculative/eagle_worker_v2.py"
    assert found["file of that class"][1] == "specswitch/engine/workers.py"
    assert found["threshold"][1:] == ["4", "as foretold"]
    assert int(found["speculative steps made"][1]) > 0
    assert not [name for name, cells in found.items() if cells[-1] == "differs"]


def test_the_mistake_is_healthy_never_runs_and_is_refused(executed: dict[str, NotebookNode]) -> None:
    found = rows(html_of(executed["mistake"]))
    assert found["Path"] == ["v1", "v2"]
    assert found["Class that the scheduler holds"] == ["EAGLEWorker", "EAGLEWorkerV2"]
    tokens = [int(n) for n in found["Healthy, and made tokens"]]
    assert min(tokens) >= 32
    assert min(int(n) for n in found["Processes that loaded the change"]) >= 1
    never, often = (int(n) for n in found["Times that the change ran"])
    assert never == 0
    assert often > 0
    refused, accepted = found["Asked for v2, of the running server"]
    assert accepted == "accepted"
    assert refused.startswith("PathMismatchError: path: asked &#x27;v2&#x27;, the server has &#x27;v1&#x27;")
    assert found["Asked for v2, before the start"][0].startswith("PreflightError: path=&#x27;v2&#x27; was asked")
