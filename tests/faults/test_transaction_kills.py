"""A broker that is killed again and again while transactions are made, ended and asked for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketline.aio import Admin, PullConsumer, TransactionProducer
from rocketline.client.producer.transactions import Transaction, TransactionState
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import RocketlineError
from rocketline.model.message import Message
from rocketline.testing import setting_up
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import free_port

pytestmark = pytest.mark.timeout(300)

TOPIC = "T"
SETTINGS = {
    "mappedFileSizeCommitLog": str(256 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 500),
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "2000",
    "transactionOpBatchInterval": "100",
    "transactionCheckMax": "10000",
    "flushConsumerOffsetInterval": "200",
}
WORKERS = 8
PATIENCE_S = 90.0


def state_of(number: int) -> TransactionState:
    """What becomes of a transaction, whoever asks and whenever."""
    return TransactionState.ROLLBACK if number % 3 == 0 else TransactionState.COMMIT


def work(transaction: Transaction) -> TransactionState:
    """Of every third nobody tells the broker: it has to ask."""
    number = int(transaction.message.body)
    return TransactionState.UNKNOWN if number % 5 == 0 else state_of(number)


def check(message: ReceivedMessage) -> TransactionState:
    return state_of(int(message.body))


class Load:
    """Transactions one after the other, and which of them the broker has taken."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self.next = 0
        self.is_over = False

    async def make(self, producer: TransactionProducer) -> None:
        while not self.is_over:
            self.next += 1
            number = self.next
            try:
                receipt = await producer.send_in_transaction(Message(TOPIC, b"%d" % number), work, timeout_s=5)
            except RocketlineError:  # nobody knows whether it was taken
                await asyncio.sleep(0.05)
                continue
            if receipt.receipt.is_ok:
                self.taken.add(number)
            await asyncio.sleep(0.02)


@contextmanager
def name_server(home: Path) -> Iterator[str]:
    with NameServerProcess(home / "names") as process:
        yield process.address


@pytest.mark.parametrize(
    ("flush", "kills"),
    [
        ("SYNC_FLUSH", 3),
        pytest.param("ASYNC_FLUSH", 20, marks=[pytest.mark.interop, pytest.mark.thorough]),
        pytest.param("SYNC_FLUSH", 20, marks=[pytest.mark.interop, pytest.mark.thorough]),
    ],
)
async def test_kills_lose_no_commit_and_deliver_nothing_that_was_rolled_back(
    tmp_path: Path, flush: str, kills: int
) -> None:
    """Every half message that was acknowledged ends as its producer says, be it told or asked."""
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")
    chance, load, port = random.Random(seed), Load(), free_port()
    with name_server(tmp_path) as names:

        def broker() -> BrokerProcess:
            settings = {**SETTINGS, "flushDiskType": flush}
            return BrokerProcess(tmp_path / "broker", name_servers=(names,), port=port, settings=settings)

        running = await asyncio.to_thread(lambda: broker().__enter__())
        try:
            await asyncio.to_thread(setting_up.create_topic, names, (running.address,), TOPIC, queues=1)
            async with TransactionProducer(names, group="p", check=check, retries=0, topics=(TOPIC,)) as producer:
                async with asyncio.TaskGroup() as group:
                    for _ in range(WORKERS):
                        group.create_task(load.make(producer))
                    for _ in range(kills):
                        await asyncio.sleep(chance.uniform(0.5, 2.5))
                        running.kill()
                        running = await asyncio.to_thread(lambda: broker().__enter__())
                    await asyncio.sleep(1)
                    load.is_over = True
                delivered = await delivered_until(names, {n for n in load.taken if n % 3})
                assert not [number for number in delivered if number % 3 == 0]
                await until_none_is_open(names)
                delivered = await delivered_until(names, set())
                assert not [number for number in delivered if number % 3 == 0]
                print(f"{len(load.taken)} of {load.next} taken, {len(delivered)} delivered")
        finally:
            running.kill()
    assert len(load.taken) > 10 * kills


async def delivered_until(names: str, wanted: set[int]) -> set[int]:
    """The numbers in the topic, once all that are wanted are there."""
    found: set[int] = set()
    offset = 0
    async with PullConsumer(names, group="readers") as consumer:
        (queue,) = await consumer.queues(TOPIC)
        due_s = time.monotonic() + PATIENCE_S
        while True:
            pulled = await consumer.pull(queue, offset)
            offset = pulled.next_offset
            found |= {int(message.body) for message in pulled.messages}
            if not pulled.messages:
                if wanted <= found:
                    return found
                assert time.monotonic() < due_s, f"never came: {sorted(wanted - found)[:20]}"
                await asyncio.sleep(0.1)


async def until_none_is_open(names: str) -> None:
    async with Admin(names) as admin:
        due_s = time.monotonic() + PATIENCE_S
        while found := await admin.transactions.open():
            assert time.monotonic() < due_s, found[:5]
            await asyncio.sleep(0.2)
