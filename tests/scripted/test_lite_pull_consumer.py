"""What a lite pull consumer asks, and when, and what it hands on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Unpack

import pytest

from rocketline.client.aio.lite_pull_consumer import LitePullConsumer
from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.lite_pull.options import LitePullKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import (
    ClientError,
    ClosedError,
    ConnectError,
    GroupInUseError,
    InvalidOffsetError,
    NotStartedError,
    ResponseError,
    TopicNotFoundError,
)
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import bodies
from rocketline.wire.bodies.running import ConsumerRunningInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetConsumerRunningInfoRequestHeader, PullMessageResponseHeader
from support.clients.consuming import offsets_of
from support.clients.members import passes, settled, until

PULL = RequestCode.LITE_PULL_MESSAGE
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
Q0, Q1 = (MessageQueue("T", "broker-a", number) for number in range(2))


@asynccontextmanager
async def assigned(
    peer: ScriptedPeer, clock: FakeClock, *queues: MessageQueue, **options: Unpack[LitePullKeywords]
) -> AsyncIterator[LitePullConsumer]:
    """A consumer that reads these queues, from the beginning."""
    options.setdefault("consume_from", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with LitePullConsumer(peer.address, group="g", clock=clock, **options) as consumer:
        consumer.assign(queues or (Q0,))
        yield consumer


@asynccontextmanager
async def subscribed(
    peer: ScriptedPeer, clock: FakeClock, **options: Unpack[LitePullKeywords]
) -> AsyncIterator[LitePullConsumer]:
    """A consumer of T that has its queues and pulls them."""
    options.setdefault("consume_from", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = LitePullConsumer(peer.address, group="g", clock=clock, **options)
    consumer.subscribe("T")
    async with consumer:
        await until(lambda: len(consumer.assignment()) == 4)
        await settled()
        clock.advance(0.5)
        await peer.wait_for(PULL, 4)
        yield consumer


async def waiting_pulls(peer: ScriptedPeer, count: int = 1) -> None:
    """The consumer has taken in all there is: it waits at the ends of its queues."""
    await until(lambda: len(peer.broker.pulls_waiting) >= count)


async def heard(peer: ScriptedPeer) -> ConsumerRunningInfo:
    """The consumer has taken in all that the peer has said until now, and done what follows from it."""
    header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="any")
    answer = await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    await settled()
    return bodies.decode(ConsumerRunningInfo, answer.body)


def pulled_offsets(peer: ScriptedPeer, queue_id: int = 0) -> list[int]:
    headers = [received.header for received in peer.requests(PULL)]
    return [header.queue_offset for header in headers if header.queue_id == queue_id]


def kept(peer: ScriptedPeer, queue_id: int = 0) -> int | None:
    """The offset that the broker has for the group."""
    return peer.broker.offsets.get(("g", "T", queue_id))


# --- identity and life


async def test_lite_pull_consumer_is_a_stream(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C4, C215."""
    async with subscribed(peer, clock) as consumer:
        assert consumer.client_id.endswith("@STREAM")
        assert all(received.ext["ReqT"] == "0" for received in peer.received)
        for pull in peer.requests(PULL):
            assert (pull.header.sys_flag, pull.header.max_msg_nums, pull.header.suspend_timeout_millis) == (
                22,
                10,
                20_000,
            )
            assert (pull.header.subscription, pull.header.sub_version) == ("*", 0)
        beat = peer.requests(RequestCode.HEART_BEAT)[0].decoded(HeartbeatData)
        (group,) = beat.consumer_data_set
        assert [entry.topic for entry in group.subscription_data_set] == ["T"]
        assert group.consume_type is ConsumeType.CONSUME_ACTIVELY
        assert group.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        assert not peer.requests(RequestCode.CHECK_CLIENT_CONFIG)
        assert not peer.requests(RequestCode.PULL_MESSAGE)


async def test_poll_needs_a_consumer_that_runs_and_a_time_that_can_be(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C202."""
    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    with pytest.raises(NotStartedError):
        await consumer.poll(0)
    with pytest.raises(NotStartedError):
        await anext(consumer)
    async with consumer:
        with pytest.raises(ValueError, match="-1"):
            await consumer.poll(-1)
    with pytest.raises(ClosedError):
        await consumer.poll(0)


async def test_consumer_starts_once_and_closes_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C9 and C10 for lite pull."""
    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    await consumer.close()
    with pytest.raises(ClosedError):
        await consumer.start()
    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    await consumer.start()
    assert consumer.is_running
    with pytest.raises(ClientError, match="started already"):
        await consumer.start()
    await consumer.close()
    await consumer.close()
    assert not consumer.is_running


async def test_second_member_of_a_group_on_one_runtime_is_refused(peer: ScriptedPeer) -> None:
    async with ClientRuntime.at(peer.address) as runtime, LitePullConsumer(group="g", runtime=runtime):
        with pytest.raises(GroupInUseError):
            await LitePullConsumer(group="g", runtime=runtime).start()
        async with LitePullConsumer(group="other", runtime=runtime):
            pass


async def test_start_fails_and_leaves_nothing_when_no_name_server_answers(clock: FakeClock) -> None:
    async with ScriptedPeer() as peer:
        address = peer.address
    consumer = LitePullConsumer(address, group="g", clock=clock)
    consumer.subscribe("T")
    with pytest.raises(ConnectError):
        await consumer.start()
    with pytest.raises(ClosedError):
        await consumer.start()


async def test_subscribe_and_assign_exclude_each_other(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C203."""
    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    consumer.subscribe("T")
    with pytest.raises(ClientError, match="by subscribe"):
        consumer.assign([Q0])
    other = LitePullConsumer(peer.address, group="h", clock=clock)
    other.assign([Q0])
    with pytest.raises(ClientError, match="by assign"):
        other.subscribe("T")


async def test_names_have_their_namespace_on_the_wire_alone(clock: FakeClock) -> None:
    """C225."""
    async with ScriptedPeer(clock=clock) as peer:
        peer.route("N%T", queues=1)
        peer.broker.put("N%T", b"x")
        async with LitePullConsumer(
            peer.address, group="g", clock=clock, namespace="N", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        ) as consumer:
            assert await consumer.queues("T") == {Q0}
            consumer.subscribe("T")
            await until(lambda: consumer.assignment() == {Q0})
            clock.advance(0.5)
            (pull, *_) = await peer.wait_for(PULL)
            assert (pull.header.consumer_group, pull.header.topic) == ("N%g", "N%T")
            message = await anext(consumer)
            assert (message.topic, message.queue) == ("T", Q0)
            await consumer.commit({Q0: 1}, is_persisted=True)
            await peer.wait_for(UPDATE)
            assert peer.broker.offsets == {("N%g", "N%T", 0): 1}
            assert await consumer.committed(Q0) == 1
            await consumer.seek(Q0, 0)
            assert [message.queue_offset for message in await consumer.poll(5)] == [0]


# --- poll


async def test_poll_without_messages_waits_its_time(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C204."""
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        polling = asyncio.ensure_future(consumer.poll(0.5))  # noqa: TID251
        await settled()
        clock.advance(0.49)
        await settled()
        assert not polling.done()
        clock.advance(0.01)
        assert await polling == []
        assert await consumer.poll(0) == []


async def test_poll_returns_what_one_pull_brought(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C205."""
    peer.broker.put("T", *(b"%d" % number for number in range(25)))
    peer.broker.put("T", b"other", queue_id=1)
    async with assigned(peer, clock, Q0, Q1) as consumer:
        await waiting_pulls(peer, 2)
        batches = [await consumer.poll(0) for _ in range(5)]
        of_first = [offsets_of(batch) for batch in batches if batch and batch[0].queue == Q0]
        assert of_first == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
        assert [batch[0].body for batch in batches if batch and batch[0].queue == Q1] == [b"other"]
        assert batches[4] == []


async def test_poll_that_waits_is_woken_by_a_message(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        polling = asyncio.ensure_future(consumer.poll(5))  # noqa: TID251
        await settled()
        peer.broker.put("T", b"late")
        assert [message.body for message in await polling] == [b"late"]


async def test_poll_and_iteration_that_wait_end_when_the_consumer_closes(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with assigned(peer, clock) as consumer:
        polling = asyncio.ensure_future(consumer.poll(5))  # noqa: TID251

        async def iterate() -> list[ReceivedMessage]:
            return [message async for message in consumer]

        iterating = asyncio.ensure_future(iterate())  # noqa: TID251
        await settled()
        await consumer.close()
        assert await polling == []
        assert await iterating == []


async def test_iteration_hands_on_one_by_one_and_poll_goes_on_where_it_stopped(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    peer.broker.put("T", *(b"%d" % number for number in range(12)))
    async with assigned(peer, clock, auto_commit=False) as consumer:
        async for message in consumer:
            if message.queue_offset == 3:
                break
        await consumer.commit(is_persisted=True)
        await until(lambda: kept(peer) == 4)
        assert offsets_of(await consumer.poll(5)) == [4, 5, 6, 7, 8, 9]
        assert offsets_of(await consumer.poll(5)) == [10, 11]


async def test_hooks_see_what_poll_returns(peer: ScriptedPeer, clock: FakeClock) -> None:
    seen: list[tuple[str, str, list[int], bool]] = []

    class Hook:
        def before_consume(self, context: ConsumeHookContext) -> None:
            seen.append(("before", context.group, offsets_of(context.messages), context.is_success))

        def after_consume(self, context: ConsumeHookContext) -> None:
            seen.append(("after", context.status, offsets_of(context.messages), context.is_success))

    peer.broker.put("T", b"a", b"b")
    async with assigned(peer, clock, consume_hooks=(Hook(),)) as consumer:
        await consumer.poll(5)
        peer.broker.put("T", b"c")
        await anext(consumer)
    assert seen == [
        ("before", "g", [0, 1], False), ("after", "CONSUME_SUCCESS", [0, 1], True),
        ("before", "g", [2], False), ("after", "CONSUME_SUCCESS", [2], True),
    ]  # fmt: skip


# --- commits


async def test_automatic_commit_covers_earlier_polls_and_not_the_last(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C206."""
    peer.broker.put("T", *(b"%d" % number for number in range(30)))
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        await consumer.poll(0)
        clock.advance(5.0)
        await consumer.poll(0)
        clock.advance(5.0)
        await peer.wait_for(UPDATE)
        assert kept(peer) == 10
        await consumer.poll(0)
        clock.advance(5.0)
        await until(lambda: kept(peer) == 20)


async def test_without_automatic_commits_nothing_is_kept_until_told(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C207."""
    peer.broker.put("T", *(b"%d" % number for number in range(10)))
    async with assigned(peer, clock, auto_commit=False) as consumer:
        await consumer.poll(5)
        for _ in range(4):
            clock.advance(5.0)
            await settled()
            await consumer.poll(0)
        assert not peer.requests(UPDATE)
        await consumer.commit({Q0, Q1}, is_persisted=True)
        (update,) = await peer.wait_for(UPDATE)
        assert (update.header.commit_offset, update.is_oneway) == (10, True)
        await consumer.commit({Q0: 4, Q1: 9})
        assert await consumer.committed(Q0) == 4
        assert len(peer.requests(UPDATE)) == 1
        clock.advance(5.0)
        await until(lambda: kept(peer) == 4)
        assert kept(peer, 1) is None
        await consumer.commit({Q0: -1})
        assert await consumer.committed(Q0) == 4


async def test_close_keeps_what_was_committed_and_leaves_the_group(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a", b"b")
    async with subscribed(peer, clock) as consumer:
        await waiting_pulls(peer, 4)
        await consumer.poll(0)
        await consumer.commit({Q0: 1})
    codes = [received.code for received in peer.received]
    assert kept(peer) == 1
    assert codes.index(UPDATE) < codes.index(RequestCode.UNREGISTER_CLIENT)
    assert peer.requests(RequestCode.UNREGISTER_CLIENT)[0].header.consumer_group == "g"


async def test_committed_is_minus_one_without_a_value_and_raises_when_nobody_knows(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C212."""
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        assert await consumer.committed(Q0) == -1
        peer.on(RequestCode.QUERY_CONSUMER_OFFSET).reply(code=1, remark="broken")
        with pytest.raises(ResponseError, match="broken"):
            await consumer.committed(Q0)


# --- seeks


async def test_seek_forgets_what_was_pulled_and_begins_at_the_offset(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C208."""
    peer.broker.put("T", *(b"%d" % number for number in range(30)))
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        assert offsets_of(await consumer.poll(0)) == list(range(10))
        await consumer.seek(Q0, 5)
        assert offsets_of(await consumer.poll(5)) == list(range(5, 15))
        for wrong in (-1, 31):
            with pytest.raises(InvalidOffsetError, match="from 0 to 30"):
                await consumer.seek(Q0, wrong)
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek(Q1, 0)


async def test_seek_replaces_a_pull_that_waits(peer: ScriptedPeer, clock: FakeClock) -> None:
    """A pull at the end of its queue may be held for 20 s; the application has gone elsewhere."""
    peer.broker.put("T", b"a", b"b")
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        await consumer.seek(Q0, 1)
        await peer.wait_for(PULL, 3)
        assert pulled_offsets(peer)[:3] == [0, 2, 1]
        assert offsets_of(await consumer.poll(5)) == [1]
        peer.broker.put("T", b"c")  # answers the old pull too
        assert offsets_of(await consumer.poll(5)) == [2]
        assert await consumer.poll(0) == []


async def test_seek_to_end_begin_and_time(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C209."""
    peer.broker.min_offsets["T", 0] = 3
    peer.broker.put("T", b"a", b"b", b"c")
    async with assigned(peer, clock) as consumer:
        await consumer.seek_to_end(Q0)
        await waiting_pulls(peer)
        assert await consumer.poll(0) == []
        peer.broker.put("T", b"d")
        assert offsets_of(await consumer.poll(5)) == [6]
        await consumer.seek_to_begin(Q0)
        assert offsets_of(await consumer.poll(5)) == [3, 4, 5, 6]
        peer.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP).reply({"offset": "5"})
        assert await consumer.offset_for_time(Q0, 1_700_000_000_000) == 5
        await consumer.seek_to_time(Q0, 1_700_000_000_000)
        assert offsets_of(await consumer.poll(5)) == [5, 6]
        assert (await consumer.min_offset(Q0), await consumer.max_offset(Q0)) == (3, 7)


# --- pulling


async def test_paused_queue_is_not_pulled_and_resumes_where_it_stopped(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C210."""
    peer.broker.put("T", b"a")
    async with assigned(peer, clock) as consumer:
        await waiting_pulls(peer)
        consumer.pause([Q0])
        peer.broker.put("T", b"b")  # what was asked for before still comes
        await until(lambda: consumer.core.queues.caches()[Q0].message_count == 2)
        peer.broker.put("T", b"c")
        for _ in range(3):
            clock.advance(1.0)
            await settled()
        assert pulled_offsets(peer) == [0, 1]
        assert [offsets_of(await consumer.poll(0)) for _ in range(3)] == [[0], [1], []]
        consumer.resume([Q0])
        clock.advance(1.0)
        assert offsets_of(await consumer.poll(5)) == [2]


async def test_pulls_pause_while_too_much_waits_in_all_queues(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C214, with 20 in place of 10 000."""
    for queue_id in range(2):
        peer.broker.put("T", *(b"%d" % number for number in range(40)), queue_id=queue_id)
    async with assigned(peer, clock, Q0, Q1, pull_all_count_max=20) as consumer:
        await until(lambda: sum(cache.message_count for cache in consumer.core.queues.caches().values()) > 20)
        await settled()
        pulls = len(peer.requests(PULL))
        for _ in range(10):
            clock.advance(0.05)
            await settled()
        assert len(peer.requests(PULL)) == pulls
        while any(cache.message_count for cache in consumer.core.queues.caches().values()):
            await consumer.poll(0)
        clock.advance(0.05)
        await peer.wait_for(PULL, pulls + 1)


@pytest.mark.parametrize(
    ("code", "pause_s"), [(ResponseCode.FLOW_CONTROL, 0.02), (ResponseCode.SYSTEM_ERROR, 1.0)], ids=["busy", "broken"]
)
async def test_pull_that_failed_is_followed_by_another_after_a_pause(
    peer: ScriptedPeer, clock: FakeClock, code: int, pause_s: float
) -> None:
    peer.on(PULL).reply(code=code, remark="no").default()
    peer.broker.put("T", b"a")
    async with assigned(peer, clock) as consumer:
        await peer.wait_for(PULL)
        await heard(peer)
        clock.advance(pause_s * 0.9)
        await heard(peer)
        assert len(peer.requests(PULL)) == 1
        clock.advance(pause_s * 0.2)
        await peer.wait_for(PULL, 2)
        assert offsets_of(await consumer.poll(5)) == [0]


async def test_start_that_nobody_knows_is_asked_for_again_after_3_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.on(RequestCode.QUERY_CONSUMER_OFFSET).reply(code=1).default()
    peer.broker.offsets["g", "T", 0] = 1
    peer.broker.put("T", b"a", b"b")
    async with assigned(peer, clock) as consumer:
        await peer.wait_for(RequestCode.QUERY_CONSUMER_OFFSET)
        await heard(peer)
        clock.advance(2.9)
        await heard(peer)
        assert not peer.requests(PULL)
        clock.advance(0.1)
        assert offsets_of(await consumer.poll(5)) == [1]


async def test_offset_outside_of_its_queue_is_left_for_the_one_that_the_broker_names(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    peer.broker.min_offsets["T", 0] = 100
    peer.broker.put("T", b"a")
    async with assigned(peer, clock) as consumer:
        assert offsets_of(await consumer.poll(5)) == [100]
        assert pulled_offsets(peer)[:2] == [0, 100]


async def test_messages_that_the_selector_does_not_want_are_passed_over(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Their tags have the same hash, so that the broker delivers them."""
    peer.broker.put("T", b"a", properties={"TAGS": "BB"})
    async with LitePullConsumer(
        peer.address, group="g", clock=clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    ) as consumer:
        consumer.assign([Q0], "Aa")
        await waiting_pulls(peer)
        assert await consumer.poll(0) == []
        await consumer.commit(is_persisted=True)
        await until(lambda: kept(peer) == 1)


async def test_slave_that_the_broker_suggests_is_pulled_next(clock: FakeClock) -> None:
    """C161 on the wire."""
    async with ScriptedPeer(clock=clock) as master, ScriptedPeer(clock=clock) as slave:
        master.route("T", {"broker-a": {0: master, 1: slave}}, queues=1)
        answer = PullMessageResponseHeader(suggest_which_broker_id=1, next_begin_offset=7, min_offset=0, max_offset=9)
        master.on(PULL).reply(answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY)
        slave.on(PULL).never()
        async with LitePullConsumer(master.address, group="g", clock=clock) as consumer:
            consumer.assign([Q0])
            (pull,) = await slave.wait_for(PULL)
            assert (pull.header.queue_offset, pull.header.sys_flag) == (7, 22)


# --- queues


async def test_assignment_is_replaced_as_a_whole(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a")
    peer.broker.put("T", b"b", queue_id=1)
    async with assigned(peer, clock, Q0) as consumer:
        assert [message.body for message in await consumer.poll(5)] == [b"a"]
        consumer.assign([Q1])
        assert consumer.assignment() == {Q1}
        assert [message.body for message in await consumer.poll(5)] == [b"b"]
        peer.broker.put("T", b"c")
        assert await consumer.poll(0) == []


async def test_unsubscribed_topic_is_given_up_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a")
    async with subscribed(peer, clock) as consumer:
        await waiting_pulls(peer, 4)
        consumer.unsubscribe("T")
        assert consumer.assignment() == set()
        assert await consumer.poll(0) == []
        pulls = len(peer.requests(PULL))
        peer.broker.put("T", b"b")
        await settled()
        assert len(peer.requests(PULL)) == pulls


async def test_members_of_a_group_share_queues(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C213, and the listener is told."""
    told: list[tuple[str, int, int]] = []
    peer.broker.members["g"] = ["zzz"]
    consumer = LitePullConsumer(
        peer.address,
        group="g",
        clock=clock,
        client_ip="127.0.0.1",
        queue_listener=lambda topic, queues, mine: told.append((topic, len(queues), len(mine))),
    )
    consumer.subscribe("T")
    async with consumer:
        await until(lambda: consumer.assignment() == {Q0, Q1})
        await until(lambda: told == [("T", 4, 2)])


async def test_members_of_a_group_that_assign_the_same_queue_both_get_its_messages(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C213: also after the time of a rebalance."""
    async with assigned(peer, clock, Q0) as one, assigned(peer, clock, Q0) as other:
        assert one.client_id != other.client_id
        await waiting_pulls(peer, 2)
        for round_ in range(2):
            peer.broker.put("T", b"a%d" % round_, b"b%d" % round_)
            for consumer in (one, other):
                assert [message.body for message in await consumer.poll(5)] == [b"a%d" % round_, b"b%d" % round_]
            for _ in range(21):
                clock.advance(1)
                await asyncio.sleep(0.002)
            assert one.assignment() == other.assignment() == {Q0}
            await waiting_pulls(peer, 2)


@pytest.mark.parametrize("selector", [None, "", "*"])
async def test_everything_is_asked_for_by_a_star(peer: ScriptedPeer, clock: FakeClock, selector: str | None) -> None:
    """C164."""
    async with LitePullConsumer(peer.address, group="g", clock=clock) as consumer:
        consumer.subscribe("T", selector)
        (pull,) = (await _first_pull(peer, clock, consumer))[:1]
        assert pull.header.subscription == "*"
        beat = peer.requests(RequestCode.HEART_BEAT)[-1].decoded(HeartbeatData)
        ((data,),) = (group.subscription_data_set for group in beat.consumer_data_set)
        assert (data.sub_string, data.tags_set, data.code_set) == ("*", [], [])


async def _first_pull(peer: ScriptedPeer, clock: FakeClock, consumer: LitePullConsumer) -> list[Received]:
    await until(lambda: len(consumer.assignment()) == 4)
    await settled()
    clock.advance(0.5)
    return await peer.wait_for(PULL)


async def test_topic_without_a_route_has_no_queues(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with LitePullConsumer(peer.address, group="g", clock=clock) as consumer:
        with pytest.raises(TopicNotFoundError, match="nowhere"):
            await consumer.queues("nowhere")
        assert len(await consumer.queues("T")) == 4


async def test_change_of_a_topics_queues_is_told_within_30_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C211."""
    told: list[set[MessageQueue]] = []

    async def listener(topic: str, queues: set[MessageQueue]) -> None:
        assert topic == "T"
        told.append(queues)

    def broken(topic: str, queues: set[MessageQueue]) -> None:
        raise ValueError("no listener today")

    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    consumer.watch_queues("T", broken)
    consumer.watch_queues("T", listener)
    async with consumer:
        clock.advance(10.0)
        await settled()
        peer.route("T", queues=5)
        assert told == []
        clock.advance(30.0)
        await until(lambda: bool(told))
        assert told == [{MessageQueue("T", "broker-a", number) for number in range(5)}]


async def test_a_listener_of_a_topic_that_waits_for_something_cancelled_is_told_again(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    told: list[int] = []

    async def listener(topic: str, queues: set[MessageQueue]) -> None:
        told.append(len(queues))
        gone = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    consumer.watch_queues("T", listener)
    async with consumer:
        for count in (5, 6):
            peer.route("T", queues=count)
            await passes(clock, lambda: told[-1:] == [count], within_s=60, step_s=10)  # noqa: B023  # awaited here
    assert told == [5, 6]


async def test_a_listener_of_a_topic_may_close_the_consumer(peer: ScriptedPeer, clock: FakeClock) -> None:
    closed = asyncio.Event()

    async def listener(topic: str, queues: set[MessageQueue]) -> None:
        await consumer.close()
        closed.set()

    consumer = LitePullConsumer(peer.address, group="g", clock=clock)
    consumer.watch_queues("T", listener)
    await consumer.start()
    peer.route("T", queues=5)
    await passes(clock, closed.is_set, within_s=60, step_s=10)
    assert consumer.runtime.is_closed


async def test_running_info_tells_queues_and_subscriptions(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a")
    async with subscribed(peer, clock):
        await waiting_pulls(peer, 4)
        info = await heard(peer)
        assert info.mq_table[Q0].cached_msg_count == 1
        assert [one.topic for one in info.subscription_set] == ["T"]
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"


async def test_listener_sees_what_it_is_told_of_and_may_seek(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a", b"b", b"c")
    seen: list[set[MessageQueue]] = []

    async def listener(topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        seen.append(consumer.assignment())
        await consumer.seek(Q0, 2)

    consumer = LitePullConsumer(peer.address, group="g", clock=clock, queue_listener=listener)
    consumer.subscribe("T")
    async with consumer:
        await until(lambda: bool(peer.requests(RequestCode.GET_MIN_OFFSET)))
        await settled()
        clock.advance(0.5)
        assert offsets_of(await consumer.poll(5)) == [2]
        assert [len(queues) for queues in seen] == [4]


async def test_listener_may_close_its_consumer(peer: ScriptedPeer, clock: FakeClock) -> None:
    closed = asyncio.Event()

    async def listener(topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        await consumer.close()
        closed.set()

    consumer = LitePullConsumer(peer.address, group="g", clock=clock, queue_listener=listener)
    consumer.subscribe("T")
    await consumer.start()
    async with asyncio.timeout(10):
        await closed.wait()
    assert not consumer.is_running


class Sulking:
    """A hook, and a keeper of offsets, that fails the first time."""

    def __init__(self) -> None:
        self.failures = 0

    def before_request(self, address: str, request: Command) -> None:
        if request.code == PULL:
            self._fail_once()

    def after_response(self, address: str, request: Command, response: Command) -> None: ...

    async def load(self) -> dict[MessageQueue, int]:
        return {}

    async def fetch(self, queue: MessageQueue) -> int | None:
        self._fail_once()
        return 1

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...

    def _fail_once(self) -> None:
        self.failures += 1
        if self.failures <= 2:  # a hook is asked twice for a pull: by the short way, and by the long one
            raise ValueError("not today")


@pytest.mark.parametrize("what", ["rpc_hooks", "offset_keeper"])
async def test_pulls_go_on_after_an_applications_hook_or_keeper_has_failed(
    peer: ScriptedPeer, clock: FakeClock, what: str
) -> None:
    peer.broker.put("T", b"a", b"b")
    sulking = Sulking()
    options: LitePullKeywords = {"rpc_hooks": (sulking,)} if what == "rpc_hooks" else {"offset_keeper": sulking}
    async with assigned(peer, clock, **options) as consumer:
        for _ in range(3):
            await until(lambda: sulking.failures > 0)
            await settled()
            clock.advance(3.0)
        assert (await consumer.poll(5))[-1].queue_offset == 1


async def test_offset_committed_before_its_queue_was_given_up_is_saved(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.broker.put("T", b"a", b"b")
    async with assigned(peer, clock, Q0, auto_commit=False) as consumer:
        await consumer.poll(5)
        await consumer.commit()
        consumer.assign([Q1])
    assert kept(peer) == 2
