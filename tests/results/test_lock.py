"""A lock that all users of a machine share: no umask and no other owner keeps anybody from waiting in line."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from specswitch.results.layout import ResultsError
from specswitch.results.lock import BusyError, locked_for_all_users

NOBODY = 65534
BUSY = "measuring: wait for it"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A lock file to be, in a folder that everybody may write into, as /tmp is."""
    folder = Path(tempfile.mkdtemp(prefix="specswitch-shared-"))
    folder.chmod(0o1777)
    yield folder / "gpus.lock"
    shutil.rmtree(folder)


def try_to_lock(path: Path, told) -> None:
    """Lock as another user where we may become one (a user's own read-only file is as good as another's)."""
    if os.getuid() == 0:
        os.setuid(NOBODY)
    try:
        with locked_for_all_users(path, BUSY):
            told.put(("held", ""))
    except ResultsError as problem:
        told.put((type(problem).__name__, str(problem)))


def as_somebody_else(path: Path) -> tuple[str, str]:
    here = multiprocessing.get_context("fork")
    told = here.SimpleQueue()
    process = here.Process(target=try_to_lock, args=(path, told))
    process.start()
    answer = told.get()
    process.join()
    return answer


def test_the_lock_is_for_everybody_whatever_the_umask(shared: Path) -> None:
    before = os.umask(0o077)
    try:
        with locked_for_all_users(shared, BUSY):
            pass
    finally:
        os.umask(before)
    assert shared.stat().st_mode & 0o777 == 0o666
    assert as_somebody_else(shared) == ("held", "")


@pytest.mark.parametrize("mode", [0o666, 0o444])
def test_another_user_is_kept_out_while_it_is_held_and_only_then(shared: Path, mode: int) -> None:
    """0444: a file that the other user cannot write, as earlier releases left it."""
    with locked_for_all_users(shared, BUSY):
        shared.chmod(mode)
        kind, message = as_somebody_else(shared)
        assert kind == "BusyError"
        assert message == f"another run (process {os.getpid()}) is {BUSY}"
    assert as_somebody_else(shared) == ("held", "")


def test_a_process_that_is_gone_is_not_named_as_the_holder(shared: Path) -> None:
    ended = multiprocessing.get_context("fork").Process()
    ended.start()
    ended.join()
    with locked_for_all_users(shared, BUSY):
        shared.write_text(str(ended.pid), encoding="utf-8")
        with (
            pytest.raises(BusyError, match=r"\(process unknown\)"),
            locked_for_all_users(shared, BUSY),
        ):
            pass


def test_a_file_that_cannot_even_be_read_is_named_with_the_cure(shared: Path) -> None:
    shared.touch(mode=0o000)
    kind, message = as_somebody_else(shared)
    assert kind == "ResultsError"
    assert f"`chmod 666 {shared}`" in message
    assert "output folder" not in message


def test_a_link_laid_in_the_way_is_not_followed(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep", encoding="utf-8")
    shared.symlink_to(precious)
    with pytest.raises(ResultsError, match="lock file"), locked_for_all_users(shared, BUSY):
        pass
    assert precious.read_text(encoding="utf-8") == "keep"
