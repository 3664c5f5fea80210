"""Telling an application when a topic has other queues than before. Java: TopicMessageQueueChangeListener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from rocketline.client.rebalance.listeners import call_listener
from rocketline.client.runtime.namespaced import as_seen
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.scheduling import Stoppable
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue

_FIRST_S: Final = 10.0

TopicListener: TypeAlias = Callable[[str, set[MessageQueue]], object]
"""Called, or awaited, with a topic and all its queues."""


class TopicWatch:
    """Looks at some topics every now and then, from `start` to `close`."""

    def __init__(self, runtime: ClientRuntime, log: Throttle) -> None:
        self._runtime, self._log = runtime, log
        self._listeners: dict[str, list[TopicListener]] = {}
        self._known: dict[str, set[MessageQueue]] = {}
        self._work: Stoppable | None = None
        self._is_closed = False

    def add(self, topic: str, listener: TopicListener) -> None:
        """Tell `listener` of the next change. Until then what is there now counts as known."""
        self._listeners.setdefault(topic, []).append(listener)
        if self._work is not None:
            self._runtime.spawn(self._look(topic), name=f"look at {topic}")

    async def start(self, period_s: float) -> None:
        await self._look_at_all()
        if self._is_closed:  # meanwhile
            return
        self._work = self._runtime.every(period_s, _FIRST_S, self._look_at_all, name="look at topics")

    def close(self) -> None:
        self._is_closed = True
        if self._work is not None:
            self._work.cancel()
            self._work = None

    async def _look_at_all(self) -> None:
        for topic in list(self._listeners):
            await self._look(topic)

    async def _look(self, topic: str) -> None:
        """Compare, and tell. A topic that has no route now is not a topic without queues."""
        runtime, topic_on_wire = self._runtime, self._runtime.with_namespace(topic)
        try:
            await runtime.update_route(topic_on_wire)
        except RocketlineError as error:
            self._log.warning("queues of a topic not known", "they are looked for again", topic=topic, problem=error)
            return
        queues = {as_seen(runtime.namespace, queue) for queue in runtime.routes.queues_to_read(topic_on_wire)}
        known = self._known.get(topic)
        if not queues or queues == known:
            return
        self._known[topic] = queues
        if known is not None:
            for listener in self._listeners[topic]:
                await self._tell(listener, topic, queues)

    async def _tell(self, listener: TopicListener, topic: str, queues: set[MessageQueue]) -> None:
        def failed(error: BaseException) -> None:
            self._log.error("topic listener failed", "it is told of the next change", error=error, topic=topic)

        await call_listener(self._runtime, self._log, lambda: listener(topic, set(queues)), failed)
