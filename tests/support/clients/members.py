"""Members of a runtime that do nothing but write down what they are asked to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.members import TransactionCheck
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo

Result = TypeVar("Result")


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something has come about on it that nobody tells of."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.001)


async def passes(clock: FakeClock, is_so: Callable[[], bool], *, within_s: float, step_s: float = 1) -> None:
    """Turn the clock step by step until something has come about, which must be within so many seconds."""
    for _ in range(round(within_s / step_s)):
        for _ in range(20):
            if is_so():
                return
            await asyncio.sleep(0.002 * step_s)
        clock.advance(step_s)
    await until(is_so)


async def settled() -> None:
    """Let the loop turn often enough for whatever is due by now, short of what comes from another socket."""
    for _ in range(20):
        await asyncio.sleep(0)


def in_background(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """What blocks, in a thread, while the test goes on."""
    return asyncio.get_running_loop().run_in_executor(None, work)


class ProducerDouble:
    """A producer that uses `topics`."""

    def __init__(self, group: str, *topics: str) -> None:
        self.group = group
        self._topics = topics
        self.checks: list[TransactionCheck] = []

    def topics(self) -> Collection[str]:
        return self._topics

    def check_transaction(self, check: TransactionCheck) -> None:
        self.checks.append(check)

    def runtime_closed(self) -> None:
        """It has nothing that waits."""


class ConsumerDouble:
    """A push consumer of `topics`. With `failure` set it raises that whenever it is asked for something."""

    consume_type = ConsumeType.CONSUME_PASSIVELY
    message_model = MessageModel.CLUSTERING
    consume_from_where = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    unit_mode = False

    def __init__(self, group: str, *topics: str) -> None:
        self.group = group
        self._topics = topics
        self.failure: Exception | None = None
        self.is_balanced = True
        self.rebalances = self.persists = 0
        self.resets: list[tuple[str, Mapping[MessageQueue, int]]] = []
        self.offsets: dict[MessageQueue, int] = {}
        self.consumed: list[ReceivedMessage] = []
        self.asked_for_stacks: list[bool] = []

    def subscriptions(self) -> Collection[SubscriptionData]:
        return [SubscriptionData(topic) for topic in self._topics]

    async def rebalance(self) -> bool:
        self.rebalances += 1
        self._fail()
        return self.is_balanced

    def runtime_closed(self) -> None:
        self.is_alone = True

    async def persist_offsets(self) -> None:
        self.persists += 1
        self._fail()

    def running_info(self, is_with_stacks: bool) -> ConsumerRunningInfo:
        self.asked_for_stacks.append(is_with_stacks)
        self._fail()
        return ConsumerRunningInfo({"group": self.group})

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append((topic, offsets))

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {queue: offset for queue, offset in self.offsets.items() if topic in ("", queue.topic)}

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        self.consumed.append(message)
        self._fail()
        return ConsumeMessageDirectlyResult(consume_result=CMResult.CR_SUCCESS)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
