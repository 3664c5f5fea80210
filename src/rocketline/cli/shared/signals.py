"""Ending a server that runs in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C or SIGTERM sets. The second one ends the process in the system's way, without ceremony."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def first() -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, first)
    try:
        yield stop
    finally:
        restore()
