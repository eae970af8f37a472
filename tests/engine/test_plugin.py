"""When a server in which Specswitch cannot be installed must not start: only where it was asked for."""

from __future__ import annotations

import sys

import pytest

from specswitch.engine import plugin

STOCK = ["-m", "sglang.launch_server", "--model-path", "m"]


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Specswitch in an SGLang that it does not fit, in a shell without our variables."""

    def install() -> None:
        raise RuntimeError("another SGLang")

    monkeypatch.setattr(plugin, "_install", install)
    for name in ("SPECSWITCH_NONCE", "SPECSWITCH_CPU", "SPECSWITCH_API_KEY", "SPECSWITCH_STEPS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", STOCK)


def test_a_stock_server_beside_it_runs_without(caplog: pytest.LogCaptureFixture) -> None:
    plugin.register()
    assert "another SGLang; this server runs without it" in caplog.text


def test_the_clients_key_in_the_environment_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECSWITCH_API_KEY", "secret")
    plugin.register()


@pytest.mark.parametrize("name", ["SPECSWITCH_NONCE", "SPECSWITCH_CPU", "SPECSWITCH_STEPS_DIR"])
def test_a_server_started_under_it_exits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SPECSWITCH_API_KEY", "secret")
    monkeypatch.setenv(name, "1")
    with pytest.raises(SystemExit, match="another SGLang"):
        plugin.register()


@pytest.mark.parametrize(
    "option", ["--speculative-disable-batch-threshold=4", "--speculative-batch-table=table.json"]
)
def test_a_server_with_one_of_its_options_exits(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(sys, "argv", [*STOCK, option])
    with pytest.raises(SystemExit, match="another SGLang"):
        plugin.register()
