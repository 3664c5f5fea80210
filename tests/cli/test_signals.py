"""The first signal asks for a clean end, the second one is the system's."""

from __future__ import annotations

import os
import signal

import pytest

from rocketline.cli.shared.signals import stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_first_signal_sets_the_event_and_gives_the_second_back_to_the_system(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stop:
        assert signal.getsignal(signal.SIGTERM) is not before
        os.kill(os.getpid(), number)
        await stop.wait()

        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_handlers_are_gone_after_the_block() -> None:
    with stop_signals() as stop:
        pass

    assert not stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
