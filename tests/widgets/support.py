"""What the tests of the live notebook share: the fake server as a process, waiting, a listener that notes all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from specswitch.load.background import Tally
from specswitch.sweep.parameters import SweepParameters
from specswitch.widgets.samples import Sample

FAKE_LIVE = Path(__file__).with_name("fake_live.py")
DYNAMIC_V2 = (
    "--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4", "--speculative-disable-batch-threshold", "4",
)  # fmt: skip
SMALL = SweepParameters(prompt_tokens=8, output_tokens=32, max_running_requests=32, ready_timeout_s=60.0)


@contextmanager
def fake_live(*flags: str) -> Iterator[str]:
    """The fake server in a process of its own; yields its URL."""
    command = [sys.executable, "-u", str(FAKE_LIVE), "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert line.startswith("port="), f"the fake server did not start (exit {process.poll()})"
            yield f"http://127.0.0.1:{int(line.removeprefix('port='))}"
        finally:
            process.terminate()
            process.wait(30)


def kill(url: str) -> None:
    """Make the fake server at `url` die."""
    try:
        httpx.post(f"{url}/die", trust_env=False)
    except httpx.HTTPError:
        return


def servers_left() -> list[psutil.Process]:
    """Fake servers running below this process."""
    return [p for p in psutil.Process().children(recursive=True) if _words(p)[1:2] == [str(FAKE_LIVE)]]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def wait_for(condition: Callable[[], Any], timeout_s: float = 40.0) -> bool:
    """Poll until the condition holds; False if it does not within the time."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True


class Notes:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str]] = []
        self.samples: list[Sample] = []
        self.states: list[dict[str, Any] | None] = []
        self.tallies: list[Tally] = []
        self.refusals: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[str] = []

    def phase(self, phase: str, message: str) -> None:
        self.phases.append((phase, message))

    def looked(self, sample: Sample, state: dict[str, Any] | None, tally: Tally) -> None:
        self.samples.append(sample)
        self.states.append(state)
        self.tallies.append(tally)

    def refused(self, reason: str, state: dict[str, Any]) -> None:
        self.refusals.append((reason, state))

    def problem(self, text: str) -> None:
        self.problems.append(text)

    @property
    def order(self) -> list[str]:
        return [phase for phase, _ in self.phases]
