"""An interrupted bundle leaves nothing: no hidden folder beside OUT, no temporary file, no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from specswitch.bundle.child import child

from .made_up import PLATFORM, PYTHON, make_folder


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT], ids=lambda kind: kind.name)
def test_a_signal_leaves_no_folder_no_temporary_file_and_no_process(
    tmp_path: Path, kind: signal.Signals
) -> None:
    wheels, lock = make_folder(tmp_path)
    parent, scratch, said = tmp_path / "parent", tmp_path / "t", tmp_path / "said"
    parent.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "specswitch", "bundle", "--out", str(parent / "out")]
    command += ["--lock", str(lock), "--wheels", str(wheels), "--python", PYTHON, "--platform", PLATFORM]
    with (
        open(said, "wb") as stream,
        subprocess.Popen(
            command, env={**os.environ, "TMPDIR": str(scratch)}, stdout=stream, stderr=stream
        ) as program,
    ):
        until_s = time.monotonic() + 60
        while not (below := psutil.Process(program.pid).children(recursive=True)):  # it builds a wheel
            assert time.monotonic() < until_s
            time.sleep(0.02)
        time.sleep(0.5)
        below = psutil.Process(program.pid).children(recursive=True) or below
        assert [p.name for p in parent.iterdir()] != []
        program.send_signal(kind)
        program.wait(30)
    told = said.read_text(encoding="utf-8")
    assert program.returncode == 1, told
    assert told.splitlines()[-1] == f"error: interrupted by {kind.name}: no bundle was made"
    assert list(parent.iterdir()) == []
    assert list(scratch.iterdir()) == []
    assert [p for p in below if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []


def test_what_a_program_has_started_ends_with_it() -> None:
    below: list[psutil.Process] = []

    def interrupted() -> None:
        with child(["sh", "-c", "sleep 600 & echo $!; wait"], os.environ) as running:
            assert running.stdout is not None
            below.extend(psutil.Process(pid) for pid in (int(running.stdout.readline()), running.pid))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert psutil.wait_procs(below, timeout=5)[1] == []
