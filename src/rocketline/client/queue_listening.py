"""Telling an application that other queues are its consumer's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rocketline.client.queue_names import as_seen
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue

if TYPE_CHECKING:
    from rocketline.client.push_options import QueueListener
    from rocketline.client.runtime import ClientRuntime

_inside: ContextVar[Throttle | None] = ContextVar("inside a queue listener", default=None)
"""Each consumer has a log of its own."""


async def tell_listener(
    runtime: ClientRuntime,
    log: Throttle,
    listener: QueueListener,
    topic: str,
    queues: Collection[MessageQueue],
    assigned: Collection[MessageQueue],
) -> None:
    """Call the listener, or await it, with the topic and its queues as the application names them.

    It runs in a task of its own: one that closes the consumer goes on when the rebalance that called it is cancelled.
    What it raises is logged.
    """

    async def tell() -> None:
        _inside.set(log)
        try:
            outcome = listener(runtime.without_namespace(topic), as_seen(runtime, queues), as_seen(runtime, assigned))
            if inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # Not we are cancelled, but something that the listener waited for: it must not end the rebalances.
            log.error("queue listener failed", "queues are read all the same", error=error, topic=topic)
        except Exception as error:  # noqa: BLE001  # the application's listener may raise anything
            log.error("queue listener failed", "queues are read all the same", error=error, topic=topic)

    await asyncio.shield(runtime.spawn(tell(), name="queue listener"))


def is_inside_listener(log: Throttle) -> bool:
    """The caller is a listener on the loop, of the consumer that has this log."""
    return _inside.get() is log
