"""Messages by key, by unique id and by their place in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.model.ids import OffsetMessageId
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.messages import create_topic, send
from support.brokers.running import BrokerPeer, broker


@asynccontextmanager
async def scene(**settings: str) -> AsyncIterator[BrokerPeer]:
    async with broker(clock=None, files=None, **settings) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=2)
        yield peer


async def query(peer: BrokerPeer, key: str, **ext: str) -> Command:
    fields = {"topic": "T", "key": key, "maxNum": "10", "beginTimestamp": "0", "endTimestamp": str(2**62), **ext}
    return await peer.ask(RequestCode.QUERY_MESSAGE, fields)


def found(answer: Command) -> list[bytes]:
    assert answer.code == 0, answer.remark
    return [message.body for message in decode_records(answer.body)]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_key_finds_its_messages_within_the_time_asked_for(flush: str) -> None:
    """S209."""
    async with scene(flushDiskType=flush) as peer:
        await send(peer, b"one", KEYS="k1 k2")
        await send(peer, b"two", KEYS="k2", queue_id=1)
        assert found(await query(peer, "k1")) == [b"one"]
        assert found(await query(peer, "k2")) == [b"one", b"two"]
        assert (await query(peer, "k3")).code == 22
        assert (await query(peer, "k1", endTimestamp="1")).code == 22
        assert (await query(peer, "k1", topic="other")).code == 22


async def test_unique_id_finds_its_message() -> None:
    """S210."""
    async with scene() as peer:
        await send(peer, b"one", UNIQ_KEY="7F0000010000ABCD0000000000000001")
        answer = await query(peer, "7F0000010000ABCD0000000000000001", _UNIQUE_KEY_QUERY="true", maxNum="0")
        assert found(answer) == [b"one"]


async def test_id_that_the_broker_gave_finds_its_message() -> None:
    """S211."""
    async with scene() as peer:
        await send(peer, b"one")
        answer = await send(peer, b"two")
        place = OffsetMessageId.parse(answer.ext["msgId"]).log_offset
        assert found(await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(place)})) == [b"two"]
        assert (await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(place + 1)})).code == 1
        assert (await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "-1"})).code == 1
