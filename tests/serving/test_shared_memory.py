"""What processes have in /dev/shm, and what of it may go."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from specswitch.serving.shared_memory import inodes, mapped_by, remove_unused


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    made = SharedMemory(create=True, size=64)
    yield made
    made.close()
    made.unlink()


def test_semaphores_and_shared_memory_of_a_process_are_found(memory: SharedMemory) -> None:
    lock = multiprocessing.get_context("spawn").Lock()
    names = {path.name for path in mapped_by([os.getpid()])}
    assert {memory.name.lstrip("/"), "sem." + lock._semlock.name.lstrip("/")} <= names
    assert mapped_by([]) == {}


def test_a_new_file_is_seen_and_one_of_another_kind_is_not(memory: SharedMemory) -> None:
    file = Path("/dev/shm") / memory.name.lstrip("/")
    other = Path("/dev/shm") / f"specswitch_test_{os.getpid()}"
    other.write_bytes(b"x")
    try:
        assert file.stat().st_ino in inodes()
        assert other.stat().st_ino not in inodes()
    finally:
        other.unlink()


def test_what_a_process_still_uses_stays(memory: SharedMemory) -> None:
    file = Path("/dev/shm") / memory.name.lstrip("/")
    remove_unused({file: file.stat().st_ino})
    assert file.exists()


def test_another_file_of_the_same_name_stays() -> None:
    file = Path("/dev/shm") / f"psm_specswitch_test_{os.getpid()}"
    file.write_bytes(b"x")
    inode = file.stat().st_ino
    remove_unused({file: inode + 1})
    assert file.exists()
    remove_unused({file: inode})
    assert not file.exists()
