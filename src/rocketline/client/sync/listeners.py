"""Listeners of blocking clients, called from the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from rocketline.client.push.consume_request import is_coroutine_function
from rocketline.errors import ClientError


def in_thread(listener: Callable[..., object]) -> Callable[..., object]:
    """The application's listener may block, and call or close the consumer: the loop must not wait for it.

    Its thread is a daemon, so that one that hangs does not keep the process from ending. Raises `TypeError` for a
    coroutine function, which only a loop could run.
    """
    if is_coroutine_function(listener):
        raise TypeError(f"{listener!r} is a coroutine function: those are for the consumers of rocketline.aio")

    async def call(*arguments: object) -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            problem: Exception | None = None
            try:
                listener(*arguments)
            except BaseException as error:  # noqa: BLE001  # told on the loop, which SystemExit must not end
                problem = error if isinstance(error, Exception) else ClientError(repr(error))
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(_resolve, ended, problem)

        threading.Thread(target=run, name="rocketline queue listener", daemon=True).start()
        await ended

    return call


def _resolve(ended: asyncio.Future[None], problem: Exception | None) -> None:
    if ended.done():  # cancelled: nobody waits any more
        return
    if problem is None:
        ended.set_result(None)
    else:
        ended.set_exception(problem)
