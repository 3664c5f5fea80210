"""Where messages may come from: brokers that have queues of the topics, each in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.pop.pops import ALL_QUEUES, BROKERS_TIME
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.wire import headers
from rocketline.wire.headers import NotificationRequestHeader, NotificationResponseHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

POLL_S: Final = 15.0
"""How long a broker may hold a question back. Java: BROKER_SUSPEND_MAX_TIME_MILLIS."""
_REST_S: Final = 5.0


class PopSource(NamedTuple):
    """All queues that a broker has of a topic; its name is that on the wire."""

    topic: str
    broker_name: str

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, ALL_QUEUES)


class PopSources:
    """Those that the newest routes know."""

    def __init__(self, runtime: ClientRuntime, subscriptions: Subscriptions) -> None:
        self._runtime, self._subscriptions = runtime, subscriptions
        self._turn = 0
        self._resting: dict[PopSource, float] = {}
        """Until when those are left alone that have failed."""
        self._known: Mapping[str, tuple[Sequence[MessageQueue], list[PopSource]]] = {}
        """By topic: the queues that its sources were found for. Those of a route may be thousands."""

    def in_turn(self) -> list[PopSource]:
        """All with a master, each call with another one first; without those that rest, unless all do."""
        routes, now_s = self._runtime.routes, self._runtime.clock.monotonic()
        self._known = {topic: self._look(topic) for topic in self._subscriptions}
        sources = [source for _, some in self._known.values() for source in some if routes.master(source.broker_name)]
        self._resting = {source: until_s for source, until_s in self._resting.items() if until_s > now_s}
        sources = [source for source in sources if source not in self._resting] or sources
        self._turn += 1
        start = self._turn % len(sources) if sources else 0
        return sources[start:] + sources[:start]

    def rest(self, source: PopSource) -> None:
        """It has failed: others come first for a while."""
        self._resting[source] = self._runtime.clock.monotonic() + _REST_S

    def _look(self, topic: str) -> tuple[Sequence[MessageQueue], list[PopSource]]:
        routes = self._runtime.routes
        queues, known = routes.queues_to_read(topic), self._known.get(topic)
        if known is not None and known[0] is queues:
            return known
        return queues, [PopSource(topic, name) for name in dict.fromkeys(map(routes.broker_of, queues))]


class _Question(NamedTuple):
    """What a broker is to tell of: a message that this expression chooses."""

    source: PopSource
    expression_type: str
    expression: str


class Watches:
    """Brokers that were asked to tell when there is something to pop: they hand nothing out for it.

    So nothing is on its way to somebody who has gone, however many brokers there are. One question a source is under
    way, whoever waits; it stays when he has gone, for who waits next. Brokers before 5.1 tell of any message.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        group: str,
        subscriptions: Subscriptions,
        throttle: Throttle,
        *,
        timeout_s: float,
    ) -> None:
        """`timeout_s` is what an answer may take beyond the time for which a broker holds it back."""
        self._runtime, self._group, self._subscriptions = runtime, group, subscriptions
        self._throttle, self._timeout_s = throttle, timeout_s
        self._under_way: dict[_Question, asyncio.Task[None]] = {}
        self._news: set[PopSource] = set()
        """Those that have told of something and were not asked for it yet."""
        self._arrived = asyncio.Event()

    async def wait(self, sources: Sequence[PopSource], timeout_s: float) -> None:
        """Until one of them may have something; not longer than so."""
        self._arrived.clear()
        self.begin(sources)
        await self._runtime.wait_for(self._arrived, timeout_s)

    def begin(self, sources: Iterable[PopSource]) -> None:
        """Have them tell when there is something."""
        for question in map(self._question, sources):
            if question is not None and question not in self._under_way:
                watching = self._runtime.spawn(self._watch(question), name=f"watch {question.source}")
                self._under_way[question] = watching

    def take_best(self, sources: list[PopSource]) -> PopSource:
        """Take one out that has told of something, or else the first."""
        best = next((source for source in sources if source in self._news), sources[0])
        self._news.discard(best)
        sources.remove(best)
        return best

    def close(self) -> None:
        self._arrived.set()
        for watch in self._under_way.values():
            watch.cancel()

    def _question(self, source: PopSource) -> _Question | None:
        subscription = self._subscriptions.get(source.topic)
        if subscription is None:  # any more
            return None
        return _Question(source, subscription.expression_type, subscription.sub_string)

    async def _watch(self, question: _Question) -> None:
        try:
            await self._ask(question)
        except RocketlineError as error:
            told = "the broker is asked again soon"
            self._throttle.warning("watch failed", told, source=question.source, problem=error)
            await self._runtime.sleep(self._runtime.options.pull_pause_s)
        finally:
            del self._under_way[question]
        self._arrived.set()

    async def _ask(self, question: _Question) -> None:
        """Returns when there is something, or the time is over. Raises `RocketlineError`."""
        source = question.source
        header = NotificationRequestHeader(
            consumer_group=self._group,
            topic=source.topic,
            queue_id=ALL_QUEUES,
            poll_time=round(1000 * POLL_S),
            born_time=BROKERS_TIME,
            expression_type=question.expression_type,
            expression=question.expression,
        )
        address = self._runtime.routes.master(source.broker_name)
        if address is None:  # since the last route
            await self._runtime.sleep(self._runtime.options.pull_pause_s)
            return
        answer = await self._runtime.ask_ok(address, header, timeout_s=POLL_S + self._timeout_s)
        told = headers.decode(NotificationResponseHeader, answer.ext)
        if told.has_msg:
            self._news.add(source)
        if told.polling_full:
            await self._runtime.sleep(self._runtime.options.pull_pause_s)
