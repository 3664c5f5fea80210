"""What a push consumer asks and tells, and when, to get its queues and to keep its offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.push.options import PushKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import headers
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.bodies.locks import LockBatchRequestBody
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetConsumerRunningInfoRequestHeader, NotifyConsumerIdsChangedRequestHeader
from support.clients.members import passes, settled, until

MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP
PULL = RequestCode.PULL_MESSAGE
QUERY_OFFSET = RequestCode.QUERY_CONSUMER_OFFSET
UPDATE_OFFSET = RequestCode.UPDATE_CONSUMER_OFFSET
GET_INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
LOCK = RequestCode.LOCK_BATCH_MQ
RETRY = "%RETRY%g"


async def accept(message: ReceivedMessage) -> None:
    """Consumed."""


@asynccontextmanager
async def consuming(
    peer: ScriptedPeer, clock: FakeClock, **options: Unpack[PushKeywords]
) -> AsyncIterator[PushConsumer]:
    """A consumer of T in group g, whose first rebalance has begun."""
    options["client_ip"] = "127.0.0.1"
    consumer = PushConsumer(peer.address, group="g", clock=clock, **options)
    consumer.subscribe("T", "*", accept)
    async with consumer:
        yield consumer


async def owns(consumer: PushConsumer, count: int) -> None:
    await until(lambda: len(consumer.queues) == count)
    await settled()


async def heard(peer: ScriptedPeer) -> None:
    """The consumer has taken in all that the peer has said until now, and done what follows from it."""
    await peer.ask(GET_INFO, GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="any"))
    await settled()


def pulled(peer: ScriptedPeer, topic: str = "T") -> dict[int, int]:
    """The offset of the first pull of each queue."""
    pulls = [received.header for received in peer.requests(PULL) if received.header.topic == topic]
    return {header.queue_id: header.queue_offset for header in reversed(pulls)}


async def test_balanced_consumer_asks_for_members_every_20_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C143."""
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 4)
        await peer.wait_for(RequestCode.HEART_BEAT, 2)
        await heard(peer)
        for count in range(1, 4):
            assert len(peer.requests(MEMBERS)) == count
            clock.advance(19.9)
            await settled()
            assert len(peer.requests(MEMBERS)) == count
            clock.advance(0.1)
            await peer.wait_for(MEMBERS, count + 1)
            await heard(peer)


async def test_queue_is_pulled_half_a_second_after_it_came(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C145."""
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 4)
        clock.advance(0.4)
        await settled()
        assert not peer.requests(PULL)
        clock.advance(0.1)
        assert len(await peer.wait_for(PULL, 4)) == 4


async def test_heartbeat_after_a_change_has_a_newer_subscription(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C146: and it comes before the first pull, which names that version."""
    async with consuming(peer, clock):
        beats = await peer.wait_for(RequestCode.HEART_BEAT, 2)
        versions = [
            {
                one.topic: one.sub_version
                for one in beat.decoded(HeartbeatData).consumer_data_set[0].subscription_data_set
            }
            for beat in beats
        ]
        assert versions[1]["T"] > versions[0]["T"]
        clock.advance(0.5)
        assert (await peer.wait_for(PULL))[0].header.sub_version == versions[1]["T"]


async def test_consumer_that_its_broker_does_not_name_drops_its_queues(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C140."""
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 4)
        peer.on(MEMBERS).reply(body=ConsumerList(["somebody else"]))
        await heard(peer)
        clock.advance(20)
        await owns(consumer, 0)


async def test_members_that_are_not_told_change_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C141."""
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 4)
        clock.advance(0.5)
        await peer.wait_for(PULL, 4)
        peer.on(MEMBERS).reply(code=1, remark="no idea")
        await heard(peer)
        clock.advance(20)
        await peer.wait_for(MEMBERS, 2)
        await heard(peer)
        assert len(consumer.queues) == 4
        peer.broker.release_pulls()
        await peer.wait_for(PULL, 8)


async def test_notice_of_a_new_member_is_acted_on_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 4)
        clock.advance(1)
        peer.broker.members["g"].append("127.0.0.1@zz")
        await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        await owns(consumer, 2)


async def test_members_share_all_queues_soon_after_they_are_told_of_a_new_one(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C137: within 3 s of the clock."""
    async with sharing(peer, clock) as first:
        await is_alone(peer, first)
        joined_s = clock.monotonic()
        async with sharing(peer, clock) as second:
            await until(lambda: len(queue_ids(second)) == 2)
            assert is_shared(first), "nobody has told it yet"
            await tell_of_change(channel_of(peer, first))
            await passes(clock, lambda: is_shared(first, second), within_s=3)
            assert clock.monotonic() - joined_s <= 3


async def test_members_share_all_queues_within_21_s_though_they_are_not_told_of_a_new_one(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C137: without notices."""
    async with sharing(peer, clock) as first:
        await is_alone(peer, first)
        joined_s = clock.monotonic()
        async with sharing(peer, clock) as second:
            await until(lambda: len(queue_ids(second)) == 2)
            assert is_shared(first)
            await passes(clock, lambda: is_shared(first, second), within_s=21)
            assert clock.monotonic() - joined_s <= 21


@pytest.mark.parametrize(("is_told", "within_s"), [(True, 3), (False, 21)])
async def test_queues_of_a_member_that_leaves_are_taken_over_where_it_ended(
    peer: ScriptedPeer, clock: FakeClock, is_told: bool, within_s: float
) -> None:
    """C138: within 3 s, or 21 s without notices, and pulled from the offsets that it saved as its last."""
    async with sharing(peer, clock) as first:
        await is_alone(peer, first)
        channel = channel_of(peer, first)
        async with sharing(peer, clock) as second:
            await until(lambda: len(queue_ids(second)) == 2)
            clock.advance(1)
            await tell_of_change(channel)
            await until(lambda: is_shared(first, second))
            ends = {queue_id: 5 + queue_id for queue_id in queue_ids(second)}
            for queue_id, count in ends.items():
                peer.broker.put("T", *[b"x"] * count, queue_id=queue_id)
            clock.advance(1)
            await until(lambda: {one.queue_id: at for one, at in second.offsets().items() if one.topic == "T"} == ends)
            await settled()
        left_s = clock.monotonic()
        assert {queue_id: peer.broker.offsets.get(("g", "T", queue_id)) for queue_id in ends} == ends
        assert len(queue_ids(first)) == 2
        peer.forget()
        if is_told:
            await tell_of_change(channel)
        await passes(clock, lambda: is_shared(first), within_s=within_s)
        assert clock.monotonic() - left_s <= within_s
        await settled()
        clock.advance(0.5)
        await until(lambda: ends.keys() <= pulled(peer).keys())
        assert {queue_id: pulled(peer)[queue_id] for queue_id in ends} == ends


@asynccontextmanager
async def sharing(peer: ScriptedPeer, clock: FakeClock) -> AsyncIterator[PushConsumer]:
    """A member that has no reason of its own to look at its queues again: the group's retry topic is known too."""
    peer.route(RETRY, queues=1)
    async with consuming(peer, clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET) as consumer:
        yield consumer


async def is_alone(peer: ScriptedPeer, member: PushConsumer) -> None:
    """The first member has all queues, and no answer is due that a turn of the clock would make late."""
    await until(lambda: is_shared(member))
    await peer.wait_for(RequestCode.HEART_BEAT, 2)
    await heard(peer)


def queue_ids(member: PushConsumer) -> list[int]:
    return [queue.queue_id for queue in member.queues if queue.topic == "T"]


def is_shared(*members: PushConsumer) -> bool:
    """Each of the four queues has one owner, and each member has as many."""
    shares = [queue_ids(member) for member in members]
    of_all = [queue_id for share in shares for queue_id in share]
    return sorted(of_all) == [0, 1, 2, 3] and {*map(len, shares)} == {4 // len(shares)}


def channel_of(peer: ScriptedPeer, member: PushConsumer) -> Channel:
    """The connection over which a member has told the peer that it is there."""
    return next(
        beat.channel
        for beat in reversed(peer.requests(RequestCode.HEART_BEAT))
        if beat.decoded(HeartbeatData).client_id == member.client_id
    )


async def tell_of_change(channel: Channel) -> None:
    """Tell one member that there are others than before, as a broker does."""
    header = NotifyConsumerIdsChangedRequestHeader(consumer_group="g")
    await channel.send_oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.encode(header)), 10)


async def test_first_pull_is_at_the_stored_offset(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C150."""
    peer.broker.offsets.update({("g", "T", number): 100 for number in range(4)})
    async with consuming(peer, clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET) as consumer:
        await owns(consumer, 4)
        clock.advance(0.5)
        await peer.wait_for(PULL, 4)
        assert pulled(peer) == dict.fromkeys(range(4), 100)


@pytest.mark.parametrize(
    ("where", "start", "retry_start"),
    [
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, 40, 0),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 0, 0),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 25, 40),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
async def test_first_pull_without_a_stored_offset_is_where_the_options_say(
    peer: ScriptedPeer, clock: FakeClock, where: ConsumeFromWhere, start: int, retry_start: int
) -> None:
    """C151."""
    peer.route("T", queues=1)
    peer.route(RETRY, queues=1)
    peer.on(RequestCode.GET_MAX_OFFSET).reply({"offset": "40"})
    peer.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP).reply({"offset": "25"})
    async with consuming(peer, clock, consume_from=where, consume_timestamp_ms=1234) as consumer:
        await owns(consumer, 2)
        clock.advance(0.5)
        await peer.wait_for(PULL, 2)
        assert (pulled(peer), pulled(peer, RETRY)) == ({0: start}, {0: retry_start})
        assert {one.header.timestamp for one in peer.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)} <= {1234}


async def test_offset_that_is_refused_is_asked_for_again_after_a_second_and_nothing_pulled_before(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C152."""
    peer.route("T", queues=1)
    peer.on(QUERY_OFFSET).reply(code=1).default()
    async with consuming(peer, clock) as consumer:
        await peer.wait_for(QUERY_OFFSET)
        await heard(peer)
        clock.advance(0.9)
        await heard(peer)
        assert len(peer.requests(QUERY_OFFSET)) == 1
        assert not consumer.queues
        clock.advance(0.1)
        await peer.wait_for(QUERY_OFFSET, 2)
        assert not peer.requests(PULL)
        await owns(consumer, 1)
        clock.advance(0.5)
        await peer.wait_for(PULL)


async def test_offset_that_is_not_told_in_5_s_is_asked_for_again_and_nothing_pulled_before(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C152."""
    peer.route("T", queues=1)
    peer.on(QUERY_OFFSET).never().default()
    async with consuming(peer, clock) as consumer:
        await peer.wait_for(QUERY_OFFSET)
        await heard(peer)
        clock.advance(4.9)
        await heard(peer)
        assert len(peer.requests(QUERY_OFFSET)) == 1
        clock.advance(0.1)
        await settled()  # what follows from a timeout needs no socket
        clock.advance(1)
        await peer.wait_for(QUERY_OFFSET, 2)
        assert not peer.requests(PULL)
        await owns(consumer, 1)


async def test_offsets_are_told_to_the_broker_every_5_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C166: oneway, the first after 10 s, and also if nothing changed."""
    peer.route("T", queues=1)
    peer.broker.offsets["g", "T", 0] = 0
    peer.broker.put("T", b"one", b"two", b"three")
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 1)
        clock.advance(0.5)
        await until(lambda: list(consumer.offsets().values()) == [3])
        clock.advance(9.4)
        await settled()
        assert not peer.requests(UPDATE_OFFSET)
        clock.advance(0.1)
        (first,) = await peer.wait_for(UPDATE_OFFSET)
        assert first.is_oneway
        assert (first.header.consumer_group, first.header.queue_id, first.header.commit_offset) == ("g", 0, 3)
        clock.advance(5)
        assert len(await peer.wait_for(UPDATE_OFFSET, 2)) == 2


async def test_offset_is_told_to_the_broker_when_a_queue_is_given_away(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C144."""
    peer.route("T", queues=2)
    peer.broker.offsets.update({("g", "T", 0): 0, ("g", "T", 1): 0})
    peer.broker.put("T", b"one", b"two", queue_id=1)
    async with consuming(peer, clock) as consumer:
        await owns(consumer, 2)
        clock.advance(0.5)
        await until(lambda: 2 in consumer.offsets().values())
        peer.broker.members["g"].append("127.0.0.1@zz")
        clock.advance(0.5)
        await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        (saved,) = await peer.wait_for(UPDATE_OFFSET)
        assert (saved.header.queue_id, saved.header.commit_offset) == (1, 2)


async def test_orderly_queue_is_not_touched_before_it_is_locked(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C181."""
    peer.route("T", queues=2)
    peer.broker.refused_locks = {1}
    async with consuming(peer, clock, orderly=True) as consumer:
        await owns(consumer, 1)
        clock.advance(0.5)
        await peer.wait_for(PULL)
        assert set(pulled(peer)) == {0}
        locks_at = [received.code for received in peer.received].index(LOCK)
        assert locks_at < [received.code for received in peer.received].index(QUERY_OFFSET)
        asked = len(peer.requests(LOCK))
        clock.advance(0.5)
        await peer.wait_for(LOCK, asked + 1)
        assert set(pulled(peer)) == {0}
        peer.broker.refused_locks = set()
        clock.advance(1)
        await owns(consumer, 2)


async def test_locks_of_all_queues_are_renewed_every_20_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C182: by one request to each broker."""
    async with ScriptedPeer(clock=clock, broker_name="broker-b") as other:
        peer.route("T", {"broker-a": peer, "broker-b": other}, queues=2)
        peer.on(MEMBERS).call(lambda received: peer.broker.answer(received))
        async with consuming(peer, clock, orderly=True) as consumer:
            await owns(consumer, 4)
            for brokers in (peer, other):
                brokers.forget()
            clock.advance(1)
            for broker in (peer, other):
                (renewal,) = await broker.wait_for(LOCK)
                body = renewal.decoded(LockBatchRequestBody)
                assert sorted(queue.queue_id for queue in body.mq_set) == [0, 1]
                assert {queue.broker_name for queue in body.mq_set} == {broker.broker.name}
            clock.advance(19.9)
            await settled()
            assert len(peer.requests(LOCK)) == 1
            clock.advance(0.1)
            await peer.wait_for(LOCK, 2)
            await other.wait_for(LOCK, 2)
