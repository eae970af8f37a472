"""A program that ends with us: with an interrupt goes everything that it started, before its folder is cleared away."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def child(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The running command; what it prints, on both streams, is its `stdout`. It is waited for.

    When the body raises, it and all of its process group are killed first. Raises OSError when it cannot start.
    """
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
