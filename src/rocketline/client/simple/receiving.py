"""Getting messages for whoever asks: one source after the other, and then a wait for any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

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

_LEAST: Final = 0.25
"""Of the time that a request may take: with less than that left no broker is asked any more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody who receives asks for."""

    count_max: int
    invisible_s: float
    from_first: bool


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

        Ends in its time, or as much later as one request may take. Raises `TopicNotFoundError` if no topic has a route,
        `ClosedError`, and what brokers say if all fail that could be asked.
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
        api_timeout_s = self._runtime.options.api_timeout_s
        limit_s = max(due_s, self._runtime.clock.monotonic()) + api_timeout_s
        sources = self._sources.in_turn() or await self._find_sources(limit_s)
        left_s = self._left_s(due_s)
        if len(sources) == 1:
            poll_s = min(left_s, POLL_S)
            return await self._pop(sources[0], wish, poll_s, poll_s + api_timeout_s)
        messages = await self._sweep(sources, wish, limit_s)
        if not messages and (left_s := self._left_s(due_s)):
            await self._watches.wait(sources, left_s)
        return messages

    def _left_s(self, until_s: float) -> float:
        return max(until_s - self._runtime.clock.monotonic(), 0.0)

    async def _find_sources(self, limit_s: float) -> list[PopSource]:
        if not self._subscriptions:
            raise ClientError("this consumer has subscribed to nothing: call subscribe(topic) first")
        for topic in list(self._subscriptions):
            async with self._runtime.limit_search(topic, self._left_s(limit_s)):
                await self._runtime.update_route(topic)
        sources = self._sources.in_turn()
        if not sources:
            topic = next(iter(self._subscriptions), "")
            raise TopicNotFoundError(self._runtime.without_namespace(topic), self._runtime.name_servers)
        return sources

    async def _sweep(self, sources: Sequence[PopSource], wish: Wish, limit_s: float) -> list[PoppedMessage]:
        """Ask one after the other until one has something. Raises if all fail whose turn comes in time.

        Never several at once: what a slow one has brought by then would be given back, time and again, until it counts
        as tried too often. Who has something tells so meanwhile, and comes first.
        """
        left, failures = list(sources), list[RocketlineError]()
        api_timeout_s = self._runtime.options.api_timeout_s
        while left and (left_s := self._left_s(limit_s)) >= api_timeout_s * _LEAST:
            source = self._watches.take_best(left)
            try:
                if messages := await self._pop(source, wish, 0.0, min(api_timeout_s, left_s)):
                    return messages
            except ClosedError:
                raise
            except RocketlineError as error:
                self._throttle.warning("pop failed", "other brokers are asked", source=source, problem=error)
                self._sources.rest(source)
                failures.append(error)
                self._watches.begin(left)
        if failures and len(failures) == len(sources) - len(left):
            raise failures[0]
        return []

    # --- one pop

    async def _pop(self, source: PopSource, wish: Wish, poll_s: float, timeout_s: float) -> list[PoppedMessage]:
        """Pop in a task of its own: whoever receives may be cancelled, and then what comes is given back."""
        if self._closed is None or self._closed.done():
            raise ClosedError("the consumer was closed while it received")
        popping = self._runtime.spawn(self._outcome(source, wish, poll_s, timeout_s), name=f"pop {source}")
        try:
            await asyncio.wait((popping, self._closed), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            popping.add_done_callback(self._abandoned)
            raise
        if not popping.done():
            popping.add_done_callback(self._abandoned)
        if not popping.done() or popping.cancelled():
            raise ClosedError("the consumer was closed while it received")
        outcome = popping.result()
        if isinstance(outcome, RocketlineError):
            raise outcome
        return outcome

    def _abandoned(self, popping: asyncio.Task[Outcome]) -> None:
        outcome = None if popping.cancelled() or popping.exception() else popping.result()
        if isinstance(outcome, list) and outcome:
            self._runtime.spawn(self._give_back(outcome), name="give back what nobody waits for")

    async def _give_back(self, messages: Sequence[PoppedMessage]) -> None:
        await each_of(messages, lambda message: self._settling.give_back(message, 0.0))

    async def _outcome(self, source: PopSource, wish: Wish, poll_s: float, timeout_s: float) -> Outcome:
        """What the pop brings, or why it does not: an error that nobody waits for any more is no fault of ours."""
        subscription = self._subscriptions.get(source.topic)
        if subscription is None:  # any more
            return []
        query = PopQuery(source.queue, subscription, wish.count_max, wish.invisible_s, poll_s, wish.from_first)
        try:
            result = await self._pops.pop(query, timeout_s)
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
