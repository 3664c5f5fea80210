"""What becomes of messages that a consumer could not handle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import StoredMessage
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.locks import LockBatchRequestBody
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.connections import consumer, heartbeat
from support.brokers.messages import create_topic, send, try_send
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, bodies, pull
from support.brokers.running import BrokerPeer, broker

RETRY, DLQ = "%RETRY%g", "%DLQ%g"


@asynccontextmanager
async def scene(*, clock: FakeClock | None = None, **settings: str) -> AsyncIterator[BrokerPeer]:
    async with broker(clock=clock, files=None, **settings) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=1)
        yield peer


async def send_back(peer: BrokerPeer, log_offset: int, level: int = 0, **ext: str) -> Command:
    fields = {"offset": str(log_offset), "group": "g", "delayLevel": str(level), **ext}
    return await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)


async def sent(peer: BrokerPeer, body: bytes = b"x") -> int:
    """The place in the log of a message that was just sent."""
    answer = await send(peer, body, TAGS="A")
    return OffsetMessageId.parse(answer.ext["msgId"]).log_offset


async def next_of(peer: BrokerPeer, topic: str, offset: int = 0) -> StoredMessage:
    """The message there, whenever it comes."""
    answer = await peer.request(pull(offset, flags=SUBSCRIPTION | SUSPEND, topic=topic, maxMsgNums="1"), 20)
    assert answer.code == 0, answer.remark
    return decode_records(answer.body)[0]


async def parked(peer: BrokerPeer, level: int) -> int:
    """How many messages were ever parked at a level."""
    answer = await peer.request(pull(0, topic=SCHEDULE_TOPIC, queueId=str(level - 1)), 5)
    return int(answer.ext["maxOffset"])


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_message_comes_back_after_ten_seconds_and_then_after_thirty(clock: FakeClock, flush: str) -> None:
    """S156, S157."""
    async with scene(clock=clock, flushDiskType=flush) as peer:
        first = await sent(peer, b"body")
        origin = (await next_of(peer, "T")).offset_message_id
        assert (await send_back(peer, first)).code == 0
        assert (await peer.request(pull(0, topic=RETRY), 5)).code == 19
        clock.advance(10)
        again = await next_of(peer, RETRY)
        assert (again.body, again.tag, again.reconsume_times) == (b"body", "A", 1)
        assert again.properties["RETRY_TOPIC"] == "T"
        assert again.properties["ORIGIN_MESSAGE_ID"] == origin
        assert (await send_back(peer, again.log_offset)).code == 0
        assert await parked(peer, 4) == 1
        clock.advance(30)
        third = await next_of(peer, RETRY, 1)
        assert (third.reconsume_times, third.properties["ORIGIN_MESSAGE_ID"]) == (2, origin)
        await send_back(peer, third.log_offset)
        assert await parked(peer, 5) == 1


async def test_consumer_may_name_the_level(clock: FakeClock) -> None:
    """S158."""
    async with scene(clock=clock) as peer:
        await send_back(peer, await sent(peer), 5)
        assert await parked(peer, 5) == 1


async def test_negative_level_means_dead_at_once() -> None:
    """S159."""
    async with scene() as peer:
        assert (await send_back(peer, await sent(peer, b"dead"), -1)).code == 0
        assert bodies(await peer.request(pull(0, topic=DLQ), 5)) == [b"dead"]
        table = decode(TopicConfigTable, (await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        topic = table.topic_config_table[DLQ]
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


async def test_too_many_retries_mean_dead() -> None:
    """S160."""
    async with scene() as peer:
        fresh = await sent(peer)
        await send_back(peer, fresh, maxReconsumeTimes="1")
        assert (await peer.request(pull(0, topic=DLQ), 5)).code == 17
        await send_back(peer, fresh, maxReconsumeTimes="0")
        assert len(bodies(await peer.request(pull(0, topic=DLQ), 5))) == 1


async def test_wrong_place_and_unknown_group_are_refused() -> None:
    """S161, S162."""
    async with scene() as peer:
        place = await sent(peer)
        assert (await send_back(peer, place + 1)).code == 1
    async with scene(autoCreateSubscriptionGroup="false") as peer:
        assert (await send_back(peer, await sent(peer))).code == 26


async def test_group_without_retry_queues_wants_none_back() -> None:
    """S163."""
    async with scene() as peer:
        group = SubscriptionGroupConfig("g", retry_queue_nums=0)
        await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(group))
        assert (await send_back(peer, await sent(peer))).code == 0
        assert await parked(peer, 3) == 0


async def test_client_that_retries_by_itself_ends_among_the_dead_letters_too() -> None:
    """S164."""
    async with scene() as peer:
        await peer.request(heartbeat("c", consumer("g", "T")), 5)
        for times, body in ((2, b"again"), (3, b"dead")):
            answer = await try_send(peer, body, topic=RETRY, reconsume_times=times, max_reconsume_times=2)
            assert answer.code == 0, answer.remark
        assert bodies(await peer.request(pull(0, topic=RETRY), 5)) == [b"again"]
        assert bodies(await peer.request(pull(0, topic=DLQ), 5)) == [b"dead"]


async def test_orderly_group_sends_its_retries_to_the_dead_letters() -> None:
    """S165."""
    async with scene() as peer:
        await peer.request(heartbeat("c", consumer("g", "T")), 5)
        queue = MessageQueue("T", "broker-a", 0)
        locked = LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=[queue])
        assert (await peer.ask(RequestCode.LOCK_BATCH_MQ, body=encode(locked))).code == 0
        assert (await try_send(peer, b"dead", topic=RETRY)).code == 0
        assert bodies(await peer.request(pull(0, topic=DLQ), 5)) == [b"dead"]
