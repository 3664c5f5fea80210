"""Requests whose connections are cut, whose replier dies, whose broker is killed: they get their reply all the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from rocketline.aio import Admin, ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage, Reply, reply
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess
from support.clients.chaos import QUICK, Broker, brokers_behind_proxies

pytestmark = pytest.mark.timeout(120)

FIRST: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TOPIC: Final = "sums"
_PATIENCE_S: Final = 60.0

_HANGS = """
import sys
from rocketline import ConsumeFromWhere, PushConsumer
def handle(message):
    print("got it", flush=True)
    import time; time.sleep(600)
consumer = PushConsumer(sys.argv[1], group="repliers", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
consumer.subscribe("sums", "*", handle)
consumer.start()
consumer.run()
"""


@asynccontextmanager
async def two_brokers(home: Path) -> AsyncIterator[tuple[str, list[Broker]]]:
    """A name server's address, and the brokers that it knows, with the topic on each."""
    with NameServerProcess(home / "name-server") as name_server:

        def start(home: Path, name: str, port: int, settings: dict[str, str]) -> ServerProcess:
            servers = (name_server.address,)
            return BrokerProcess(home, name_servers=servers, broker_name=name, port=port, settings=settings)

        async with brokers_behind_proxies(start, home) as brokers:
            async with Admin(name_server.address) as admin:
                await admin.topics.create(TOPIC, queue_count=4)
            yield name_server.address, brokers


async def test_a_request_gets_its_reply_though_every_connection_is_cut(tmp_path: Path) -> None:
    """S207, C114: once while the handler works, and once while the reply is on its way."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> Reply:
        begun.set()
        await go_on.wait()
        return reply(message, b"re:" + message.body)

    async with (
        two_brokers(tmp_path) as (address, brokers),
        Producer(address, group="askers", **QUICK) as producer,
        PushConsumer(address, group="repliers", consume_from=FIRST, **QUICK) as consumer,
        asyncio.TaskGroup() as group,
    ):
        consumer.subscribe(TOPIC, "*", handle)
        asking = [
            group.create_task(producer.request(Message(TOPIC, b"%d" % n), timeout_s=_PATIENCE_S)) for n in range(20)
        ]
        await begun.wait()
        for broker in brokers:
            broker.proxy.cut()
        go_on.set()
        await asyncio.sleep(0.01)
        for broker in brokers:
            broker.proxy.cut()
        assert [(await each).body for each in asking] == [b"re:%d" % n for n in range(20)]


async def test_another_member_replies_when_one_is_killed(tmp_path: Path) -> None:
    async def handle(message: ReceivedMessage) -> Reply:
        return reply(message, b"re:" + message.body)

    async with two_brokers(tmp_path) as (address, _), Producer(address, group="askers", **QUICK) as producer:
        with subprocess.Popen([sys.executable, "-c", _HANGS, address], stdout=subprocess.PIPE) as dying:  # noqa: ASYNC220  # it takes a moment, and nothing else is to happen in it
            try:
                async with asyncio.TaskGroup() as group:
                    asking = group.create_task(producer.request(Message(TOPIC, b"2"), timeout_s=_PATIENCE_S))
                    assert dying.stdout is not None
                    assert await asyncio.to_thread(dying.stdout.readline) == b"got it\n"
                    async with PushConsumer(address, group="repliers", consume_from=FIRST, **QUICK) as consumer:
                        consumer.subscribe(TOPIC, "*", handle)
                        dying.kill()
                        assert (await asking).body == b"re:2"
            finally:
                dying.kill()


async def test_requests_that_are_stored_get_their_replies_after_the_broker_was_killed(tmp_path: Path) -> None:
    """The requester comes back by itself, and the new broker knows it before the replies come."""

    async def handle(message: ReceivedMessage) -> Reply:
        return reply(message, b"re:" + message.body)

    async with (
        two_brokers(tmp_path) as (address, brokers),
        Producer(address, group="askers", **QUICK) as producer,
        asyncio.TaskGroup() as group,
    ):
        asking = [
            group.create_task(producer.request(Message(TOPIC, b"%d" % n), timeout_s=_PATIENCE_S)) for n in range(20)
        ]
        async with Admin(address) as admin:
            while (await admin.topics.status(TOPIC)).message_count < 20:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.05)
        for broker in brokers:
            broker.kill()
        for broker in brokers:
            await broker.restart()
        async with PushConsumer(address, group="repliers", consume_from=FIRST, **QUICK) as consumer:
            consumer.subscribe(TOPIC, "*", handle)
            assert [(await each).body for each in asking] == [b"re:%d" % n for n in range(20)]
