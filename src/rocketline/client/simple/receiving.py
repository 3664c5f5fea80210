"""Getting messages for whoever asks: one source after the other, and then a wait for any of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rocketline.client.consumer.backoff import PullBackoff
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.pops import PopQuery, PopResult, Pops, PopStatus
from rocketline.client.pop.settling import Settling, each_of
from rocketline.client.simple.sources import POLL_S, PopSource, PopSources, Watches
from rocketline.errors import ClientError, ClosedError, RocketlineError, TopicNotFoundError
from rocketline.logs import Throttle

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

Outcome: TypeAlias = "list[PoppedMessage] | RocketlineError"
Popping: TypeAlias = "asyncio.Task[Outcome]"

_SLOW_S: Final = 0.5
"""A broker that takes longer is waited for while others are asked."""
_AT_ONCE: Final = 8
"""So many such brokers at the same time."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody who receives asks for."""

    count_max: int
    invisible_s: float
    from_first: bool


class _Sweep:
    """Brokers that are asked one after the other, and several at once only as far as they are slow to answer."""

    def __init__(self, sources: Iterable[PopSource]) -> None:
        self.left = deque(sources)
        self.under_way: dict[Popping, PopSource] = {}
        self.failures: list[RocketlineError] = []
        self.has_answer = False

    @property
    def may_ask(self) -> bool:
        return bool(self.left) and len(self.under_way) < _AT_ONCE

    @property
    def is_over(self) -> bool:
        return not (self.left or self.under_way)


class Receiving:
    """Pops for whoever receives. What was popped for somebody who has gone meanwhile is given back."""

    def __init__(
        self,
        runtime: ClientRuntime,
        subscriptions: Subscriptions,
        pops: Pops,
        settling: Settling,
        watches: Watches,
        *,
        max_attempts: int,
        throttle: Throttle,
    ) -> None:
        self._runtime, self._subscriptions, self._pops, self._settling = runtime, subscriptions, pops, settling
        self._watches, self._max_attempts, self._throttle = watches, max_attempts, throttle
        self._sources = PopSources(runtime, subscriptions)
        self._backoff = PullBackoff()
        self._full_until_s = 0.0
        """A broker holds back as many pops as it can, and is left alone until then."""
        self._closed: asyncio.Future[None] | None = None

    def open(self) -> None:
        """On the loop, before anybody receives."""
        self._closed = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Who waits gets `ClosedError`."""
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        self._watches.close()

    async def receive(self, wish: Wish, wait_s: float) -> list[PoppedMessage]:
        """Messages of one broker, as soon as there are any; none if none come in time.

        Ends in its time, or as much later as one request may take: what comes for it then is given back. Raises
        `TopicNotFoundError` if no topic has a route, `ClosedError`, and what brokers say if none has another answer.
        """
        monotonic = self._runtime.clock.monotonic
        due_s = monotonic() + wait_s
        while True:
            begun_s = monotonic()
            messages = await self._look(wish, due_s)
            now_s = monotonic()
            if messages or now_s >= due_s:
                return messages
            pause_s = max(self._backoff.after(0, False, now_s - begun_s, now_s), self._full_until_s - now_s)
            await self._runtime.sleep(min(pause_s, due_s - now_s))

    async def _look(self, wish: Wish, due_s: float) -> list[PoppedMessage]:
        """One round. A single source is asked to wait with its answer; many are watched instead."""
        sources = self._sources.in_turn() or await self._find_sources(due_s)
        if len(sources) == 1:
            return await self._pop(sources[0], wish, min(self._left_s(due_s), POLL_S))
        messages = await self._sweep(sources, wish, due_s)
        if not messages and (left_s := self._left_s(due_s)):
            await self._watches.wait(sources, left_s)
        return messages

    def _left_s(self, due_s: float) -> float:
        return max(due_s - self._runtime.clock.monotonic(), 0.0)

    async def _find_sources(self, due_s: float) -> list[PopSource]:
        if not self._subscriptions:
            raise ClientError("this consumer has subscribed to nothing: call subscribe(topic) first")
        limit_s = max(due_s, self._runtime.clock.monotonic() + self._runtime.options.api_timeout_s)
        for topic in list(self._subscriptions):
            async with self._runtime.limit_search(topic, self._left_s(limit_s)):
                await self._runtime.update_route(topic)
        sources = self._sources.in_turn()
        if not sources:
            topic = next(iter(self._subscriptions), "")
            raise TopicNotFoundError(self._runtime.without_namespace(topic), self._runtime.name_servers)
        return sources

    async def _sweep(self, sources: Sequence[PopSource], wish: Wish, due_s: float) -> list[PoppedMessage]:
        """Ask one after the other until one has something. Raises if none has another answer than an error."""
        limit_s = max(due_s, self._runtime.clock.monotonic() + self._runtime.options.api_timeout_s)
        sweep = _Sweep(sources)
        try:
            while not sweep.is_over and (left_s := self._left_s(limit_s)):
                if sweep.may_ask:
                    source = sweep.left.popleft()
                    sweep.under_way[self._begin(source, wish, 0.0)] = source
                patience_s = min(left_s, _SLOW_S) if sweep.may_ask else left_s
                for ended in await self._first_of(sweep.under_way, patience_s):
                    if messages := self._brought(sweep, ended):
                        return messages
        finally:
            self._abandon(sweep.under_way)
        if sweep.failures and not sweep.has_answer:
            raise sweep.failures[0]
        return []

    def _brought(self, sweep: _Sweep, ended: Popping) -> list[PoppedMessage]:
        source, outcome = sweep.under_way.pop(ended), ended.result()
        if not isinstance(outcome, RocketlineError):
            sweep.has_answer = True
            return outcome
        self._throttle.warning("pop failed", "other brokers are asked", source=source, problem=outcome)
        self._sources.rest(source)
        sweep.failures.append(outcome)
        return []

    # --- one pop

    async def _pop(self, source: PopSource, wish: Wish, poll_s: float) -> list[PoppedMessage]:
        popping = self._begin(source, wish, poll_s)
        try:
            await self._first_of((popping,))
        finally:
            if not popping.done():
                self._abandon((popping,))
        outcome = popping.result()
        if isinstance(outcome, RocketlineError):
            raise outcome
        return outcome

    def _begin(self, source: PopSource, wish: Wish, poll_s: float) -> Popping:
        """Pop in a task of its own: whoever receives may be cancelled, and then what comes is given back."""
        if self._closed is None or self._closed.done():
            raise ClosedError("the consumer was closed while it received")
        return self._runtime.spawn(self._outcome(source, wish, poll_s), name=f"pop {source}")

    async def _first_of(self, pops: Collection[Popping], timeout_s: float | None = None) -> list[Popping]:
        """Those that have ended, once one has, or in time none. Raises `ClosedError` once the consumer is closed."""
        assert self._closed is not None
        awaited: list[asyncio.Future[Any]] = [*pops, self._closed]
        with suppress(TimeoutError):
            async with nullcontext() if timeout_s is None else self._runtime.limit(timeout_s):
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        ended = [popping for popping in pops if popping.done()]
        if (self._closed.done() and not ended) or any(popping.cancelled() for popping in ended):
            raise ClosedError("the consumer was closed while it received")
        return ended

    def _abandon(self, pops: Iterable[Popping]) -> None:
        """Nobody waits for them any more."""
        for popping in pops:
            popping.add_done_callback(self._abandoned)

    def _abandoned(self, popping: asyncio.Task[Outcome]) -> None:
        outcome = None if popping.cancelled() or popping.exception() else popping.result()
        if isinstance(outcome, list) and outcome:
            self._runtime.spawn(self._give_back(outcome), name="give back what nobody waits for")

    async def _give_back(self, messages: Sequence[PoppedMessage]) -> None:
        await each_of(messages, lambda message: self._settling.give_back(message, 0.0))

    async def _outcome(self, source: PopSource, wish: Wish, poll_s: float) -> Outcome:
        """What the pop brings, or why it does not: an error that nobody waits for any more is no fault of ours."""
        subscription = self._subscriptions.get(source.topic)
        if subscription is None:  # any more
            return []
        query = PopQuery(source.queue, subscription, wish.count_max, wish.invisible_s, poll_s, wish.from_first)
        try:
            result = await self._pops.pop(query, poll_s + self._runtime.options.api_timeout_s)
        except RocketlineError as error:
            return error
        if result.status is PopStatus.POLLING_FULL:
            self._full_until_s = self._runtime.clock.monotonic() + self._runtime.options.pull_pause_s
        return await self._sorted_out(result)

    async def _sorted_out(self, result: PopResult) -> list[PoppedMessage]:
        """Without what nobody wants, and what was handed out too often: brokers give that again without end."""
        if result.unwanted:
            await self._settling.ack_all(result.unwanted)  # those for which it failed come again, to be seen here
        dead = [message for message in result.messages if message.attempt > self._max_attempts]
        for message, error in await each_of(dead, self._settling.bury):
            self._throttle.error("dead letter not kept", "the message comes again", popped=message, problem=error)
        return [message for message in result.messages if message.attempt <= self._max_attempts]
