"""What interrupted is said by the signal's name, whatever was running."""

from __future__ import annotations

import os
import signal

import pytest

from specswitch.serving.interrupt import SIGNALS, how_interrupted, signals_interrupt


@pytest.mark.parametrize("kind", SIGNALS, ids=lambda kind: kind.name)
def test_a_signal_becomes_an_interrupt_that_names_it(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    with pytest.raises(KeyboardInterrupt) as caught, signals_interrupt():
        os.kill(os.getpid(), kind)
    assert how_interrupted(caught.value) == f"interrupted by {kind.name}"
    assert signal.getsignal(kind) is before


def test_what_a_codec_adds_to_the_interrupt_is_left_out() -> None:
    wrapped = KeyboardInterrupt("encoding with 'idna' codec failed (KeyboardInterrupt: SIGTERM)")
    assert how_interrupted(wrapped) == "interrupted by SIGTERM"


def test_an_interrupt_without_a_signal_is_just_that() -> None:
    assert how_interrupted(KeyboardInterrupt()) == "interrupted"
