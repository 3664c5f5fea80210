"""Members of a group share queues on real servers, through joins, leaves and deaths."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.clients import Watcher, own_client
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import ClientCluster

QUEUES: Final = 8
NOTICED_S: Final = 8.0
"""Brokers tell at once who has come or gone, and clients act within a second: so 1.0 to 1.7 s on two busy cores, of the
3 s that are asked for. Without being told they would only look every 20 s. `tests/scripted/test_rebalance.py` asks for
3 s and 21 s of a clock that no other work can delay."""
PATIENCE_S: Final = 30.0
"""For messages, whose time is not what is looked at here."""


class Group:
    """A topic with eight queues and the members of a group, all in this process."""

    def __init__(self, cluster: ClientCluster) -> None:
        self.cluster = cluster
        self.topic, self.group = cluster.topic(queues=QUEUES), cluster.group()
        self.members: list[PushConsumer] = []
        self.deliveries: Counter[bytes] = Counter()

    async def _take(self, message: ReceivedMessage) -> None:
        self.deliveries[message.body] += 1

    @asynccontextmanager
    async def member(self) -> AsyncIterator[PushConsumer]:
        consumer = PushConsumer(
            self.cluster.name_server, group=self.group, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe(self.topic, "*", self._take)
        async with consumer:
            self.members.append(consumer)
            yield consumer
            self.members.remove(consumer)

    def shares(self) -> list[int]:
        """The numbers of queues that members have, the largest first; all disjoint, or it is no sharing."""
        shares = [self.owned(member) for member in self.members]
        of_all = [queue for share in shares for queue in share]
        return sorted(map(len, shares), reverse=True) if len(of_all) == len(set(of_all)) else []

    def owned(self, member: PushConsumer) -> list[MessageQueue]:
        return [queue for queue in member.queues if queue.topic == self.topic]

    async def shared_as(self, *counts: int) -> None:
        await self._until(lambda: self.shares() == list(counts), NOTICED_S)

    async def delivered(self, count: int) -> None:
        await self._until(lambda: len(self.deliveries) == count, PATIENCE_S)

    async def _until(self, is_so: Callable[[], bool], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < deadline_s, f"queues: {self.shares()}, deliveries: {len(self.deliveries)}"
            await asyncio.sleep(0.02)

    async def send(self, *numbers: int) -> None:
        await asyncio.to_thread(self._send, numbers)

    def _send(self, numbers: tuple[int, ...]) -> None:
        with BrokerQuestions(self.cluster.brokers[0]) as broker:
            for number in numbers:
                broker.send(Message(self.topic, b"%d" % number), number % QUEUES)


async def test_members_that_join_share_all_queues_within_seconds(cluster: ClientCluster) -> None:
    """C137."""
    group = Group(cluster)
    async with group.member():
        await group.shared_as(8)
        async with group.member():
            await group.shared_as(4, 4)
            async with group.member():
                await group.shared_as(3, 3, 2)


async def test_queues_of_a_member_that_leaves_are_taken_over_where_it_ended(cluster: ClientCluster) -> None:
    """C138: nothing is delivered twice, and nothing is left out."""
    group = Group(cluster)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(group.member())
        async with group.member():
            await group.shared_as(4, 4)
            await group.send(*range(200))
            await group.delivered(200)
        await group.shared_as(8)
        await group.send(*range(200, 400))
        await group.delivered(400)
    assert max(group.deliveries.values()) == 1


async def test_queues_of_a_member_that_is_killed_are_taken_over(cluster: ClientCluster, tmp_path: Path) -> None:
    """C139: its broker notices at once that the connection is gone."""
    group = Group(cluster)
    async with group.member():
        await group.shared_as(8)
        other = Watcher(own_client(tmp_path), cluster.name_server, group.topic, group.group, mode="concurrent")
        try:
            await asyncio.to_thread(other.wait_until_ready)
            await group.shared_as(4)
        finally:
            await asyncio.to_thread(other.kill)
        await group.shared_as(8)
        await group.send(*range(50))
        await group.delivered(50)
