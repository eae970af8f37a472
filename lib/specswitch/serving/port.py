"""Ports on this host: find a free one, or say who has the one that was asked for."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket
import time

import psutil

from specswitch.serving.errors import PortBusyError, PreflightError

# Below the range from which the kernel takes ports for outgoing connections, so that none of those takes
# ours between the choice and the server's bind.
FIRST, LAST = 20_000, 32_000
TRIES = 200
# The engine keeps the port 10,000 above for gRPC and refuses to start where there is none.
HIGHEST = 65_535 - 10_000


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on, chosen at random so that parallel launches differ."""
    for _ in range(TRIES):
        port = random.randint(FIRST, LAST)
        if is_free(host, port):
            return port
    raise PortBusyError(f"no free port on {host} between {FIRST} and {LAST} in {TRIES} tries")


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on the port now.

    Raises:
        PreflightError: the host is not an address of this machine.
    """
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(info[0], info[1]) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(info[4])
            s.listen(1)
    except socket.gaierror as e:
        raise PreflightError(f"host {host!r} cannot be resolved ({e}): use 127.0.0.1") from e
    except OSError as e:
        if e.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise PreflightError(f"host {host!r} is not an address of this machine ({e}): use 127.0.0.1") from e
    return True


def check_number(port: int) -> None:
    """Raises PreflightError for a port that the engine cannot use."""
    if not 1 <= port <= HIGHEST:
        raise PreflightError(
            f"port {port}: the engine keeps port + 10000 for itself, give one from 1 to {HIGHEST}"
        )


def require_free(host: str, port: int) -> None:
    """Raises PortBusyError naming the port and, where it can be seen, the process that has it.

    PreflightError for a port that the engine cannot use.
    """
    check_number(port)
    if not is_free(host, port):
        holder = _listener(port)
        by = f" by {holder}" if holder else ""
        raise PortBusyError(f"port {port} on {host} is taken{by}: give another port, or none to choose one")


def wait_until_free(host: str, port: int, timeout_s: float = 15.0) -> bool:
    """Wait for a closed server's port; False if it is still taken after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not is_free(host, port):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_host(host: str) -> str:
    """The host part of a URL for a client on this machine: wildcard addresses become loopback."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host


def _listener(port: int) -> str | None:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        return None
    for c in connections:
        if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid:
            try:
                return f"process {c.pid} ({psutil.Process(c.pid).name()})"
            except psutil.Error:
                return f"process {c.pid}"
    return None
