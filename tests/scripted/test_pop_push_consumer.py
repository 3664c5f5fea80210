"""What a push consumer asks and tells whose broker has its group pop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.push.options import PushKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, MessageModel, MessageRequestMode
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import bodies
from rocketline.wire.bodies.pop import (
    BatchAckMessageRequestBody,
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
)
from rocketline.wire.bodies.running import ConsumerRunningInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import GetConsumerRunningInfoRequestHeader
from support.clients.members import passes, settled, until
from support.clients.popping import ASKED_MAX, POP_MS, hidden, popped, popped_bodies, record

ASSIGNMENT = RequestCode.QUERY_ASSIGNMENT
POP, PULL = RequestCode.POP_MESSAGE, RequestCode.PULL_MESSAGE
ACK, BATCH_ACK = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE
HIDE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
BACK = RequestCode.CONSUMER_SEND_MSG_BACK
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
ALL = MessageQueue("T", "broker-a", -1)


def accept(message: ReceivedMessage) -> None:
    """Consumed."""


def assign(peer: ScriptedPeer, *queues: MessageQueue, mode: MessageRequestMode = MessageRequestMode.POP) -> None:
    """What the broker says from now on, of T; of the retry topic there is nothing to say."""
    assignments = [MessageQueueAssignment(queue, mode) for queue in queues]
    answer = bodies.encode(QueryAssignmentResponseBody(assignments))
    peer.on(ASSIGNMENT).call(lambda received: response(0, body=answer))


def says(peer: ScriptedPeer, *answers: Command) -> None:
    """What the next pops are answered; those after them wait."""
    script = peer.on(POP)
    for answer in answers:
        script.call(partial(_copy, answer))
    script.never()


def _copy(answer: Command, received: object) -> Command:
    return response(answer.code, answer.remark, ext=dict(answer.ext), body=answer.body)


def takes_all(peer: ScriptedPeer) -> None:
    peer.on(ACK).reply()
    peer.on(BATCH_ACK).reply()
    peer.on(BACK).reply()
    peer.on(HIDE).call(hidden)


@asynccontextmanager
async def consuming(
    peer: ScriptedPeer,
    clock: FakeClock,
    handler: Callable[..., Any] = accept,
    *,
    expression: str = "*",
    runtime: ClientRuntime | None = None,
    pops: int = 1,
    **options: Unpack[PushKeywords],
) -> AsyncIterator[PushConsumer]:
    """A consumer of T in group g that has popped for the first time."""
    peer.route("T", queues=2)
    takes_all(peer)
    if not peer.requests(ASSIGNMENT):
        assign(peer, ALL)
    address = None if runtime else peer.address
    options["client_rebalance"] = False
    consumer = PushConsumer(address, group="g", clock=clock, runtime=runtime, **options)
    consumer.subscribe("T", expression, handler)
    async with consumer:
        await until(lambda: len([queue for queue in consumer.queues if queue.topic == "T"]) > 0)
        clock.advance(0.5)
        await peer.wait_for(POP, pops)
        yield consumer


async def test_broker_is_asked_for_queues_and_for_messages_and_hears_of_no_offset(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C195."""
    says(peer, popped_bodies(b"a"))
    async with consuming(peer, clock) as consumer:
        await peer.wait_for(ACK)
        body = peer.requests(ASSIGNMENT)[0].decoded(QueryAssignmentRequestBody)
        assert (body.topic, body.consumer_group, body.strategy_name) == ("T", "g", "AVG")
        assert (body.client_id, body.message_model) == (consumer.client_id, MessageModel.CLUSTERING)
        header = peer.requests(POP)[0].header
        assert (header.consumer_group, header.topic, header.queue_id, header.max_msg_nums) == ("g", "T", -1, 32)
        assert (header.poll_time, header.invisible_time, header.init_mode, header.order) == (15_000, 60_000, 1, False)
        assert (header.expression_type, header.expression) == ("TAG", "*")
        assert consumer.queues == (ALL,)
        for _ in range(12):
            clock.advance(5)
            await settled()
    assert not [update for update in peer.requests(UPDATE) if update.header.topic == "T"]
    assert not [pull for pull in peer.requests(PULL) if pull.header.topic == "T"]


async def test_group_that_begins_at_the_first_message_says_so(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer)
    async with consuming(peer, clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET):
        assert peer.requests(POP)[0].header.init_mode == 0


async def test_message_that_succeeded_is_acknowledged_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C196."""
    says(peer, popped([record(b"a", 7, queue_id=1)], "0 1 7", "0 1 7"))
    async with consuming(peer, clock):
        (ack,) = await peer.wait_for(ACK)
        await settled()
    assert len(peer.requests(ACK)) == 1
    header = ack.header
    assert (header.consumer_group, header.topic, header.queue_id, header.offset) == ("g", "T", 1, 7)
    assert header.extra_info == f"7 {POP_MS} 60000 3 0 broker-a 1 7"
    assert not peer.requests(HIDE)


@pytest.mark.parametrize(("failures", "rest_ms"), [(0, 10_000), (1, 30_000)])
async def test_message_that_failed_rests_longer_each_time(
    peer: ScriptedPeer, clock: FakeClock, failures: int, rest_ms: int
) -> None:
    """C196."""
    says(peer, popped_bodies(b"a", reconsume_times=failures))
    async with consuming(peer, clock, lambda message: ConsumeResult.RETRY_LATER):
        (hide,) = await peer.wait_for(HIDE)
        assert (hide.header.invisible_time, hide.header.offset) == (rest_ms, 0)
    assert not peer.requests(ACK)


async def test_handler_may_say_how_long_its_message_rests(peer: ScriptedPeer, clock: FakeClock) -> None:
    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult:
        context.delay_level = 3
        return ConsumeResult.RETRY_LATER

    says(peer, popped_bodies(b"a"))
    async with consuming(peer, clock, handle):
        (hide,) = await peer.wait_for(HIDE)
        assert hide.header.invisible_time == 120_000


async def test_messages_after_the_ack_index_are_given_back(peer: ScriptedPeer, clock: FakeClock) -> None:
    def handle(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        context.ack_index = 0

    says(peer, popped_bodies(b"a", b"b", b"c"))
    async with consuming(peer, clock, handle, consume_batch_max=10):
        hides = await peer.wait_for(HIDE, 2)
        assert sorted(hide.header.offset for hide in hides) == [1, 2]
        assert [ack.header.offset for ack in await peer.wait_for(ACK)] == [0]


async def test_message_that_failed_too_often_goes_to_the_dead_letters(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer, popped_bodies(b"a", reconsume_times=2))
    async with consuming(peer, clock, lambda message: ConsumeResult.RETRY_LATER, reconsume_times_max=2):
        await peer.wait_for(ACK)
        (back,) = peer.requests(BACK)
        assert (back.header.delay_level, back.header.group, back.header.offset) == (-1, "g", 0)
    assert not peer.requests(HIDE)


async def test_nothing_is_said_of_a_message_whose_handler_took_too_long(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C197, and handlers that had to wait for so long are not called."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        gate.wait()

    says(peer, popped_bodies(b"a", b"b"))
    async with consuming(peer, clock, handle, consume_threads=1):
        await until(lambda: bool(seen))
        clock.advance(60)
        gate.set()
        await settled()
        await asyncio.sleep(0.05)
    assert seen == [b"a"]
    assert not {received.code for received in peer.received} & {ACK, BATCH_ACK, HIDE}


async def test_queue_with_too_many_messages_is_not_popped(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C198: 97 messages are too many, 96 are not."""
    gate = threading.Event()
    says(peer, *(popped_bodies(*[b"x"] * 32, first=32 * number) for number in range(3)), popped_bodies(b"y", first=96))
    async with consuming(peer, clock, lambda message: gate.wait() and None, pops=4) as consumer:
        await until(lambda: consumer.core.pop_loops is not None and _waiting(consumer) == 97)
        for _ in range(20):
            clock.advance(0.05)
            await settled()
        assert len(peer.requests(POP)) == 4
        gate.set()
        await passes(clock, lambda: len(peer.requests(POP)) == 5, within_s=2, step_s=0.05)


def _waiting(consumer: PushConsumer) -> int:
    assert consumer.core.pop_loops is not None
    return sum(info.wait_ack_count for info in consumer.core.pop_loops.infos().values())


async def test_suspended_consumer_does_not_pop(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C199."""
    script = peer.on(POP).hold(lambda received: response(ResponseCode.POLLING_TIMEOUT))
    async with consuming(peer, clock) as consumer:
        consumer.suspend()
        script.release()
        await passes(clock, lambda: clock.monotonic() > 20, within_s=30)
        assert len(peer.requests(POP)) == 1
        consumer.resume()
        await passes(clock, lambda: len(peer.requests(POP)) == 2, within_s=1.1, step_s=0.1)


@pytest.mark.parametrize(
    ("code", "pause_s"),
    [(ResponseCode.POLLING_FULL, 1.0), (ResponseCode.SYSTEM_ERROR, 1.0), (ResponseCode.FLOW_CONTROL, 0.02)],
)
async def test_busy_broker_is_left_alone_for_a_while(
    peer: ScriptedPeer, clock: FakeClock, code: ResponseCode, pause_s: float
) -> None:
    says(peer, response(code))
    async with consuming(peer, clock):
        await settled()
        clock.advance(pause_s * 0.9)
        await settled()
        assert len(peer.requests(POP)) == 1
        await passes(clock, lambda: len(peer.requests(POP)) == 2, within_s=1, step_s=0.01)


async def test_pop_that_found_nothing_is_followed_by_the_next_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer, response(ResponseCode.POLLING_TIMEOUT), response(ResponseCode.PULL_NOT_FOUND))
    async with consuming(peer, clock, pops=3):
        pass


async def test_broker_that_finds_nothing_again_and_again_is_asked_less_and_less(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """Instead of holding the pops back."""
    peer.on(POP).reply(code=ResponseCode.POLLING_TIMEOUT, remark="nothing")
    async with consuming(peer, clock):
        end_s = clock.monotonic() + 2
        await passes(clock, lambda: clock.monotonic() >= end_s, within_s=3, step_s=0.05)
        assert len(peer.requests(POP)) <= ASKED_MAX


async def test_messages_with_other_tags_are_acknowledged_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    seen: list[bytes] = []
    records = [record(b"1", 0, properties={"TAGS": "Aa"}), record(b"2", 1, properties={"TAGS": "BB"})]
    says(peer, popped(records, "0 0 0", "0 0 0,1"))
    async with consuming(peer, clock, lambda message: seen.append(message.body), expression="Aa"):
        await peer.wait_for(ACK, 2)
    assert seen == [b"1"]


async def test_group_that_pulls_pulls_and_drains_what_was_popped(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Its retry topic for popped messages is read as long as it pulls."""
    peer.route("%RETRY%g_T", queues=1)
    peer.broker.put("%RETRY%g_T", b"again")
    both = [MessageQueue("T", "broker-a", number) for number in range(2)]
    retries = MessageQueue("%RETRY%g_T", "broker-a", 0)

    def assigned(received: Any) -> Command:
        topic = received.decoded(QueryAssignmentRequestBody).topic
        queues = both if topic == "T" else [retries] if topic == "%RETRY%g_T" else []
        assignments = [MessageQueueAssignment(queue, MessageRequestMode.PULL) for queue in queues]
        return response(0, body=bodies.encode(QueryAssignmentResponseBody(assignments)))

    seen: list[tuple[str, bytes]] = []
    peer.route("T", queues=2)
    peer.on(ASSIGNMENT).call(assigned)
    consumer = PushConsumer(
        peer.address,
        group="g",
        clock=clock,
        client_rebalance=False,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe("T", "*", lambda message: seen.append((message.topic, message.body)))
    async with consumer:
        await passes(clock, lambda: seen == [("T", b"again")], within_s=90)
        assert set(consumer.queues) >= {*both, retries}
        assign(peer, ALL)
        says(peer)
        await passes(clock, lambda: ALL in consumer.queues, within_s=30)
        await passes(clock, lambda: not set(both) & set(consumer.queues), within_s=30)


async def test_broker_that_does_not_know_keeps_things_as_they_are(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer)
    async with consuming(peer, clock) as consumer:
        peer.on(ASSIGNMENT).reply(body=b"{}").reply(code=1).reply(body=b"[]").reply(
            body=bodies.encode(
                QueryAssignmentResponseBody(
                    [MessageQueueAssignment(MessageQueue("T", "elsewhere", -1), MessageRequestMode.POP)]
                )
            )
        )
        peer.forget()
        await passes(clock, lambda: len(peer.requests(ASSIGNMENT)) > 4, within_s=120)
        assert consumer.queues == (ALL,)


async def test_queue_that_is_taken_away_is_popped_no_more_and_its_messages_go_back(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    script = peer.on(POP).hold(lambda received: popped_bodies(b"a"))
    seen: list[bytes] = []
    async with consuming(peer, clock, lambda message: seen.append(message.body)) as consumer:
        assign(peer)
        await passes(clock, lambda: not consumer.queues, within_s=30)
        script.release()
        (hide,) = await peer.wait_for(HIDE)
        assert hide.header.invisible_time == 0
        await settled()
        assert len(peer.requests(POP)) == 1
    assert not seen


async def test_topic_that_is_unsubscribed_is_popped_no_more(peer: ScriptedPeer, clock: FakeClock) -> None:
    script = peer.on(POP).hold(lambda received: response(ResponseCode.POLLING_TIMEOUT))
    async with consuming(peer, clock) as consumer:
        consumer.unsubscribe("T")
        await passes(clock, lambda: not consumer.queues, within_s=30)
        script.release()
        await settled()
        clock.advance(2)
        await settled()
        assert len(peer.requests(POP)) == 1


async def test_listener_is_told_of_queues_that_are_popped(peer: ScriptedPeer, clock: FakeClock) -> None:
    told: list[tuple[str, set[MessageQueue]]] = []
    says(peer)
    listener = lambda topic, queues, assigned: told.append((topic, set(assigned)))  # noqa: E731
    async with consuming(peer, clock, queue_listener=listener):
        await until(lambda: ("T", {ALL}) in told)


async def test_rebalance_that_ends_after_the_consumer_begins_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer)
    async with ClientRuntime.at(peer.address) as runtime:
        async with consuming(peer, clock, runtime=runtime) as consumer:
            answer = bodies.encode(
                QueryAssignmentResponseBody(
                    [MessageQueueAssignment(MessageQueue("T", "broker-a", 0), MessageRequestMode.POP)]
                )
            )
            script = peer.on(ASSIGNMENT).hold(lambda received: response(0, body=answer))
            peer.forget()
            runtime.wake_rebalance()
            await peer.wait_for(ASSIGNMENT)
            closing = asyncio.ensure_future(consumer.close())  # noqa: TID251
            await settled()
            script.release()
            await closing
        assert not consumer.queues


async def test_names_have_their_namespace_on_the_wire_alone(peer: ScriptedPeer, clock: FakeClock) -> None:
    everywhere = MessageQueue("N%T", "broker-a", -1)
    seen: list[str] = []
    peer.route("N%T", queues=1)
    takes_all(peer)
    assign(peer, everywhere)
    retry = f"0 {POP_MS} 60000 3 1 broker-a 0 0"
    records = [record(b"a", 0, topic="N%T", properties={"POP_CK": retry}), record(b"b", 0, topic="N%T")]
    says(peer, popped(records, "0 0 0;1 0 0", "0 0 0;1 0 0"))
    consumer = PushConsumer(peer.address, group="g", namespace="N", clock=clock, client_rebalance=False)
    consumer.subscribe("T", "*", lambda message: seen.append(message.topic))
    async with consumer:
        await until(lambda: bool(consumer.queues))
        clock.advance(0.5)
        await until(lambda: len(seen) == 2)
        assert consumer.queues == (ALL,)
        header = peer.requests(POP)[0].header
        assert (header.consumer_group, header.topic) == ("N%g", "N%T")
        await until(lambda: len(peer.requests(ACK)) + 2 * len(peer.requests(BATCH_ACK)) == 2)
    assert seen == ["T", "T"]
    for ack in peer.requests(ACK):
        assert ack.header.topic in ("N%T", "%RETRY%N%g_N%T")
    for batch in peer.requests(BATCH_ACK):
        told = batch.decoded(BatchAckMessageRequestBody).acks
        assert {(one.topic, one.consumer_group, one.retry) for one in told} == {
            ("N%T", "N%g", "0"),
            ("N%T", "N%g", "1"),
        }


async def test_closing_waits_for_handlers_and_tells_what_they_did(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C200, C201: and what no handler has got is given back."""
    begun, gate = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        begun.set()
        gate.wait()
        seen.append(message.body)

    says(peer, popped_bodies(b"a", b"b"))
    async with consuming(peer, clock, handle, consume_threads=1):
        await asyncio.to_thread(begun.wait)
        asyncio.get_running_loop().call_later(0.1, gate.set)
    assert seen == [b"a"]
    codes = [received.code for received in peer.received]
    assert codes.index(ACK) < codes.index(RequestCode.UNREGISTER_CLIENT)
    assert [hide.header.offset for hide in peer.requests(HIDE)] == [1]


async def test_administrators_see_what_is_popped(peer: ScriptedPeer, clock: FakeClock) -> None:
    says(peer)
    async with consuming(peer, clock):
        header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="any")
        answer = await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = bodies.decode(ConsumerRunningInfo, answer.body)
        assert list(info.mq_pop_table) == [ALL]
        assert not info.mq_pop_table[ALL].dropped


@pytest.mark.parametrize("options", [{"orderly": True}, {"message_model": MessageModel.BROADCASTING}])
async def test_in_order_and_broadcasting_members_share_by_themselves(
    peer: ScriptedPeer, clock: FakeClock, options: Any, tmp_path: Any
) -> None:
    consumer = PushConsumer(
        peer.address, group="g", clock=clock, client_rebalance=False, offset_folder=tmp_path, **options
    )
    consumer.subscribe("T", "*", accept)
    async with consumer:
        await until(lambda: bool(consumer.queues))
    assert not peer.requests(ASSIGNMENT)


@pytest.mark.parametrize(
    "options", [{"pop_invisible_s": 4}, {"pop_invisible_s": 301}, {"pop_batch_max": 33}, {"pop_count_max": 0}]
)
def test_bounds_are_those_of_java(options: Any) -> None:
    with pytest.raises(ConfigError):
        PushConsumer("host:1", group="g", **options)
