"""What stays of a server's log: its end, whatever its size, and none of the secrets of its command line."""

from __future__ import annotations

from pathlib import Path

from specswitch.serving.argv import secrets_in
from specswitch.serving.log_tail import MAX_BYTES, log_tail, mask, masked


def test_the_tail_is_whole_lines_and_bounded(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {i:06d} {'x' * 500}\n" for i in range(1000)), encoding="utf-8")
    tail = log_tail(log)
    assert len(tail) <= MAX_BYTES
    assert all(line.startswith("line ") for line in tail.splitlines())
    assert tail.endswith("x")
    assert "line 000999" in tail


def test_no_file_has_no_tail(tmp_path: Path) -> None:
    assert log_tail(None) == log_tail(tmp_path / "none.log") == ""


def test_the_secrets_of_a_command_line_are_those_that_are_never_shown() -> None:
    argv = ["python", "--api-key", "k 1", "--host", "::1", "--admin-api-key=k=2"]
    assert secrets_in(argv) == ["k 1", "k=2"]
    assert secrets_in(["python", "--port", "1"]) == []


def test_a_masked_log_keeps_every_byte_in_its_place(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    before = "é ServerArgs(api_key='s3crét', port=1)\nend s3crét\n".encode()
    log.write_bytes(before)
    mask(log, ["s3crét"])
    after = log.read_bytes()
    assert "s3crét".encode() not in after
    assert len(after) == len(before)
    assert after.index(b"port=1") == before.index(b"port=1")
    assert after.endswith(b"\n")


def test_without_a_secret_nothing_is_written_and_a_lost_log_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("hello", encoding="utf-8")
    stamp = log.stat().st_mtime_ns
    mask(log, [])
    mask(log, ["absent"])
    assert log.stat().st_mtime_ns == stamp
    mask(tmp_path / "gone.log", ["x"])


def test_a_text_is_masked_like_a_file() -> None:
    assert masked("key=abc, abc", ["abc"]) == "key=***, ***"
