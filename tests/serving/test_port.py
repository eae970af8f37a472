"""Free ports, taken ports, and hosts that are not ours."""

from __future__ import annotations

import os
import socket

import pytest

from specswitch.serving.errors import PortBusyError, PreflightError
from specswitch.serving.port import free_port, is_free, is_loopback, require_free, url_host, wait_until_free

HOST = "127.0.0.1"


def test_a_taken_port_is_named_with_its_holder() -> None:
    with socket.create_server((HOST, 0)) as s:
        number = s.getsockname()[1]
        with pytest.raises(PortBusyError, match=rf"port {number} .*{os.getpid()}"):
            require_free(HOST, number)
        assert not wait_until_free(HOST, number, timeout_s=0.2)
    assert wait_until_free(HOST, number, timeout_s=5)


def test_a_chosen_port_is_free_and_below_the_range_of_outgoing_connections() -> None:
    number = free_port()
    assert is_free(HOST, number)
    assert number <= 32_000


def test_a_port_without_one_10000_above_it_is_refused() -> None:
    """The engine would end at its start with an error about a port that nobody asked for."""
    require_free(HOST, free_port())
    with pytest.raises(PreflightError, match=r"port 61500: .*from 1 to 55535"):
        require_free(HOST, 61_500)


@pytest.mark.parametrize("number", [-1, 0, 65_536, 99_999])
def test_a_number_that_is_no_port_is_refused(number: int) -> None:
    with pytest.raises(PreflightError, match=f"port {number}: .*from 1 to 55535"):
        require_free(HOST, number)


def test_a_recently_closed_connection_does_not_make_a_port_busy() -> None:
    with socket.create_server((HOST, 0)) as s:
        number = s.getsockname()[1]
        client = socket.create_connection((HOST, number))
        accepted, _ = s.accept()
        accepted.close()  # the server's side closes first and stays in TIME_WAIT
        client.close()
    assert is_free(HOST, number)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_a_host_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(PreflightError, match=host):
        is_free(host, 20001)


def test_loopback_and_wildcards() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert url_host("0.0.0.0") == "127.0.0.1"
    assert url_host("::1") == "[::1]"
