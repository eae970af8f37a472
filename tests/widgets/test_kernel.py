"""The notebook's cells in a real kernel: it stays free while a server starts, and no end of it leaves one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from specswitch.config import project_root
from specswitch.sweep.notebook_file import load_template
from sweep.support import gone
from widgets.support import FAKE_LIVE, servers_left, wait_for

SITE = Path(__file__).parents[1] / "sweep" / "site"
Kernel = tuple[KernelManager, BlockingKernelClient]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in which servers are fake ones."""
    path = os.pathsep.join([str(SITE), str(project_root() / "lib")])
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "USE_FAKE_ENGINE": str(FAKE_LIVE),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    manager, client = start_new_kernel(kernel_name="python3", env=env, cwd=str(tmp_path), startup_timeout=120)
    yield manager, client
    client.stop_channels()
    if manager.is_alive():
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> None:
    answer = client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
    assert answer["content"]["status"] == "ok", answer["content"]


def open_notebook(client: BlockingKernelClient, folder: Path, more: str = "") -> None:
    """Run the notebook's code cells, `more` after the parameters; server logs go to `folder`."""
    cells = load_template(project_root() / "notebooks" / "04-live.ipynb")["cells"]
    parameters, panel = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    run(client, f"{parameters}\n{more}")
    run(
        client,
        f"from pathlib import Path as _P\nimport specswitch.widgets.sources as _s\n_s.project_root = lambda: _P({str(folder)!r})",
    )
    run(client, panel)


def test_the_kernel_is_free_while_a_server_starts_and_an_orderly_end_leaves_none(
    kernel: Kernel, tmp_path: Path
) -> None:
    manager, client = kernel
    open_notebook(client, tmp_path, """env = ['FAKE_ENGINE={"sloth_s": 50}']""")
    asked_s = time.monotonic()
    run(client, "panel.start.click()")
    run(client, "assert panel.session.phase == 'starting'")
    assert time.monotonic() - asked_s < 10
    assert wait_for(servers_left)
    run(client, "assert panel.session.phase == 'starting'")
    servers = servers_left()
    manager.shutdown_kernel()
    assert wait_for(lambda: all(gone(p.pid) for p in servers))


def test_a_killed_kernel_leaves_no_server(kernel: Kernel, tmp_path: Path) -> None:
    manager, client = kernel
    open_notebook(client, tmp_path)
    run(client, "panel.start.click()")
    run(client, "import time\nwhile panel.session.phase == 'starting': time.sleep(0.05)")
    run(client, "assert panel.session.phase == 'running', panel.messages.texts")
    (server,) = servers_left()
    (supervisor,) = psutil.Process(server.pid).parents()[:1]
    manager.shutdown_kernel(now=True)  # kill -9
    assert wait_for(lambda: gone(server.pid) and gone(supervisor.pid))
