"""The kernel of a notebook that we run: this very interpreter, over private sockets, with time to clean up."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

# Linux takes 107 bytes for the path of a socket; what follows the folder's name needs 20.
_LONGEST_FOLDER = 80
# Seconds for a cell to close its servers after an interrupt, before the kernel is killed.
SHUTDOWN_WAIT_S = 90.0


def kernel_manager_in(folder: Path) -> type[AsyncKernelManager]:
    """A kernel manager class whose connection file and sockets lie in `folder` (private, short-lived).

    It starts this interpreter, whatever kernelspecs the machine has. Unix sockets instead of TCP: no ports to
    race for with other runs, nobody else can connect, and the kernel has nothing to warn about. Where the
    folder's name is too long for a socket, TCP it is.
    """

    class OwnKernelManager(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.shutdown_wait_time = SHUTDOWN_WAIT_S
            self.connection_file = str(folder / "kernel.json")
            if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
                self.transport = "ipc"

        @property
        def kernel_spec(self) -> KernelSpec:
            """This interpreter in UTF-8 mode: paths and prompts do not depend on the locale.

            The kernel's own log is silent: it calls every orderly end a caught interrupt.
            """
            program = [sys.executable, "-X", "utf8", "-m", "ipykernel_launcher"]
            return KernelSpec(
                argv=[*program, "-f", "{connection_file}", "--log-level=CRITICAL"],
                display_name="Python 3",
                language="python",
            )

    return OwnKernelManager
