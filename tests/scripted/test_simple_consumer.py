"""What a simple consumer asks and tells, with asyncio and blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import pytest

from rocketline.client.aio.simple_consumer import SimpleConsumer
from rocketline.client.pop import settling
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.simple.options import SimpleKeywords
from rocketline.client.sync.simple_consumer import SimpleConsumer as BlockingSimpleConsumer
from rocketline.errors import (
    ClientError,
    ClosedError,
    HandleError,
    HandleExpiredError,
    NoPopError,
    RemoteProtocolError,
    ResponseError,
    RocketlineError,
    TopicNotFoundError,
    TransportError,
    UnsettledError,
)
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.bodies.pop import BatchAckMessageRequestBody, bits_of
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from support.clients.consuming import received as pulled
from support.clients.members import passes, settled, until
from support.clients.popping import ASKED_MAX, POP_MS, hidden, popped, popped_bodies, record

POP = RequestCode.POP_MESSAGE
ACK = RequestCode.ACK_MESSAGE
BATCH_ACK = RequestCode.BATCH_ACK_MESSAGE
HIDE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
BACK = RequestCode.CONSUMER_SEND_MSG_BACK
NOTIFICATION = RequestCode.NOTIFICATION
NOTHING = response(ResponseCode.POLLING_TIMEOUT, "nothing")


class InThread:
    """A blocking consumer whose calls are awaited: the peer lives on the test's loop."""

    def __init__(self, consumer: BlockingSimpleConsumer) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*arguments: object, **keywords: object) -> object:
            return await asyncio.to_thread(getattr(self._consumer, name), *arguments, **keywords)

        return call


@pytest.fixture(params=["asyncio", "blocking"])
async def consumer(request: pytest.FixtureRequest, peer: ScriptedPeer) -> AsyncIterator[Any]:
    """A worker that gets T."""
    takes_all(peer)
    if request.param == "asyncio":
        async with consuming(peer) as made:
            yield made
    else:
        blocking = BlockingSimpleConsumer(peer.address, group="g", api_timeout_s=5)
        blocking.subscribe("T")
        await asyncio.to_thread(blocking.start)
        yield InThread(blocking)
        await asyncio.to_thread(blocking.close)


@asynccontextmanager
async def consuming(
    peer: ScriptedPeer, *, clock: FakeClock | None = None, **options: Unpack[SimpleKeywords]
) -> AsyncIterator[SimpleConsumer]:
    options.setdefault("api_timeout_s", 5)
    takes_all(peer)
    async with SimpleConsumer(peer.address, group="g", clock=clock, **options) as consumer:
        consumer.subscribe("T")
        yield consumer


def takes_all(peer: ScriptedPeer) -> None:
    """It takes whatever is said of a message."""
    peer.on(ACK).reply()
    peer.on(BATCH_ACK).reply()
    peer.on(HIDE).call(hidden)


def says(peer: ScriptedPeer, *answers: Command) -> None:
    """What the next pops are answered, and then that there is nothing."""
    script = peer.on(POP)
    for answer in (*answers, NOTHING):
        script.call(partial(_copy, answer))


def _copy(answer: Command, received: Received) -> Command:
    """Whoever sends an answer numbers it."""
    return replace(answer)


# --- receiving


async def test_pop_asks_for_all_queues_and_names_the_expression(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a", b"b"))
    messages = await consumer.receive(16, 30, wait_s=5)
    assert [message.body for message in messages] == [b"a", b"b"]
    (pop,) = peer.requests(POP)
    header = pop.header
    assert (header.consumer_group, header.topic, header.queue_id, header.max_msg_nums) == ("g", "T", -1, 16)
    assert header.invisible_time == 30_000
    assert (header.born_time, header.init_mode, header.order) == (0, 1, False)
    assert 4500 < header.poll_time <= 5000
    assert (header.expression_type, header.expression) == ("TAG", "*")


async def test_messages_have_handles_and_tell_them_as_properties(peer: ScriptedPeer, consumer: Any) -> None:
    records = [record(b"a", 101, queue_id=1), record(b"b", 103, queue_id=1), record(b"c", 7, queue_id=2)]
    says(peer, popped(records, "0 1 100;0 2 7", "0 1 101,103;0 2 7"))
    messages = await consumer.receive()
    assert [message.properties["POP_CK"] for message in messages] == [
        f"100 {POP_MS} 60000 3 0 broker-a 1 101",
        f"100 {POP_MS} 60000 3 0 broker-a 1 103",
        f"7 {POP_MS} 60000 3 0 broker-a 2 7",
    ]
    assert {message.properties["1ST_POP_TIME"] for message in messages} == {str(POP_MS)}


async def test_retries_bring_their_own_handle_and_producers_cannot_make_one_up(
    peer: ScriptedPeer, consumer: Any
) -> None:
    retry = f"4 {POP_MS} 60000 3 1 broker-a 0 5"
    foreign = f"9 {POP_MS} 60000 3 1 broker-b 0 9"
    records = [
        record(b"again", 5, reconsume_times=2, properties={"POP_CK": retry, "1ST_POP_TIME": "77"}),
        record(b"forged", 9, properties={"POP_CK": foreign}),
        record(b"broken", 10, properties={"POP_CK": "x"}),
    ]
    says(peer, popped(records, "1 0 4;0 0 8", "1 0 5;0 0 9,10"))
    again, forged, broken = await consumer.receive()
    assert (again.properties["POP_CK"], again.attempt, again.properties["1ST_POP_TIME"]) == (retry, 3, "77")
    assert forged.properties["POP_CK"] == f"8 {POP_MS} 60000 3 0 broker-a 0 9"
    assert broken.handle.queue_offset == 10
    await consumer.ack(again)
    (ack,) = peer.requests(ACK)
    assert (ack.header.topic, ack.header.offset, ack.header.extra_info) == ("%RETRY%g_T", 5, retry)


async def test_answer_that_does_not_speak_of_its_messages_is_refused(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped([record(b"a", 3)], "0 9 3", "0 9 3"))
    with pytest.raises(RemoteProtocolError):
        await consumer.receive()


async def test_broker_with_too_many_pops_is_left_alone_for_a_second(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock) as consumer:
        says(peer, response(ResponseCode.POLLING_FULL), popped_bodies(b"a"))
        assert await consumer.receive(wait_s=0) == []
        peer.on(POP).reply(code=ResponseCode.POLLING_FULL).call(lambda received: popped_bodies(b"a"))
        receiving = asyncio.ensure_future(consumer.receive(wait_s=10))  # noqa: TID251
        await peer.wait_for(POP, 2)
        await settled()
        clock.advance(0.9)
        await settled()
        assert len(peer.requests(POP)) == 2
        await passes(clock, receiving.done, within_s=1, step_s=0.1)
        assert [message.body for message in await receiving] == [b"a"]


async def test_nothing_in_time_is_an_empty_list(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer)
    assert await consumer.receive(wait_s=0) == []
    assert await consumer.receive(wait_s=0.2) == []
    assert len(peer.requests(POP)) < 40, "a broker that answers at once is not asked without end"


@pytest.mark.parametrize(
    ("count", "invisible_s", "wait_s"), [(0, 60, 1), (33, 60, 1), (1, 0, 1), (1, 43_201, 1), (1, 60, -1)]
)
async def test_what_cannot_be_is_not_asked(
    peer: ScriptedPeer, consumer: Any, count: int, invisible_s: float, wait_s: float
) -> None:
    with pytest.raises(ValueError, match=r"32|invisible|wait"):
        await consumer.receive(count, invisible_s, wait_s=wait_s)
    assert not peer.requests(POP)


async def test_broker_without_pop_and_refusals_are_told(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, response(3, "unknown"), response(16, "no"), response(29, "bad"))
    with pytest.raises(NoPopError, match=r"RocketMQ 5\.0"):
        await consumer.receive()
    with pytest.raises(ResponseError, match="no"):
        await consumer.receive()
    with pytest.raises(ResponseError, match="bad"):
        await consumer.receive()


async def test_messages_with_other_tags_are_acknowledged_and_not_handed_on(peer: ScriptedPeer) -> None:
    """C163: Aa and BB have the same hash."""
    async with consuming(peer) as consumer:
        consumer.subscribe("T", "Aa")
        records = [record(b"1", 0, properties={"TAGS": "Aa"}), record(b"2", 1, properties={"TAGS": "BB"})]
        says(peer, popped(records, "0 0 0", "0 0 0,1"))
        assert [message.body for message in await consumer.receive()] == [b"1"]
        assert [ack.header.offset for ack in peer.requests(ACK)] == [1]


async def test_message_that_was_tried_often_enough_goes_to_the_dead_letters(peer: ScriptedPeer) -> None:
    async with consuming(peer, max_attempts=3) as consumer:
        peer.on(BACK).reply()
        says(peer, popped_bodies(b"bad", reconsume_times=3), popped_bodies(b"good", first=1, reconsume_times=2))
        (message,) = await consumer.receive()
        assert (message.body, message.attempt) == (b"good", 3)
        (back,) = peer.requests(BACK)
        header = back.header
        assert (header.group, header.origin_topic, header.offset, header.delay_level) == ("g", "T", 0, -1)
        assert header.max_reconsume_times == 0
        assert [ack.header.offset for ack in peer.requests(ACK)] == [0]


async def test_dead_letter_that_is_not_taken_comes_again(peer: ScriptedPeer) -> None:
    async with consuming(peer, max_attempts=1) as consumer:
        peer.on(BACK).reply(code=1)
        says(peer, popped_bodies(b"bad", reconsume_times=1))
        assert await consumer.receive(wait_s=0) == []
        assert not peer.requests(ACK)


async def test_group_begins_at_the_first_message_if_it_is_told(peer: ScriptedPeer) -> None:
    async with consuming(peer, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET) as consumer:
        says(peer)
        await consumer.receive(wait_s=0)
        assert peer.requests(POP)[0].header.init_mode == 0


async def test_topic_without_a_route_and_no_topic_are_told(peer: ScriptedPeer) -> None:
    async with SimpleConsumer(peer.address, group="g") as consumer:
        with pytest.raises(ClientError, match="subscribe"):
            await consumer.receive()
        consumer.subscribe("nowhere")
        with pytest.raises(TopicNotFoundError):
            await consumer.receive()


async def test_worker_is_no_member_of_its_group(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a"))
    await consumer.receive()
    assert not peer.broker.members


async def test_names_have_their_namespace_on_the_wire_alone(peer: ScriptedPeer) -> None:
    peer.route("N%T")
    async with consuming(peer, namespace="N", max_attempts=1) as consumer:
        peer.on(BACK).reply()
        retry = f"0 {POP_MS} 60000 3 1 broker-a 0 0"
        again = record(b"a", 0, topic="N%T", reconsume_times=1, properties={"POP_CK": retry})
        says(peer, popped([again, record(b"b", 0, topic="N%T")], "0 0 0;1 0 0", "0 0 0;1 0 0"))
        (message,) = await consumer.receive()
        assert (message.topic, message.body) == ("T", b"b")
        await consumer.ack(message)
        pop, back, (dead, done) = peer.requests(POP)[0], peer.requests(BACK)[0], peer.requests(ACK)
        assert (pop.header.consumer_group, pop.header.topic) == ("N%g", "N%T")
        assert (back.header.group, back.header.origin_topic) == ("N%g", "%RETRY%N%g_N%T")
        assert (dead.header.topic, done.header.topic) == ("%RETRY%N%g_N%T", "N%T")


# --- several brokers


@asynccontextmanager
async def on_two_brokers(peer: ScriptedPeer) -> AsyncIterator[tuple[ScriptedPeer, SimpleConsumer]]:
    async with ScriptedPeer(broker_name="broker-b") as other:
        peer.route("T", {"broker-a": peer, "broker-b": other})
        async with consuming(peer) as consumer:
            yield other, consumer


async def test_all_brokers_are_asked_in_turn_and_none_to_wait(peer: ScriptedPeer) -> None:
    async with on_two_brokers(peer) as (other, consumer):
        says(peer, popped_bodies(b"a"))
        says(other, popped_bodies(b"b"))
        assert {(await consumer.receive())[0].body for _ in range(2)} == {b"a", b"b"}
        assert {pop.header.poll_time for pop in (*peer.requests(POP), *other.requests(POP))} == {0}
        assert not peer.requests(NOTIFICATION)


async def test_brokers_tell_when_there_is_something_to_pop(peer: ScriptedPeer) -> None:
    async with on_two_brokers(peer) as (other, consumer):
        says(peer)
        other.on(POP).call(lambda received: NOTHING).call(lambda received: popped_bodies(b"late"))
        peer.on(NOTIFICATION).never()
        other.on(NOTIFICATION).reply({"hasMsg": "true", "pollingFull": "false"}).never()
        (message,) = await consumer.receive()
        assert message.body == b"late"
        (asked,) = peer.requests(NOTIFICATION)
        assert (asked.header.poll_time, asked.header.queue_id, asked.header.born_time) == (15_000, -1, 0)
        assert (asked.header.expression_type, asked.header.expression) == ("TAG", "*")
        await consumer.receive(wait_s=0.1)
        assert len(peer.requests(NOTIFICATION)) == 1, "it is under way still"


async def test_brokers_are_asked_anew_when_other_messages_are_wanted(peer: ScriptedPeer) -> None:
    async with on_two_brokers(peer) as (other, consumer):
        for broker in (peer, other):
            says(broker)
            broker.on(NOTIFICATION).never()
        for tags in ("a", "b || c"):
            consumer.subscribe("T", tags)
            assert await consumer.receive(wait_s=0.1) == []
        assert [asked.header.expression for asked in peer.requests(NOTIFICATION)] == ["a", "b || c"]


async def outcome_of(
    clock: FakeClock, receiving: Awaitable[list[PoppedMessage]], *, within_s: float, step_s: float
) -> list[bytes] | RocketlineError:
    """What is received while the clock is turned, or why nothing is."""

    async def outcome() -> list[bytes] | RocketlineError:
        try:
            return [message.body for message in await receiving]
        except RocketlineError as error:
            return error

    async with asyncio.TaskGroup() as group:
        task = group.create_task(outcome())
        await passes(clock, task.done, within_s=within_s, step_s=step_s)
    return task.result()


async def test_time_to_wait_holds_though_a_thousand_brokers_are_silent(peer: ScriptedPeer, clock: FakeClock) -> None:
    """And the one that is not is found by one of the next calls, long before its turn."""
    async with ScriptedPeer(broker_name="honest") as honest:
        peer.route("T", {f"broker-{number}": peer for number in range(1000)} | {"honest": honest})
        says(honest, popped_bodies(b"1"))
        honest.on(NOTIFICATION).reply({"hasMsg": "true", "pollingFull": "false"}).never()
        async with consuming(peer, clock=clock) as consumer:
            peer.on(POP).never()
            peer.on(NOTIFICATION).never()
            begun_s = clock.monotonic()
            outcome = await outcome_of(clock, consumer.receive(wait_s=1), within_s=7, step_s=0.25)
            assert isinstance(outcome, TransportError)
            assert clock.monotonic() - begun_s <= 1 + 5
            for _ in range(4):
                if outcome == [b"1"]:
                    break
                outcome = await outcome_of(clock, consumer.receive(wait_s=1), within_s=7, step_s=0.25)
            assert outcome == [b"1"]
            assert len(peer.requests(POP)) <= 5


async def test_slow_broker_is_waited_for_and_keeps_what_it_brings(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Given back often enough, it would come to the dead letters though nobody has ever seen it."""
    async with ScriptedPeer(broker_name="broker-b") as other:
        peer.route("T", {"broker-a": peer, "broker-b": other})
        async with consuming(peer, clock=clock) as consumer:
            scripts = [broker.on(POP).hold(lambda received: popped_bodies(b"slow")).never() for broker in (peer, other)]
            async with asyncio.TaskGroup() as group:
                receiving = group.create_task(consumer.receive(wait_s=0))
                until_s = clock.monotonic() + 2
                await passes(clock, lambda: clock.monotonic() >= until_s, within_s=3, step_s=0.25)
                assert len([*peer.requests(POP), *other.requests(POP)]) == 1
                for script in scripts:
                    script.release()
            assert [message.body for message in receiving.result()] == [b"slow"]
            assert not [*peer.requests(HIDE), *other.requests(HIDE)]


async def test_broker_that_answers_at_once_with_nothing_is_asked_less_and_less(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """One that is to hold pops back, or of several one that has always news and never a message."""
    for brokers in ({"broker-a": peer}, {"broker-a": peer, "broker-b": peer}):
        peer.route("T", brokers)
        async with consuming(peer, clock=clock) as consumer:
            says(peer)
            peer.on(NOTIFICATION).reply({"hasMsg": "true", "pollingFull": "false"})
            before = len(peer.requests(POP))
            assert await outcome_of(clock, consumer.receive(wait_s=2), within_s=4, step_s=0.05) == []
            assert len(peer.requests(POP)) - before <= ASKED_MAX * len(brokers)


async def test_broker_that_fails_keeps_nobody_from_the_other(peer: ScriptedPeer) -> None:
    async with on_two_brokers(peer) as (other, consumer):
        says(peer, popped_bodies(b"1"), popped_bodies(b"2", first=1))
        other.on(POP).reply(code=1)
        assert [(await consumer.receive())[0].body for _ in range(2)] == [b"1", b"2"]


# --- what became of messages


async def test_ack_names_topic_queue_offset_and_handle_once(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a", first=5))
    (message,) = await consumer.receive()
    await consumer.ack(message)
    (ack,) = peer.requests(ACK)
    header = ack.header
    assert (header.consumer_group, header.topic, header.queue_id, header.offset) == ("g", "T", 0, 5)
    assert header.extra_info == f"5 {POP_MS} 60000 3 0 broker-a 0 5"
    with pytest.raises(HandleError, match="before"):
        await consumer.ack(message)
    assert len(peer.requests(ACK)) == 1


async def test_acks_of_several_messages_go_together(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped([record(b"%d" % n, n) for n in (4, 6, 9)], "0 0 4", "0 0 4,6,9"))
    await consumer.ack(await consumer.receive())
    (sent,) = peer.requests(BATCH_ACK)
    body = sent.decoded(BatchAckMessageRequestBody)
    (ack,) = body.acks
    assert (body.broker_name, ack.consumer_group, ack.topic, ack.retry) == ("broker-a", "g", "T", "0")
    assert (ack.start_offset, ack.queue_id, ack.revive_queue_id) == (4, 0, 3)
    assert (ack.pop_time, ack.invisible_time, bits_of(ack.bit_set)) == (POP_MS, 60_000, [0, 2, 5])


async def test_acks_of_very_many_messages_go_in_several_requests(
    peer: ScriptedPeer, consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_TOGETHER", 2)
    says(peer, popped_bodies(*[b"a"] * 5))
    await consumer.ack(await consumer.receive())
    assert (len(peer.requests(BATCH_ACK)), len(peer.requests(ACK))) == (2, 1)


async def test_message_far_from_the_first_of_its_pop_is_acknowledged_alone(peer: ScriptedPeer, consumer: Any) -> None:
    far = 2**62
    says(peer, popped([record(b"a", n) for n in (0, 1, far)], "0 0 0", f"0 0 0,1,{far}"))
    await consumer.ack(await consumer.receive())
    assert [ack.header.offset for ack in peer.requests(ACK)] == [far]
    assert len(peer.requests(BATCH_ACK)) == 1


async def test_broker_without_acks_of_several_gets_them_one_by_one(peer: ScriptedPeer, consumer: Any) -> None:
    peer.on(BATCH_ACK).reply(code=3)
    says(peer, popped_bodies(b"a", b"b"))
    await consumer.ack(await consumer.receive())
    assert sorted(ack.header.offset for ack in peer.requests(ACK)) == [0, 1]


async def test_extended_message_has_another_handle(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a", first=5))
    (message,) = await consumer.receive()
    await consumer.extend(message, 90)
    (hide,) = peer.requests(HIDE)
    assert (hide.header.invisible_time, hide.header.offset, hide.header.queue_id) == (90_000, 5, 0)
    assert hide.header.extra_info == f"5 {POP_MS} 60000 3 0 broker-a 0 5"
    await consumer.ack(message)
    renewed = f"5 {POP_MS + 1} 90000 5 0 broker-a 0 5"
    assert peer.requests(ACK)[0].header.extra_info == message.properties["POP_CK"] == renewed


@pytest.mark.parametrize(("failures", "rest_ms"), [(0, 10_000), (1, 30_000), (12, 1_200_000)])
async def test_message_that_is_given_back_rests_longer_each_time(
    peer: ScriptedPeer, consumer: Any, failures: int, rest_ms: int
) -> None:
    says(peer, popped_bodies(b"a", reconsume_times=failures))
    (message,) = await consumer.receive()
    await consumer.nack(message)
    assert peer.requests(HIDE)[0].header.invisible_time == rest_ms
    with pytest.raises(HandleError):
        await consumer.nack(message)


async def test_message_is_given_back_for_a_given_time(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a", b"b"))
    await consumer.nack(await consumer.receive(), 0)
    assert [hide.header.invisible_time for hide in peer.requests(HIDE)] == [0, 0]
    with pytest.raises(ValueError, match="invisible"):
        await consumer.nack([], -1)


async def test_messages_of_others_are_not_ours_to_acknowledge(peer: ScriptedPeer, consumer: Any) -> None:
    with pytest.raises(HandleError, match="not received by a simple consumer"):
        await consumer.ack(pulled([1])[0])
    says(peer, popped_bodies(b"a"))
    (message,) = await consumer.receive()
    async with SimpleConsumer(peer.address, group="other") as other:
        with pytest.raises(HandleError, match="group 'g'"):
            await other.ack(message)


async def test_of_several_those_that_failed_are_named_and_the_others_done(peer: ScriptedPeer, consumer: Any) -> None:
    says(peer, popped_bodies(b"a", b"b", b"c"))
    messages = await consumer.receive()
    await consumer.ack(messages[0])
    with pytest.raises(UnsettledError, match="1 of 3 messages were not acknowledged") as caught:
        await consumer.ack(messages)
    assert [message_id for message_id, _ in caught.value.failures] == ["ID0"]
    assert all(message.is_settled for message in messages)


async def test_refused_ack_is_told_and_may_be_tried_again(peer: ScriptedPeer, consumer: Any) -> None:
    peer.on(ACK).reply(code=208, remark="outside").reply()
    says(peer, popped_bodies(b"a"))
    (message,) = await consumer.receive()
    with pytest.raises(ResponseError, match="outside"):
        await consumer.ack(message)
    await consumer.ack(message)


async def test_handle_that_has_expired_is_not_used(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock) as consumer:
        says(peer, popped_bodies(b"a"))
        (message,) = await consumer.receive()
        clock.advance(60)
        with pytest.raises(HandleExpiredError, match="comes again"):
            await consumer.ack(message)
        assert not peer.requests(ACK)


# --- blocks


async def test_block_that_ends_well_acknowledges(peer: ScriptedPeer) -> None:
    async with consuming(peer) as consumer:
        says(peer, popped_bodies(b"a"))
        async for attempt in consumer:
            async with attempt as message:
                assert message.body == b"a"
                assert not peer.requests(ACK)
            break
        assert len(peer.requests(ACK)) == 1
        assert peer.requests(POP)[0].header.max_msg_nums == 1


@pytest.mark.parametrize(("raised", "rest_ms"), [(ValueError, 10_000), (asyncio.CancelledError, 0)])
async def test_block_that_raises_gives_back(peer: ScriptedPeer, raised: type[BaseException], rest_ms: int) -> None:
    async with consuming(peer) as consumer:
        says(peer, popped_bodies(b"a"))
        with pytest.raises(raised):
            async with await anext(consumer):
                raise raised
        assert [hide.header.invisible_time for hide in peer.requests(HIDE)] == [rest_ms]
        assert not peer.requests(ACK)


async def test_block_that_said_what_became_of_its_message_is_believed(peer: ScriptedPeer) -> None:
    async with consuming(peer) as consumer:
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            await consumer.nack(message, 300)
        assert [hide.header.invisible_time for hide in peer.requests(HIDE)] == [300_000]
        assert not peer.requests(ACK)


async def test_message_is_extended_while_its_block_runs(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock) as consumer:
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            for count in (1, 2, 3):
                clock.advance(30)
                await peer.wait_for(HIDE, count)
                await until(lambda: message.expires_s > clock.monotonic() + 59)
        assert [hide.header.invisible_time for hide in peer.requests(HIDE)] == [60_000] * 3
        clock.advance(600)
        await asyncio.sleep(0.02)
        assert len(peer.requests(HIDE)) == 3
        assert peer.requests(ACK)[0].header.extra_info == message.handle.format()


async def test_message_that_is_extended_by_hand_is_extended_further_by_itself(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    async with consuming(peer, clock=clock) as consumer:
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            await consumer.extend(message, 100)
            clock.advance(49)
            await asyncio.sleep(0.02)
            assert len(peer.requests(HIDE)) == 1
            clock.advance(2)
            await peer.wait_for(HIDE, 2)
        assert [hide.header.invisible_time for hide in peer.requests(HIDE)] == [100_000, 60_000]
        assert len(peer.requests(ACK)) == 1


async def test_message_whose_ack_failed_is_extended_further(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock) as consumer:
        peer.on(ACK).reply(code=1).reply()
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            with pytest.raises(ResponseError):
                await consumer.ack(message)
            clock.advance(31)
            await peer.wait_for(HIDE)
        assert message.is_settled
        assert len(peer.requests(ACK)) == 2


async def test_extension_that_fails_is_tried_again(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock) as consumer:
        peer.on(HIDE).reply(code=1).call(hidden)
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            clock.advance(30)
            await peer.wait_for(HIDE)
            await passes(clock, lambda: message.handle.revive_queue_id == 5, within_s=10)
        assert len(peer.requests(HIDE)) == 2


async def test_block_that_takes_for_ever_keeps_its_message_for_a_time(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with consuming(peer, clock=clock, extend_max_s=45) as consumer:
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            clock.advance(30)
            await until(lambda: message.handle.revive_queue_id == 5)
            clock.advance(30)
            await asyncio.sleep(0.05)
            clock.advance(100)
            await asyncio.sleep(0.05)
        assert len(peer.requests(HIDE)) == 1
        assert not peer.requests(ACK), "it was too late"


async def test_done_work_is_acknowledged_though_the_connection_was_lost(peer: ScriptedPeer) -> None:
    async with consuming(peer) as consumer:
        peer.on(ACK).drop().reply()
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer) as message:
            pass
        assert message.is_settled
        assert len(peer.requests(ACK)) == 2


async def test_iteration_goes_on_after_what_passes(peer: ScriptedPeer) -> None:
    async with consuming(peer, pull_pause_s=0.01) as consumer:
        says(peer, response(1, "busy"), response(16, "not yet"), popped_bodies(b"a"))
        async with await anext(consumer) as message:
            assert message.body == b"a"


# --- going away


async def test_what_comes_for_somebody_who_has_gone_is_given_back(peer: ScriptedPeer) -> None:
    async with consuming(peer) as consumer:
        script = peer.on(POP).hold(lambda received: popped_bodies(b"a", b"b"))
        receiving = asyncio.ensure_future(consumer.receive())  # noqa: TID251
        await peer.wait_for(POP)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        script.release()
        hides = await peer.wait_for(HIDE, 2)
        assert [(hide.header.offset, hide.header.invisible_time) for hide in hides] == [(0, 0), (1, 0)]


async def test_iteration_and_receive_end_with_their_consumer(peer: ScriptedPeer) -> None:
    peer.on(POP).never()
    async with consuming(peer) as consumer:
        receiving = asyncio.ensure_future(consumer.receive())  # noqa: TID251
        iterating = asyncio.ensure_future(anext(consumer, "over"))  # noqa: TID251
        await peer.wait_for(POP, 2)
    assert await iterating == "over"
    with pytest.raises(ClosedError):
        await receiving


async def test_blocks_of_others_end_before_their_consumer_does(peer: ScriptedPeer) -> None:
    goes_on = asyncio.Event()

    async def work(consumer: SimpleConsumer) -> None:
        async with await anext(consumer):
            await goes_on.wait()

    async with consuming(peer) as consumer:
        says(peer, popped_bodies(b"a"))
        working = asyncio.ensure_future(work(consumer))  # noqa: TID251
        await peer.wait_for(POP)
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().call_later(0.1, goes_on.set)
    await working
    assert len(peer.requests(ACK)) == 1


async def test_own_block_does_not_hold_up_its_consumer(peer: ScriptedPeer) -> None:
    async with consuming(peer, close_wait_s=30) as consumer:
        says(peer, popped_bodies(b"a"))
        async with await anext(consumer):
            async with asyncio.timeout(5):
                await consumer.close()
    assert not peer.requests(ACK)


async def test_blocking_worker_acknowledges_gives_back_and_ends_when_another_thread_closes(
    peer: ScriptedPeer,
) -> None:
    peer.on(ACK).reply()
    peer.on(HIDE).call(hidden)
    says(peer, popped_bodies(b"good"), popped_bodies(b"bad", first=1))
    consumer = BlockingSimpleConsumer(peer.address, group="g")
    consumer.subscribe("T")
    done: list[bytes] = []

    def work() -> None:
        for attempt in consumer:
            try:
                with attempt as message:
                    if message.body == b"bad":
                        raise ValueError
                    done.append(message.body)
            except ValueError:
                done.append(b"failed")

    await asyncio.to_thread(consumer.start)
    working = asyncio.ensure_future(asyncio.to_thread(work))  # noqa: TID251
    await until(lambda: len(done) == 2)
    await asyncio.to_thread(consumer.close)
    await working
    assert done == [b"good", b"failed"]
    assert [ack.header.offset for ack in peer.requests(ACK)] == [0]
    assert [(hide.header.offset, hide.header.invisible_time) for hide in peer.requests(HIDE)] == [(1, 10_000)]
