"""A JupyterLab of its own for a test, and a notebook run in it by its own front end.

The front end drops "run all" without a word while its kernel connection is not up, whatever the server says;
so it is the front end that is asked.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Page

from specswitch.config import project_root

UP_S = 120.0
CONNECTED = """() => {
  const session = jupyterapp.shell.currentWidget?.sessionContext?.session;
  return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}"""
UNTOUCHED = """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
  .every(prompt => prompt.textContent.trim() === '[ ]:')"""


@contextmanager
def jupyter_lab(folder: Path, program: list[str] | None = None, **environment: str) -> Iterator[str]:
    """JupyterLab on the notebooks in `folder`, without news and without a token; yields its address.

    `program`: what starts it otherwise, with `environment`; JupyterLab's options are added. Its own files lie in
    `folder` in any case. An empty token lets anything on this machine run code in it: for tests only, on loopback.
    """
    config = folder / "config"
    (config / "labconfig").mkdir(parents=True)
    quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (config / "labconfig" / "page_config.json").write_text(json.dumps(quiet), encoding="utf-8")
    port = _free_port()
    command = program or [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    command = [*command, "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password="]
    command += ["--allow-root", "--LabApp.extension_manager=readonly"]
    command += ["--expose-app-in-browser"]
    path = os.pathsep.join(p for p in (str(project_root() / "lib"), os.environ.get("PYTHONPATH")) if p)
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(config), "PYTHONPATH": path}
    env |= {"JUPYTER_DATA_DIR": str(folder / "data"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    env |= environment
    log = folder / "lab.log"
    with (
        open(log, "wb") as out,
        subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_up(url, process, log)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)  # ends its kernels, too
            process.wait(60)


def run_all(page: Page, address: str) -> None:
    """Open the notebook at `address` (`.../lab/tree/NAME`) and run all its cells."""
    page.goto(address)
    page.wait_for_function("() => window.jupyterapp !== undefined")
    page.evaluate("async () => { await jupyterapp.restored; }")
    page.wait_for_function("() => jupyterapp.shell.currentWidget?.sessionContext !== undefined")
    page.evaluate("async () => { await jupyterapp.shell.currentWidget.sessionContext.ready; }")
    page.wait_for_function(CONNECTED)
    for _ in range(5):
        page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
        page.wait_for_timeout(1500)
        if not page.evaluate(UNTOUCHED):
            return
    raise AssertionError("JupyterLab runs no cell")


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + UP_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            if httpx.get(f"{url}/api/status", trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(
        f"JupyterLab is not up:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
    )


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
