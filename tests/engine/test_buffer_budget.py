"""The memory bound of lazy sync and how it degrades."""

from __future__ import annotations

from specswitch.engine.buffer_budget import LEAST_WINDOW, fit_window


def fit(free_mb: float, rule: str = "lazy", window: int = 64) -> tuple[str, int]:
    return fit_window(rule=rule, window=window, bytes_per_token=24_000, slots=100, free=int(free_mb * 1e6))


def test_what_fits_stays() -> None:
    assert fit(4 * 154) == ("lazy", 64)


def test_a_window_too_large_is_halved_until_it_fits() -> None:
    assert fit(4 * 80) == ("lazy", 32)
    assert fit(4 * 20) == ("lazy", LEAST_WINDOW)


def test_below_the_least_window_lazy_becomes_eager() -> None:
    assert fit(4 * 10) == ("eager", 1)


def test_stale_stays_stale_without_memory() -> None:
    assert fit(1, rule="stale") == ("stale", 1)


def test_the_budget_is_never_exceeded() -> None:
    for mb in range(10, 2000, 37):
        rule, window = fit(mb)
        if rule == "lazy":
            assert window * 100 * 24_000 <= mb * 1e6 * 0.25
