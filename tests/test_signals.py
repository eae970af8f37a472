"""Every command that runs servers, ended by a signal: nothing is left but what it says it keeps."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweep.support import servers_left, use_fake_engines

RUN = ["-p", "repeats", "2", "-p", "prompt_tokens", "8", "-p", "hold", "all"]
SWEEP = [*RUN, "-p", "arms", "none,always-v2", "-p", "concurrencies", "1,2", "-p", "window_s", "2"]
CROSSING = [*RUN, "-p", "arms", "none,dynamic-v2-t2", "-p", "load", "square:low=1,high=6,period=1,duration=4"]
COMMANDS = {
    "sweep": ["sweep", *SWEEP],
    "bare": ["sweep", "--no-notebook", *SWEEP],
    "crossing": ["crossing", *CROSSING],
    "calibrate": ["calibrate", "-p", "concurrencies", "1,2", "-p", "repeats", "20", "-p", "output_tokens", "200"],
    "soak": ["soak", "--path", "v2"],
}  # fmt: skip
# Files of the run folder that may stay, as the commands say.
KEPT = re.compile(
    r"(.*\.log|manifest\.json|report\.html|executed\.ipynb|soak\.json|unfinished\.json|points(/.*)?|servers|"
    r"steps|\.(batch\.|run\.)?lock)"
)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_leaves_no_process_no_port_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: signal.Signals
) -> None:
    use_fake_engines(monkeypatch)
    scratch, out = tmp_path / "t", tmp_path / "out"
    scratch.mkdir()
    command = [sys.executable, "-m", "specswitch", *COMMANDS[name], "--out", str(out)]
    environment = {**os.environ, "TMPDIR": str(scratch), "XDG_RUNTIME_DIR": ""}
    with (
        open(tmp_path / "said", "wb") as said,
        subprocess.Popen(command, env=environment, stdout=said, stderr=said) as program,
    ):
        _wait_until_a_server_is_used(program)
        below = psutil.Process(program.pid).children(recursive=True)
        ports = {c.laddr.port for p in below for c in _connections(p) if c.status == psutil.CONN_LISTEN}
        program.send_signal(kind)
        program.wait(60)
    told = (tmp_path / "said").read_text(encoding="utf-8")
    assert program.returncode == 1, told
    assert f"interrupted by {kind.name}" in told
    assert "Traceback" not in told
    assert servers_left() == []
    assert [p for p in below if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    assert ports
    assert [c for c in psutil.net_connections() if c.status == "LISTEN" and c.laddr.port in ports] == []
    assert list(scratch.iterdir()) == []
    assert str(out) in told, "where the kept files are"
    left = [str(p.relative_to(out)) for p in out.rglob("*")]
    assert [p for p in left if not KEPT.fullmatch(p)] == []


def _wait_until_a_server_is_used(program: subprocess.Popen[bytes]) -> None:
    """Until a server listens, and a little longer, so that requests run."""
    deadline_s = time.monotonic() + 60
    while not any(_connections(server) for server in servers_left()):
        assert program.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    time.sleep(2)


def _connections(process: psutil.Process) -> list:
    try:
        return process.net_connections()
    except psutil.Error:
        return []
