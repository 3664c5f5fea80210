"""All clients at work for as long as they are left to, with members that come and go and connections that are cut."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from rocketline import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionState,
    aio,
)
from rocketline.errors import RocketlineError
from rocketline.testing import Server
from rocketline.testing.fault_proxy import FaultProxy
from support.clients.chaos import BEHIND

PACE_S = 0.002
"""Between two messages of one sender: some two thousand messages a second in all."""


class Load:
    """Sends and consumes on `server`. What went well and what did not is counted."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.counts: Counter[str] = Counter()
        self._numbers = itertools.count()

    def _ports(self) -> list[int]:
        return [int(address.rpartition(":")[2]) for address in self.server.broker_addresses]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            proxies = [
                await stack.enter_async_context(FaultProxy(f"{BEHIND}:{port}", port=port)) for port in self._ports()
            ]
            await asyncio.to_thread(self.server.create_topic, "soak", queues=4)
            await self._start_consumers(stack)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [
                group.create_task(self._send_async()),
                group.create_task(asyncio.to_thread(self._send_blocking)),
                group.create_task(self._send_transactions()),
                group.create_task(self._work_async()),
                group.create_task(asyncio.to_thread(self._work_blocking)),
                group.create_task(self._come_and_go()),
                group.create_task(self._cut(proxies)),
            ]
            self._is_over = False
            try:
                yield
            finally:
                self._is_over = True
                await asyncio.wait(tasks)

    async def _start_consumers(self, stack: AsyncExitStack) -> None:
        for orderly in (False, True):
            consumer = aio.PushConsumer(self.server.address, group=f"soak-{orderly}", orderly=orderly)
            consumer.subscribe("soak", "*", self._take_async)
            await stack.enter_async_context(consumer)
        blocking = PushConsumer(self.server.address, group="soak-blocking", consume_batch_max=32)
        blocking.subscribe("soak", "*", self._take_many)
        await asyncio.to_thread(blocking.start)
        stack.push_async_callback(asyncio.to_thread, blocking.close)

    async def _take_async(self, message: ReceivedMessage) -> None:
        self.counts["consumed on the loop"] += len(message.body) > 0

    def _take_many(self, messages: Sequence[ReceivedMessage]) -> None:
        self.counts["consumed in threads"] += len(messages)

    # --- senders

    async def _send_async(self) -> None:
        async with aio.Producer(self.server.address, group="soak-async") as producer:
            while not self._is_over:
                try:
                    await producer.send(Message("soak", b"%d" % next(self._numbers)))
                    self.counts["sent on the loop"] += 1
                except RocketlineError as error:
                    self.counts[type(error).__name__] += 1
                await asyncio.sleep(PACE_S)

    def _send_blocking(self) -> None:
        with Producer(self.server.address, group="soak-blocking") as producer:
            while not self._is_over:
                try:
                    producer.send(Message("soak", b"%d" % next(self._numbers), keys=["k"]))
                    self.counts["sent from threads"] += 1
                except RocketlineError as error:
                    self.counts[type(error).__name__] += 1
                time.sleep(PACE_S)

    async def _send_transactions(self) -> None:
        """One of three is left open, for a check to commit. What they leave comes a second later."""
        async with aio.TransactionProducer(
            self.server.address, group="soak-transactions", check=lambda _: TransactionState.COMMIT, topics=("soak",)
        ) as producer:
            for number in itertools.count():
                if self._is_over:
                    return
                try:
                    async with producer.transaction(Message("soak", b"half")) as transaction:
                        if number % 3 == 0:
                            transaction.leave_open()
                    await producer.send(Message("soak", b"later", deliver_after=1))
                    self.counts["transactions and timers"] += 1
                except RocketlineError as error:
                    self.counts[type(error).__name__] += 1
                await asyncio.sleep(50 * PACE_S)

    # --- workers

    async def _work_async(self) -> None:
        """Of each part the first message is given back, and the second left to its time."""
        async with aio.SimpleConsumer(self.server.address, group="soak-workers", invisible_s=5) as worker:
            worker.subscribe("soak")
            while not self._is_over:
                try:
                    messages = await worker.receive(wait_s=1)
                    await worker.nack(messages[:1], 1)
                    await worker.ack(messages[2:])
                    self.counts["worked on the loop"] += len(messages)
                except RocketlineError as error:
                    self.counts[type(error).__name__] += 1

    def _work_blocking(self) -> None:
        with SimpleConsumer(self.server.address, group="soak-workers") as worker:
            worker.subscribe("soak")
            while not self._is_over:
                try:
                    if messages := worker.receive(wait_s=1):
                        worker.ack(messages)
                    self.counts["worked in threads"] += len(messages)
                except RocketlineError as error:
                    self.counts[type(error).__name__] += 1

    # --- restlessness

    async def _come_and_go(self) -> None:
        """Consumers that live for a few seconds each: a push consumer in a group with another member, a lite pull
        consumer and a worker."""
        while not self._is_over:
            passing = aio.PushConsumer(self.server.address, group="soak-False")
            passing.subscribe("soak", "*", self._take_async)
            async with passing:
                await asyncio.gather(asyncio.to_thread(self._poll_for_a_while), self._work_for_a_while())
            self.counts["came and went"] += 1

    async def _work_for_a_while(self) -> None:
        """In blocks, in a group that never gets to the end of what there is."""
        async with aio.SimpleConsumer(self.server.address, group="soak-blocks") as worker:
            worker.subscribe("soak")
            for _ in range(100):
                if self._is_over:
                    return
                async with await anext(worker) as message:
                    self.counts["worked in blocks"] += len(message.body) > 0

    def _poll_for_a_while(self) -> None:
        with LitePullConsumer(self.server.address, group="soak-lite") as consumer:
            consumer.subscribe("soak")
            end_s = time.monotonic() + 5
            while time.monotonic() < end_s and not self._is_over:
                self.counts["polled"] += len(consumer.poll(0.5))

    async def _cut(self, proxies: list[FaultProxy]) -> None:
        for proxy in itertools.cycle(proxies):
            await asyncio.sleep(3)
            if self._is_over:
                break
            proxy.cut()
            self.counts["cut"] += 1
