"""What a push consumer pulls, tells and answers, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Unpack

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.push.options import PushKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ClientError, ClosedError, ConfigError, GroupInUseError, NotStartedError, TransportError
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.message import StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, MessageModel
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import bodies
from rocketline.wire.bodies.locks import LockBatchRequestBody
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody
from rocketline.wire.bodies.running import CMResult as DirectResult
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketline.wire.message_codec import encode_record
from support.clients.consuming import received
from support.clients.members import passes, settled, until

PULL = RequestCode.PULL_MESSAGE
BACK = RequestCode.CONSUMER_SEND_MSG_BACK
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
RETRY = "%RETRY%g"
Q0 = MessageQueue("T", "broker-a", 0)


def accept(message: ReceivedMessage) -> None:
    """Consumed."""


@asynccontextmanager
async def consuming(
    peer: ScriptedPeer,
    clock: FakeClock,
    handler: Callable[..., Any] = accept,
    *,
    queues: int = 1,
    expression: str = "*",
    **options: Unpack[PushKeywords],
) -> AsyncIterator[PushConsumer]:
    """A consumer of T in group g that has its queues, and has asked for messages of each for the first time."""
    peer.route("T", queues=queues)
    options.setdefault("consume_from", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    options.setdefault("client_ip", "127.0.0.1")
    consumer = PushConsumer(peer.address, group="g", clock=clock, **options)
    consumer.subscribe("T", expression, handler)
    async with consumer:
        await until(lambda: len([queue for queue in consumer.queues if queue.topic == "T"]) == queues)
        clock.advance(0.5)
        await peer.wait_for(PULL, queues)
        yield consumer


def pulls(peer: ScriptedPeer, queue_id: int = 0) -> list[Any]:
    """The headers of the pulls of one queue."""
    return [one.header for one in peer.requests(PULL) if one.header.topic == "T" and one.header.queue_id == queue_id]


def pulled(next_offset: int, **ext: str) -> dict[str, str]:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "1000"}
    return fields | ext


# --- pulling


async def test_a_pull_that_found_nothing_is_followed_by_the_next_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C153."""
    peer.on(PULL).reply(pulled(7), code=ResponseCode.PULL_NOT_FOUND).hold()
    async with consuming(peer, clock):
        await peer.wait_for(PULL, 2)
        assert [header.queue_offset for header in pulls(peer)] == [0, 7]


async def test_messages_of_other_tags_move_the_offset_if_nothing_is_cached(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C154, C162: and the next pull brings the offset to the broker."""
    peer.on(PULL).reply(pulled(50), code=ResponseCode.PULL_RETRY_IMMEDIATELY).hold()
    async with consuming(peer, clock) as consumer:
        _, second = await peer.wait_for(PULL, 2)
        assert consumer.offsets()[Q0] == 50
        assert second.header.commit_offset == 50
        assert second.header.sys_flag == 0b11


async def test_messages_of_other_tags_leave_the_offset_while_others_are_cached(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C155."""
    gate = threading.Event()
    peer.broker.put("T", b"one")
    peer.on(PULL).default().reply(pulled(50), code=ResponseCode.PULL_RETRY_IMMEDIATELY).hold()
    async with consuming(peer, clock, lambda message: gate.wait() and None) as consumer:
        await peer.wait_for(PULL, 3)
        await settled()
        assert Q0 not in consumer.offsets()
        gate.set()
        await until(lambda: consumer.offsets().get(Q0) == 1)


async def test_an_offset_outside_of_the_queue_is_replaced_and_pulling_begins_anew(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C156: the new offset is saved, and pulled from within three seconds."""
    peer.on(PULL).reply(pulled(500), code=ResponseCode.PULL_OFFSET_MOVED).hold()
    async with consuming(peer, clock):
        (saved,) = await peer.wait_for(UPDATE)
        assert (saved.header.queue_id, saved.header.commit_offset) == (0, 500)
        await passes(clock, lambda: len(pulls(peer)) == 2, within_s=3, step_s=0.05)
        assert pulls(peer)[-1].queue_offset == 500


@pytest.mark.parametrize(
    ("code", "pause_s"),
    [(ResponseCode.SYSTEM_ERROR, 1.0), (ResponseCode.SYSTEM_BUSY, 1.0), (ResponseCode.FLOW_CONTROL, 0.02)],
)
async def test_a_failed_pull_is_repeated_after_a_pause(
    peer: ScriptedPeer, clock: FakeClock, code: int, pause_s: float
) -> None:
    """C157: a second, or 20 ms if the broker asks for slower pulls."""
    peer.on(PULL).reply(code=code, remark="no").hold()
    async with consuming(peer, clock):
        await peer.wait_for(PULL)
        await asyncio.sleep(0.02)
        clock.advance(pause_s * 0.9)
        await asyncio.sleep(0.02)
        assert len(pulls(peer)) == 1
        clock.advance(pause_s * 0.2)
        await peer.wait_for(PULL, 2)


class Gate:
    """A handler that lets no message pass before it is opened."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)
        self.entered = 0

    def __call__(self, message: ReceivedMessage) -> None:
        self.entered += 1
        self._open.acquire()

    def open(self, count: int) -> None:
        self._open.release(count)


async def test_pulling_pauses_while_more_messages_wait_than_the_threshold(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C158: more than 1,000 pause it, and it goes on at once when the threshold is reached."""
    gate = Gate()
    peer.broker.put("T", *[b"x"] * 1100)
    async with consuming(peer, clock, gate):
        await peer.wait_for(PULL, 32)
        await asyncio.sleep(0.05)
        assert pulls(peer)[-1].queue_offset == 31 * 32  # 992 messages are not too many yet, 1024 are
        gate.open(23)
        await asyncio.sleep(0.05)
        assert len(pulls(peer)) == 32
        gate.open(1)
        await peer.wait_for(PULL, 33)
        gate.open(2000)


async def test_pulling_pauses_while_bodies_are_bigger_than_the_threshold(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C159, with 1 MiB in place of 100."""
    gate = Gate()
    peer.broker.put("T", *[b"x" * 1_000_000] * 4)
    async with consuming(peer, clock, gate, pull_size_max_mib=1, pull_batch_max=1):
        await peer.wait_for(PULL, 3)
        await asyncio.sleep(0.05)
        assert [header.queue_offset for header in pulls(peer)] == [0, 1, 2]
        gate.open(1)
        await peer.wait_for(PULL, 4)
        gate.open(10)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_wide_span_pauses_pulling_unless_it_is_in_order(
    peer: ScriptedPeer, clock: FakeClock, orderly: bool
) -> None:
    """C160: two messages that lie 2,001 offsets apart, the first of which blocks."""
    gate = Gate()
    records = b"".join(map(_record, (0, 2001)))
    peer.on(PULL).reply(pulled(2002), records).hold()
    async with consuming(peer, clock, gate, orderly=orderly):
        await until(lambda: gate.entered > 0)
        await asyncio.sleep(0.05)
        assert len(pulls(peer)) == (2 if orderly else 1)
        gate.open(10)
        await peer.wait_for(PULL, 2)


async def test_threshold_of_a_topic_is_shared_out_among_the_queues(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C147: 1,000 are 100 for each of ten queues, and 200 for each of five once another member has the rest."""
    gate = Gate()
    peer.broker.put("T", *[b"x"] * 300)
    options = PushKeywords(pull_topic_count_max=1000, pull_batch_max=1, client_ip="0.0.0.0")  # sorts first
    async with consuming(peer, clock, gate, queues=10, **options) as consumer:
        try:
            await _is_pulled_until(peer, 101)  # 100 messages are not too many yet
            peer.broker.members["g"].append("127.0.0.1@another")
            clock.advance(1)
            await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
            await passes(clock, lambda: len(pulls(peer)) > 200, within_s=3, step_s=0.05)
            assert len(consumer.queues) == 5
            await _is_pulled_until(peer, 201)
        finally:
            gate.open(2000)


async def _is_pulled_until(peer: ScriptedPeer, offset: int) -> None:
    """Queue 0 is pulled message by message until so many wait, and no further."""
    await until(lambda: len(pulls(peer)) >= offset)
    for _ in range(3):
        header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="any")
        answer = await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        await asyncio.sleep(0.02)
    assert [header.queue_offset for header in pulls(peer)] == list(range(offset))
    assert bodies.decode(ConsumerRunningInfo, answer.body).mq_table[Q0].cached_msg_count == offset


def _record(offset: int, topic: str = "T", **properties: str) -> bytes:
    message = received([offset], queue=MessageQueue(topic, "broker-a", 0))[0]
    return encode_record(
        StoredMessage(
            topic=topic,
            body=b"body",
            properties={"UNIQ_KEY": "ID", **properties},
            flag=0,
            queue_id=0,
            queue_offset=message.queue_offset,
            log_offset=message.log_offset,
            sys_flag=0,
            born_ms=1,
            born_host=message.born_host,
            store_ms=1,
            store_host=message.store_host,
        )
    )


async def test_the_node_that_a_broker_suggests_is_pulled_next_and_gets_no_offset(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C161."""
    async with ScriptedPeer(clock=clock) as slave:
        peer.on(PULL).reply(pulled(9, suggestWhichBrokerId="1"), code=ResponseCode.PULL_NOT_FOUND).hold()
        consumer = PushConsumer(peer.address, group="g", clock=clock)
        peer.route("T", {"broker-a": {0: peer, 1: slave}}, queues=1)
        consumer.subscribe("T", "*", accept)
        async with consumer:
            await until(lambda: len(consumer.queues) == 1)
            clock.advance(0.5)
            (pull,) = await slave.wait_for(PULL)
            assert (pull.header.queue_offset, pull.header.commit_offset, pull.header.sys_flag) == (9, 9, 0b10)


async def test_a_broker_without_a_master_is_pulled(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C30: the only broker of the topic has but a slave, and its messages are consumed."""
    seen: list[bytes] = []
    async with ScriptedPeer(clock=clock) as slave:
        slave.broker.put("T", b"from the slave")
        peer.route("T", {"broker-a": {1: slave}}, queues=1)
        consumer = PushConsumer(
            peer.address, group="g", clock=clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe("T", "*", lambda message: seen.append(message.body))
        async with consumer:
            await until(lambda: consumer.queues == (Q0,))
            clock.advance(0.5)
            await until(lambda: seen == [b"from the slave"])
        assert not peer.requests(PULL)


async def test_the_usual_pull_says_what_java_says(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Seen of Java 5.5: 32 messages, 15 s, no subscription text, no commit bit before there is an offset."""
    async with consuming(peer, clock):
        header = pulls(peer)[0]
        assert (header.max_msg_nums, header.max_msg_bytes) == (32, 262_144)
        assert (header.suspend_timeout_millis, header.sys_flag) == (15_000, 0b10)
        assert header.subscription is None
        assert header.expression_type == "TAG"


async def test_only_the_exact_tags_are_delivered(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C163: BB and Aa have the same hash, which is all that a broker compares."""
    seen: list[str | None] = []
    peer.broker.put("T", b"1", properties={"TAGS": "Aa"})
    peer.broker.put("T", b"2", properties={"TAGS": "BB"})
    peer.broker.put("T", b"3")
    async with consuming(peer, clock, lambda message: seen.append(message.tags), expression="Aa || C") as consumer:
        await until(lambda: consumer.offsets().get(Q0) == 1)
        subscription = _subscriptions(peer)["T"]
        assert subscription.sub_string == "Aa || C"
        assert sorted(subscription.tags_set) == ["Aa", "C"]
        assert sorted(subscription.code_set) == [67, 2112]
    assert seen == ["Aa"]


@pytest.mark.parametrize("expression", [None, "", "*"])
async def test_everything_is_asked_for_by_a_star(peer: ScriptedPeer, clock: FakeClock, expression: str) -> None:
    """C164: also by None, which the type of `subscribe` does not name."""
    async with consuming(peer, clock, expression=expression):
        subscription = _subscriptions(peer)["T"]
        assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", [], [])


def _subscriptions(peer: ScriptedPeer) -> dict[str, Any]:
    """Of the last heartbeat with a consumer."""
    data = peer.requests(RequestCode.HEART_BEAT)[-1].decoded(HeartbeatData)
    return {one.topic: one for consumer in data.consumer_data_set for one in consumer.subscription_data_set}


async def test_a_queue_is_never_pulled_twice_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C169."""
    outstanding = most = 0

    def answer_later(pull: Received) -> Any:
        nonlocal outstanding, most
        outstanding += 1
        most = max(most, outstanding)
        asyncio.get_running_loop().call_later(0.001, answer, pull)
        return None

    def answer(pull: Received) -> None:
        nonlocal outstanding
        outstanding -= 1
        found = peer.broker.answer(pull)
        pull.channel.reply(pull.command, found)  # type: ignore[arg-type]

    peer.broker.put("T", *[b"x"] * 640)
    peer.on(PULL).call(answer_later)
    async with consuming(peer, clock) as consumer:
        await until(lambda: consumer.offsets().get(Q0) == 640)
        assert most == 1
        peer.on(PULL).hold()


# --- failures


async def test_a_failed_message_is_sent_back_as_java_does(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C172: level 0, at most 16 times, and the offset advances."""
    peer.broker.put("T", b"x", properties={"UNIQ_KEY": "ID7"})
    async with consuming(peer, clock, lambda message: 1 / 0) as consumer:
        (sent,) = await peer.wait_for(BACK)
        header = sent.header
        assert (header.group, header.origin_topic, header.origin_msg_id, header.offset) == ("g", "T", "ID7", 0)
        assert (header.delay_level, header.max_reconsume_times, header.target_broker) == (0, 16, "broker-a")
        await until(lambda: consumer.offsets().get(Q0) == 1)


async def test_a_message_that_the_broker_does_not_take_back_is_sent_to_the_retry_topic(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C175: with the next RECONSUME_TIME, its own topic, and the delay that the broker would have given it."""
    peer.route(RETRY, queues=1)
    peer.broker.put("T", b"x", properties={"UNIQ_KEY": "ID7", "color": "red"}, reconsume_times=2)
    peer.on(BACK).reply(code=ResponseCode.SYSTEM_ERROR)
    async with consuming(peer, clock, lambda message: ConsumeResult.RETRY_LATER) as consumer:
        (sent,) = await peer.wait_for(RequestCode.SEND_MESSAGE_V2)
        assert (sent.header.topic, sent.header.producer_group) == (RETRY, "CLIENT_INNER_PRODUCER")
        assert (sent.header.reconsume_times, sent.header.max_reconsume_times, sent.body) == (3, 16, b"x")
        properties = dict(pair.split("\x01") for pair in sent.header.properties.split("\x02") if pair)
        assert properties["RETRY_TOPIC"] == "T"
        assert properties["ORIGIN_MESSAGE_ID"] == "ID7"
        assert properties["DELAY"] == "5"
        assert properties["color"] == "red"
        await until(lambda: consumer.offsets().get(Q0) == 1)


async def test_a_message_that_nobody_takes_back_is_consumed_again(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C175: after 5 s, and the offset does not pass it."""
    seen: list[int] = []
    peer.broker.put("T", b"x")
    peer.on(BACK).reply(code=ResponseCode.SYSTEM_ERROR)
    peer.on(RequestCode.SEND_MESSAGE_V2).reply(code=ResponseCode.MESSAGE_ILLEGAL)

    def handle(message: ReceivedMessage) -> ConsumeResult:
        seen.append(message.reconsume_times)
        return ConsumeResult.RETRY_LATER if len(seen) == 1 else ConsumeResult.SUCCESS

    peer.route(RETRY, queues=1)
    async with consuming(peer, clock, handle) as consumer:
        await peer.wait_for(RequestCode.SEND_MESSAGE_V2)
        await asyncio.sleep(0.05)
        assert consumer.offsets().get(Q0, 0) == 0
        clock.advance(5)
        await until(lambda: consumer.offsets().get(Q0) == 1)
    assert seen == [0, 1]


async def test_broadcasting_shares_nothing_and_sends_nothing_back(
    peer: ScriptedPeer, clock: FakeClock, tmp_path: Any
) -> None:
    """C192, C193: all queues, no member list, no send-back; a failed message is skipped."""
    seen: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        raise ValueError("no")

    peer.broker.put("T", b"x")
    options: PushKeywords = {"message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}
    async with consuming(peer, clock, handle, queues=2, **options) as consumer:
        await until(lambda: consumer.offsets().get(Q0) == 1)
        assert consumer.client_id == "127.0.0.1@DEFAULT"
        assert RETRY not in _subscriptions(peer)
    assert seen == [b"x"]
    unwanted = {RequestCode.GET_CONSUMER_LIST_BY_GROUP, BACK, UPDATE, RequestCode.QUERY_CONSUMER_OFFSET}
    assert not unwanted & {one.code for one in peer.received}
    assert all(not header.sys_flag & 1 for header in pulls(peer))


# --- suspending, closing


async def test_a_suspended_consumer_pulls_nothing_until_it_is_resumed(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C199: what is in flight may come; after resume pulls begin at once."""
    seen: list[bytes] = []
    async with consuming(peer, clock, lambda message: seen.append(message.body)) as consumer:
        consumer.suspend()
        peer.broker.put("T", b"in flight")
        await until(lambda: seen == [b"in flight"])
        for _ in range(3):
            clock.advance(1)
            await asyncio.sleep(0.01)
        assert len(pulls(peer)) == 1
        peer.broker.put("T", b"later")
        consumer.resume()
        await until(lambda: len(seen) == 2)


async def test_closing_waits_for_a_handler_saves_its_offset_and_then_leaves(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C200: the offset first, then UNREGISTER_CLIENT."""
    gate = Gate()
    peer.broker.put("T", b"x")
    async with consuming(peer, clock, gate) as consumer:
        await until(lambda: gate.entered == 1)
        peer.forget()
        closing = asyncio.get_running_loop().create_task(consumer.close())
        await asyncio.sleep(0.02)
        assert not peer.requests(RequestCode.UNREGISTER_CLIENT)
        gate.open(1)
        await closing
    codes = [one.code for one in peer.received if one.code in (UPDATE, RequestCode.UNREGISTER_CLIENT)]
    assert codes[:2] == [UPDATE, RequestCode.UNREGISTER_CLIENT]
    assert peer.broker.offsets["g", "T", 0] == 1


async def test_an_orderly_consumer_unlocks_before_it_leaves(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C191: all queues, then offsets, then UNREGISTER_CLIENT."""
    peer.broker.put("T", b"x")
    async with consuming(peer, clock, queues=2, orderly=True) as consumer:
        await until(lambda: consumer.offsets().get(Q0) == 1)
        peer.forget()
    wanted = (RequestCode.UNLOCK_BATCH_MQ, UPDATE, RequestCode.UNREGISTER_CLIENT)
    codes = [one.code for one in peer.received if one.code in wanted]
    assert list(dict.fromkeys(codes)) == list(wanted)
    (unlock,) = peer.requests(RequestCode.UNLOCK_BATCH_MQ)
    assert {queue.queue_id for queue in unlock.decoded(LockBatchRequestBody).mq_set} == {0, 1}


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_may_close_its_consumer(peer: ScriptedPeer, clock: FakeClock, is_async: bool) -> None:
    """C230: it returns, its result counts, and the consumer closes."""
    loop = asyncio.get_running_loop()

    async def close(message: ReceivedMessage) -> None:
        await consumer.close()

    def close_from_thread(message: ReceivedMessage) -> None:
        loop.call_soon_threadsafe(consumer.begin_close)

    peer.broker.put("T", b"x")
    async with consuming(peer, clock, close if is_async else close_from_thread) as consumer:
        async with asyncio.timeout(10):
            await consumer.run()
        assert consumer.is_closed
    assert peer.broker.offsets["g", "T", 0] == 1


async def test_a_closed_consumer_says_so(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C9, C10: it is started once, and closing again does nothing."""
    async with consuming(peer, clock) as consumer:
        with pytest.raises(ClientError, match="started already"):
            await consumer.start()
    await consumer.close()
    await consumer.run()
    for call in (consumer.suspend, consumer.resume, lambda: consumer.subscribe("U", "*", accept)):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        await consumer.start()


async def test_a_consumer_that_was_not_started_says_so(peer: ScriptedPeer) -> None:
    consumer = PushConsumer(peer.address, group="g")
    with pytest.raises(NotStartedError):
        consumer.suspend()
    with pytest.raises(NotStartedError):
        await consumer.run()
    await consumer.close()


async def test_a_start_that_fails_leaves_nothing_running(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C25: without a name server a consumer does not start."""
    await peer.stop()
    consumer = PushConsumer(peer.address, group="g", clock=clock)
    consumer.subscribe("T", "*", accept)
    with pytest.raises(TransportError):
        await consumer.start()
    assert consumer.is_closed


async def test_two_members_of_a_group_do_not_share_a_runtime(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C7."""
    runtime = ClientRuntime.at(peer.address)
    async with PushConsumer(group="g", runtime=runtime), PushConsumer(group="h", runtime=runtime):
        with pytest.raises(GroupInUseError):
            await PushConsumer(group="g", runtime=runtime).start()


# --- subscriptions that change


async def test_a_new_subscription_is_told_and_pulled_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C149: the heartbeat at once, and pulls without waiting for the next rounds."""
    peer.route("U", queues=1)
    seen: list[bytes] = []
    async with consuming(peer, clock) as consumer:
        peer.broker.put("U", b"x")
        peer.forget()
        consumer.subscribe("U", "*", lambda message: seen.append(message.body))
        # One of the start's own heartbeats, which do not know of it, may be on its way still.
        await until(lambda: bool(peer.requests(RequestCode.HEART_BEAT)) and "U" in _subscriptions(peer))
        await passes(clock, lambda: seen == [b"x"], within_s=3, step_s=0.05)


async def test_a_topic_that_is_unsubscribed_is_no_longer_pulled(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C148."""
    async with consuming(peer, clock) as consumer:
        consumer.unsubscribe("T")
        await passes(clock, lambda: not consumer.queues, within_s=20, step_s=0.05)
        count = len(pulls(peer))
        peer.broker.release_pulls()
        clock.advance(20)
        await asyncio.sleep(0.02)
        assert len(pulls(peer)) == count


@pytest.mark.parametrize("expression", ["||", " || "])
async def test_an_expression_without_tags_is_refused_before_anything_changes(
    peer: ScriptedPeer, clock: FakeClock, expression: str
) -> None:
    async with consuming(peer, clock) as consumer:
        with pytest.raises(ClientError, match="names no tag"):
            consumer.subscribe("T", expression, accept)
        assert _subscriptions(peer)["T"].sub_string == "*"


async def test_the_number_of_handlers_at_once_can_be_changed(peer: ScriptedPeer, clock: FakeClock) -> None:
    gate = Gate()
    peer.broker.put("T", *[b"x"] * 10)
    async with consuming(peer, clock, gate, consume_threads=2) as consumer:
        await until(lambda: gate.entered == 2)
        consumer.resize(5)
        await until(lambda: gate.entered == 5)
        assert consumer.consume_threads == 5
        with pytest.raises(ConfigError):
            consumer.resize(0)
        gate.open(10)


# --- what an administrator asks


async def _info(peer: ScriptedPeer, *, group: str = "g", stacks: bool = False) -> Any:
    header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id="any", jstack_enable=stacks)
    return await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)


async def test_running_info_lists_the_owned_queues_and_their_offsets(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C52."""
    peer.broker.put("T", b"x", queue_id=1)
    async with consuming(peer, clock, queues=2) as consumer:
        queue = MessageQueue("T", "broker-a", 1)
        await until(lambda: consumer.offsets().get(queue) == 1)
        answer = await _info(peer)
        assert answer.code == 0
        info = bodies.decode(ConsumerRunningInfo, answer.body)
        assert set(info.mq_table) == set(consumer.queues)
        assert info.mq_table[queue].commit_offset == 1
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
        assert {one.topic for one in info.subscription_set} == {"T", RETRY}
        assert "T" in info.status_table


@pytest.mark.parametrize("stacks", [True, False])
async def test_running_info_has_stacks_if_they_are_wanted(peer: ScriptedPeer, clock: FakeClock, stacks: bool) -> None:
    """C53."""
    gate = Gate()
    peer.broker.put("T", b"x")
    async with consuming(peer, clock, gate):
        await until(lambda: gate.entered == 1)
        info = bodies.decode(ConsumerRunningInfo, (await _info(peer, stacks=stacks)).body)
        if stacks:
            assert info.jstack
            assert "ConsumeMessageThread_g_" in info.jstack
            assert "in __call__" in info.jstack
        else:
            assert info.jstack is None
        gate.open(1)


async def test_running_info_of_another_group_is_refused(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C54."""
    async with consuming(peer, clock):
        assert (await _info(peer, group="other")).code == ResponseCode.SYSTEM_ERROR


async def _consume_directly(peer: ScriptedPeer, record: bytes) -> ConsumeMessageDirectlyResult:
    header = ConsumeMessageDirectlyResultRequestHeader(consumer_group="g", client_id="any", broker_name="broker-a")
    answer = await peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record)
    assert answer.code == 0, answer.remark
    return bodies.decode(ConsumeMessageDirectlyResult, answer.body)


def _raise(message: ReceivedMessage) -> None:
    raise ValueError("no such order")


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(
    ("handler", "result"),
    [
        (accept, DirectResult.CR_SUCCESS),
        (lambda message: ConsumeResult.RETRY_LATER, DirectResult.CR_LATER),
        (lambda message: 42, DirectResult.CR_RETURN_NULL),
        (_raise, DirectResult.CR_THROW_EXCEPTION),
    ],
)
async def test_a_message_consumed_on_demand_tells_what_the_handler_did(
    peer: ScriptedPeer, clock: FakeClock, orderly: bool, handler: Callable[..., Any], result: DirectResult
) -> None:
    """C55: once, and no offset changes."""
    calls: list[bytes] = []

    def handle(message: ReceivedMessage) -> Any:
        calls.append(message.body)
        return handler(message)

    async with consuming(peer, clock, handle, orderly=orderly) as consumer:
        before = consumer.offsets()
        told = await _consume_directly(peer, _record(5))
        assert (told.consume_result, told.order, told.auto_commit) == (result, orderly, True)
        assert told.remark == ("ValueError: no such order" if handler is _raise else None)
        assert calls == [b"body"]
        assert consumer.offsets() == before
        assert not peer.requests(BACK)


async def test_an_orderly_handler_may_commit_or_roll_back_on_demand(peer: ScriptedPeer, clock: FakeClock) -> None:
    results = iter([ConsumeResult.COMMIT, ConsumeResult.ROLLBACK])

    async def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult:
        context.is_auto_commit = False
        return next(results)

    async with consuming(peer, clock, handle, orderly=True):
        first, second = [await _consume_directly(peer, _record(offset)) for offset in (5, 6)]
    assert (first.consume_result, first.auto_commit) == (DirectResult.CR_COMMIT, False)
    assert second.consume_result is DirectResult.CR_ROLLBACK


async def test_a_retried_message_consumed_on_demand_shows_its_own_topic(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C56."""
    seen: list[str] = []
    async with consuming(peer, clock, lambda message: seen.append(message.topic)):
        await _consume_directly(peer, _record(5, RETRY, RETRY_TOPIC="T"))
    assert seen == ["T"]


async def test_a_reset_moves_the_queues_that_it_names(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C57: pulls stop, ten seconds later the offsets are saved and pulled from."""
    peer.broker.put("T", *[b"x"] * 9, queue_id=0)
    peer.broker.put("T", *[b"x"] * 9, queue_id=1)
    async with consuming(peer, clock, queues=2) as consumer:
        await until(lambda: sorted(consumer.offsets().values()) == [9, 9])
        offsets = {MessageQueue("T", "broker-a", 0): 3, MessageQueue("T", "broker-a", 1): 4}
        await peer.tell(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            ResetOffsetRequestHeader(topic="T", group="g", timestamp=0, is_force=True),
            ResetOffsetBody(offsets),
        )
        await asyncio.sleep(0.02)
        peer.forget()
        peer.broker.release_pulls()
        await asyncio.sleep(0.02)
        clock.advance(9.9)
        await asyncio.sleep(0.02)
        assert not peer.requests(PULL)
        clock.advance(0.1)
        await until(lambda: peer.broker.offsets == {("g", "T", 0): 3, ("g", "T", 1): 4})
        await passes(clock, lambda: bool(pulls(peer, 0) and pulls(peer, 1)), within_s=3, step_s=0.05)
        assert {queue_id: pulls(peer, queue_id)[0].queue_offset for queue_id in (0, 1)} == {0: 3, 1: 4}


async def test_a_reset_of_what_is_not_owned_changes_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C58."""
    async with consuming(peer, clock) as consumer:
        await peer.tell(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            ResetOffsetRequestHeader(topic="T", group="g", timestamp=0, is_force=True),
            ResetOffsetBody({MessageQueue("T", "broker-z", 0): 3, MessageQueue("U", "broker-a", 0): 3}),
        )
        await asyncio.sleep(0.02)
        peer.broker.put("T", b"x")
        await until(lambda: consumer.offsets().get(Q0) == 1)
        await peer.wait_for(PULL, 2)


async def test_the_status_of_a_topic_is_its_offsets(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C59."""
    peer.route("U", queues=1)
    peer.broker.put("T", b"x")
    peer.broker.put("U", b"x")
    async with consuming(peer, clock) as consumer:
        consumer.subscribe("U", "*", accept)
        await passes(clock, lambda: sorted(consumer.offsets().values()) == [1, 1], within_s=3, step_s=0.05)
        header = GetConsumerStatusRequestHeader(topic="T", group="g")
        answer = await peer.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
        assert bodies.decode(ConsumerStatus, answer.body).message_queue_table == {Q0: 1}


# --- what applications see


class QueueHook:
    """Notes the queues that it sees."""

    def __init__(self) -> None:
        self.queues: list[MessageQueue] = []

    def before_consume(self, context: ConsumeHookContext) -> None:
        self.queues.append(context.queue)

    def after_consume(self, context: ConsumeHookContext) -> None: ...


async def test_a_namespace_is_on_the_wire_and_nowhere_else(clock: FakeClock) -> None:
    """C225: of messages that are new, and of one that comes again."""
    seen: list[tuple[str, MessageQueue, MessageQueue]] = []
    hook = QueueHook()

    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult:
        seen.append((message.topic, message.queue, context.queue))
        return ConsumeResult.RETRY_LATER if context.queue == Q0 else ConsumeResult.SUCCESS

    async with ScriptedPeer(clock=clock) as peer:
        peer.route("N%T", queues=1)
        peer.route("%RETRY%N%g", queues=1)
        peer.broker.put("N%T", b"new")
        peer.broker.put("%RETRY%N%g", b"again", properties={"RETRY_TOPIC": "N%T"})
        consumer = PushConsumer(
            peer.address,
            group="g",
            clock=clock,
            namespace="N",
            consume_hooks=(hook,),
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe("T", "*", handle)
        again = MessageQueue(RETRY, "broker-a", 0)
        async with consumer:
            await passes(clock, lambda: len(seen) == 2, within_s=3, step_s=0.05)
            assert set(consumer.queues) == {Q0, again}
            (back,) = await peer.wait_for(BACK)
            assert (back.header.group, back.header.origin_topic) == ("N%g", "N%T")
        assert {(topic, in_context) for topic, _, in_context in seen} == {("T", Q0), ("T", again)}
        assert (("T", Q0, Q0)) in seen
        assert set(hook.queues) == {Q0, again}
        pulled_topics = {(one.header.consumer_group, one.header.topic) for one in peer.requests(PULL)}
        assert pulled_topics == {("N%g", "N%T"), ("N%g", "%RETRY%N%g")}
