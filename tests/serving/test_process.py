"""The supervised process: nothing is left behind, however this side ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from serving.fake_child import STUBBORN_HELPER
from serving.support import FAKE_CHILD, clean_environment, read_pid, runs, wait_for
from specswitch.serving import leftovers, proc, scratch
from specswitch.serving.errors import ServerExitedError
from specswitch.serving.port import free_port, is_free
from specswitch.serving.process import ServerProcess

GONE_S = 20.0  # what a user is promised

OWNER = """
    import os, sys, time
    from pathlib import Path
    from specswitch.serving.process import ServerProcess

    process = ServerProcess(sys.argv[2:], dict(os.environ), Path(sys.argv[1]), "nonce-owner")
    while process.pid is None:
        time.sleep(0.05)
    if "FORK" in os.environ and os.fork() == 0:
        time.sleep(60)  # holds a copy of every descriptor, also of the supervisor's line
        os._exit(0)
    Path(sys.argv[1]).with_suffix(".pid").write_text(str(process.pid), encoding="utf-8")
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        if "close" in os.environ.get("ON_INTERRUPT", ""):
            process.stop()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def start(tmp_path: Path, argv: list[str], **kwargs: float) -> ServerProcess:
    return ServerProcess(argv, clean_environment(), tmp_path / "server.log", "nonce", **kwargs)


class Owner:
    """A process of its own that starts the fake server, which has a stubborn grandchild; and is then ended."""

    def __init__(self, tmp_path: Path, **environment: str) -> None:
        self.port = free_port()
        log, grandchild = tmp_path / "server.log", tmp_path / "grandchild"
        command = [*python(OWNER), str(log), sys.executable, str(FAKE_CHILD), "--port", str(self.port)]
        env = clean_environment(FAKE_GRANDCHILD=str(grandchild), **environment)
        self.process = subprocess.Popen(command, env=env)
        self.server = read_pid(log.with_suffix(".pid"))
        self.helper = read_pid(grandchild)
        assert os.getsid(self.helper) == self.helper
        assert wait_for(lambda: not is_free("127.0.0.1", self.port), 30)

    def nothing_left(self) -> bool:
        gone = wait_for(lambda: not runs(self.server) and not runs(self.helper), GONE_S)
        return gone and is_free("127.0.0.1", self.port)


def test_kill_9_of_the_owner_leaves_nothing_and_spares_a_foreign_process_of_the_same_name(
    tmp_path: Path,
) -> None:
    """Field case C6: kill -9 of the kernel; the server's own-session helper ignores SIGTERM."""
    foreign = subprocess.Popen([sys.executable, "-c", STUBBORN_HELPER])
    try:
        owner = Owner(tmp_path)
        owner.process.kill()
        owner.process.wait()
        assert owner.nothing_left()
        assert foreign.poll() is None
        assert wait_for(lambda: not list(leftovers.record_dir().glob("*.json")), 5)
    finally:
        foreign.kill()
        foreign.wait()


def test_kill_9_of_an_owner_with_a_forked_child_leaves_nothing(tmp_path: Path) -> None:
    """Field case C6: a worker forked by the kernel keeps the line to the supervisor open; it goes all the same."""
    owner = Owner(tmp_path, FORK="1")
    forked = [p.pid for p in proc.descendants(owner.process.pid) if os.getsid(p.pid) == os.getsid(0)]
    owner.process.kill()
    owner.process.wait()
    try:
        assert len(forked) == 1
        assert runs(forked[0])
        assert owner.nothing_left()
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["", "close"])
def test_an_interrupt_that_ends_the_owner_ends_the_server(tmp_path: Path, how: str) -> None:
    """Field case C6: interrupt of the cell, with and without a handler that stops the server."""
    owner = Owner(tmp_path, ON_INTERRUPT=how)
    owner.process.send_signal(signal.SIGINT)
    owner.process.wait(GONE_S)
    assert owner.nothing_left()


def test_a_second_interrupt_while_it_stops_does_not_let_the_owner_go_first(tmp_path: Path) -> None:
    owner = Owner(tmp_path, ON_INTERRUPT="close")
    owner.process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # the helper ignores SIGTERM: it takes longer
    owner.process.send_signal(signal.SIGINT)
    owner.process.wait(GONE_S)
    assert not runs(owner.server)
    assert not runs(owner.helper)


def test_sigterm_to_the_owner_ends_the_server(tmp_path: Path) -> None:
    """Field case C6: a restart of the kernel ends it without running any of its code."""
    owner = Owner(tmp_path)
    owner.process.terminate()
    owner.process.wait(GONE_S)
    assert owner.nothing_left()


def test_stop_takes_the_own_session_grandchild_that_ignores_sigterm(tmp_path: Path) -> None:
    pid_file = tmp_path / "helper"
    process = start(
        tmp_path,
        python(f"""
            import subprocess, sys, time
            helper = subprocess.Popen([sys.executable, "-c", {STUBBORN_HELPER!r}], start_new_session=True)
            open({str(pid_file)!r}, "w").write(str(helper.pid))
            time.sleep(600)
        """),
        grace_s=0.5,
    )
    helper = read_pid(pid_file)
    process.stop()
    assert not runs(helper)
    assert process.poll() == -signal.SIGTERM
    process.stop()  # again does no harm


def test_an_orphaned_grandchild_is_found_after_the_server_ended_by_itself(tmp_path: Path) -> None:
    pid_file = tmp_path / "helper"
    process = start(
        tmp_path,
        python(f"""
            import subprocess, sys
            helper = subprocess.Popen([sys.executable, "-c", {STUBBORN_HELPER!r}], start_new_session=True)
            open({str(pid_file)!r}, "w").write(str(helper.pid))
        """),
    )
    helper = read_pid(pid_file)
    assert process.wait() == 0
    assert not runs(helper)


def test_the_exit_of_the_child_is_reported_with_code_and_log(tmp_path: Path) -> None:
    """Field case C8: `boom`, then exit code 3, known in under 5 s."""
    begun = time.monotonic()
    process = start(tmp_path, python("import sys; print('boom'); sys.exit(3)"))
    assert wait_for(lambda: process.poll() is not None, 5)
    with pytest.raises(ServerExitedError, match="exit code 3 in the test") as caught:
        process.raise_if_exited("in the test")
    assert time.monotonic() - begun < 5
    assert caught.value.exit_code == 3
    assert caught.value.log_tail.strip() == "boom"


def test_a_child_killed_by_a_signal_is_reported_as_that(tmp_path: Path) -> None:
    process = start(tmp_path, python("import os; os.kill(os.getpid(), 9)"))
    assert process.wait() == -9


def test_a_command_that_does_not_exist_is_exit_127_with_the_reason_in_the_log(tmp_path: Path) -> None:
    process = start(tmp_path, ["/no/such/program"])
    assert process.wait() == 127
    assert "/no/such/program" in process.log_tail()


def test_a_flood_of_output_goes_to_the_file_complete_and_the_tail_stays_short(tmp_path: Path) -> None:
    """Field case C9: 200,000 lines, 80 MB, on both streams; nobody reads them meanwhile."""
    process = start(
        tmp_path,
        python("""
            import sys
            for i in range(100_000):
                sys.stdout.write(f"o{i:07d}" + "x" * 391 + "\\n")
                sys.stderr.write(f"e{i:07d}" + "x" * 391 + "\\n")
        """),
    )
    assert process.wait() == 0
    log = (tmp_path / "server.log").read_bytes()
    assert len(log) == 200_000 * 400
    assert log.count(b"\n") == 200_000
    assert b"e0099999" in log
    assert len(process.log_tail()) <= 16_384


def test_the_server_outlives_a_killed_supervisor_only_until_the_next_look(tmp_path: Path) -> None:
    process = start(tmp_path, python("import time; time.sleep(600)"))
    assert wait_for(lambda: process.pid is not None, 10)
    pid = process.pid
    assert pid is not None
    os.kill(process._supervisor.pid, signal.SIGKILL)
    assert wait_for(lambda: process.poll() is not None, 10)
    assert wait_for(lambda: not runs(pid), 10)


LEAVES = """
    import multiprocessing, os, signal, sys, tempfile, time
    from multiprocessing.shared_memory import SharedMemory

    if __name__ == "__main__":
        handle, name = tempfile.mkstemp()  # as the engine does for the names of its sockets
        os.mkdir(os.path.join(tempfile.gettempdir(), "cache"))
        lock, memory = multiprocessing.get_context("spawn").Lock(), SharedMemory(create=True, size=64)
        left = [name, "/dev/shm/sem." + lock._semlock.name.lstrip("/"), "/dev/shm/" + memory.name.lstrip("/")]
        time.sleep(2.5)  # a supervisor looks every second: by now it knows all these processes
        late = SharedMemory(create=True, size=64)
        left.append("/dev/shm/" + late.name.lstrip("/"))
        time.sleep(2.5)
        with open(sys.argv[1] + ".tmp", "w") as f:
            f.write("\\n".join(left))
        os.replace(sys.argv[1] + ".tmp", sys.argv[1])
        if len(sys.argv) > 2:
            from multiprocessing.resource_tracker import _resource_tracker
            os.kill(_resource_tracker._pid, signal.SIGKILL)  # as the engine does with all its children
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
"""


def leaves(tmp_path: Path, *more: str) -> tuple[ServerProcess, list[Path]]:
    """A server that makes temporary files, a semaphore and shared memory, and these once they are there."""
    told = tmp_path / "left"
    process = start(tmp_path, [*python(LEAVES), str(told), *more], grace_s=0.5)
    assert wait_for(told.exists, 30), process.log_tail()
    return process, [Path(line) for line in told.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("end", ["stop", "by itself", "supervisor killed", "supervisor killed, next start"])
def test_temporary_files_go_with_the_server(tmp_path: Path, end: str) -> None:
    process, (file, *_) = leaves(tmp_path, *(["die"] if end == "by itself" else []))
    folder = file.parent
    assert folder.name.startswith(scratch.PREFIX)
    if end == "stop":
        assert file.exists()
        process.stop()
    elif end == "by itself":
        assert process.wait() == -signal.SIGKILL
    else:
        os.kill(process._supervisor.pid, signal.SIGKILL)
        process._supervisor.wait()
        leftovers.clean() if "next start" in end else process.poll()
    assert not folder.exists()


@pytest.mark.parametrize("end", ["stop", "by itself", "supervisor killed"])
def test_semaphores_and_shared_memory_of_a_killed_tree_are_removed(tmp_path: Path, end: str) -> None:
    process, (_, *shared) = leaves(tmp_path, *(["die"] if end == "by itself" else []))
    assert [p.parent.name for p in shared] == [
        "shm"
    ] * 3  # the last one made when no process was new any more
    if end == "stop":
        process.stop()
    elif end == "by itself":
        process.wait()
    else:
        os.kill(process._supervisor.pid, signal.SIGKILL)
        process._supervisor.wait()
        process.poll()
    assert [p for p in shared if p.exists()] == []


def test_temporary_files_go_with_a_killed_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(
        dir=scratch.SHORT, prefix="t-"
    ) as short:  # a long path would not be taken
        monkeypatch.setenv("TMPDIR", short)
        owner = Owner(tmp_path)
        assert [p.name.startswith(scratch.PREFIX) for p in Path(short).iterdir()] == [True]
        owner.process.kill()
        owner.process.wait()
        assert owner.nothing_left()
        assert wait_for(lambda: not list(Path(short).iterdir()), 5)


def test_a_server_that_cannot_be_started_leaves_neither_folder_nor_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    with pytest.raises(FileNotFoundError):
        ServerProcess(["true"], {}, tmp_path / "nowhere" / "server.log", "nonce")
    assert list((tmp_path / "t").iterdir()) == []
    assert list(leftovers.record_dir().iterdir()) == []


def test_an_idle_supervisor_costs_next_to_no_cpu(tmp_path: Path) -> None:
    process = start(tmp_path, python("import time; time.sleep(600)"))
    try:
        assert wait_for(lambda: process.pid is not None, 10)
        time.sleep(1)
        stat = Path(f"/proc/{process._supervisor.pid}/stat")

        def cpu_s() -> float:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before = cpu_s()
        time.sleep(4)
        assert cpu_s() - before < 0.2
    finally:
        process.stop()
