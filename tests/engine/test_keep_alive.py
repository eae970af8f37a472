"""The engine's patience with idle connections, held against our client's."""

from __future__ import annotations

from sglang.srt.environ import envs

from specswitch.load import client


def test_an_idle_connection_is_given_up_well_before_the_engine_closes_it() -> None:
    assert envs.SGLANG_TIMEOUT_KEEP_ALIVE.get() >= 2 * client.IDLE_CONNECTION_S
