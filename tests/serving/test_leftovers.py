"""Removal of what a killed supervisor left: only listed processes, and only with the right start time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.support import runs, wait_for
from specswitch.serving import leftovers, proc

DEAD = [2**22 - 3, 1]  # no such process


@pytest.fixture
def sleeper() -> Iterator[proc.Process]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    identified = proc.identify(process.pid)
    assert identified is not None
    yield identified
    process.kill()
    process.wait()


def write(name: str, **fields: Any) -> Path:
    record = {
        "valid_in": proc.boot_and_namespace(),
        "owner": DEAD,
        "supervisor": DEAD,
        "processes": [],
        "exit_code": None,
    }
    path = leftovers.record_dir() / f"{name}.json"
    path.write_text(json.dumps(record | fields), encoding="utf-8")
    return path


def test_a_process_of_a_dead_supervisor_is_killed_and_its_record_removed(sleeper: proc.Process) -> None:
    """Field case C6: the next start cleans its own leftovers, by pid and start time."""
    path = write("a", processes=[list(sleeper)])
    assert leftovers.clean() == [sleeper.pid]
    assert not runs(sleeper.pid)
    assert not path.exists()


def test_a_process_that_got_a_recorded_pid_later_is_spared(sleeper: proc.Process) -> None:
    path = write("a", processes=[[sleeper.pid, sleeper.start - 1]])
    assert leftovers.clean() == []
    assert runs(sleeper.pid)
    assert not path.exists()


def test_a_server_with_a_living_supervisor_is_left_alone(sleeper: proc.Process) -> None:
    path = write("a", supervisor=list(sleeper), processes=[list(sleeper)])
    assert leftovers.clean() == []
    assert runs(sleeper.pid)
    assert path.exists()


def test_a_start_in_progress_is_left_alone(sleeper: proc.Process) -> None:
    path = write("a", owner=list(sleeper), supervisor=None)
    leftovers.clean()
    assert path.exists()


def test_records_of_an_earlier_boot_are_dropped_without_killing(sleeper: proc.Process) -> None:
    _, namespace = proc.boot_and_namespace().split()
    path = write("a", valid_in=f"another-boot {namespace}", processes=[list(sleeper)])
    assert leftovers.clean() == []
    assert runs(sleeper.pid)
    assert not path.exists()


def test_records_of_another_pid_namespace_are_not_touched(sleeper: proc.Process) -> None:
    boot, _ = proc.boot_and_namespace().split()
    path = write("a", valid_in=f"{boot} pid:[1]", processes=[list(sleeper)])
    assert leftovers.clean() == []
    assert runs(sleeper.pid)
    assert path.exists()


def test_a_damaged_record_does_no_harm() -> None:
    (leftovers.record_dir() / "x.json").write_text("{cut", encoding="utf-8")
    assert leftovers.clean() == []


def test_descendants_are_found_across_sessions(sleeper: proc.Process) -> None:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        assert {sleeper.pid, child.pid} <= {p.pid for p in proc.descendants(os.getpid())}
    finally:
        child.kill()
        child.wait()


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert wait_for(lambda: not runs(child.pid), 20)
    assert proc.read_stat(child.pid) is not None
    assert proc.identify(child.pid) is None
    child.wait()
