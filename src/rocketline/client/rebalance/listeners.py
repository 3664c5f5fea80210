"""Calling an application's listeners, which are told of queues."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rocketline.client.runtime.namespaced import as_seen
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue

if TYPE_CHECKING:
    from rocketline.client.rebalance.options import QueueListener
    from rocketline.client.runtime.runtime import ClientRuntime

_inside: ContextVar[tuple[Throttle, asyncio.Task[None] | None] | None] = ContextVar("inside a listener", default=None)
"""Whose listener runs, for each consumer has a log of its own, and its task: tasks that a listener starts have this,
too, and may outlive it."""


async def call_listener(
    runtime: ClientRuntime, log: Throttle, call: Callable[[], object], failed: Callable[[BaseException], None]
) -> None:
    """Make this call of a listener, and await what it gives if that is to be awaited. `failed` gets what it raises.

    It runs in a task of its own: one that closes the consumer goes on when the work that called it is cancelled.
    """

    async def run() -> None:
        task = asyncio.current_task()
        _inside.set((log, task))
        try:
            outcome = call()
            if inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise
            failed(error)  # not we are cancelled, but something that the listener waited for
        except Exception as error:  # noqa: BLE001  # the application's listener may raise anything
            failed(error)

    await asyncio.shield(runtime.spawn(run(), name="listener"))


async def tell_listener(
    runtime: ClientRuntime,
    log: Throttle,
    listener: QueueListener,
    topic: str,
    queues: Collection[MessageQueue],
    assigned: Collection[MessageQueue],
) -> None:
    """Tell a consumer's listener that other queues are its own, with names as the application knows them."""

    def call() -> object:
        there, ours = ({as_seen(runtime.namespace, queue) for queue in some} for some in (queues, assigned))
        return listener(runtime.without_namespace(topic), there, ours)

    def failed(error: BaseException) -> None:
        log.error("queue listener failed", "queues are read all the same", error=error, topic=topic)

    await call_listener(runtime, log, call, failed)


def is_inside_listener(log: Throttle) -> bool:
    """The caller is a listener on the loop, of the consumer that has this log, or works for one that waits for it."""
    inside = _inside.get()
    if inside is None or inside[0] is not log:
        return False
    task = inside[1]
    return task is not None and not task.done()
