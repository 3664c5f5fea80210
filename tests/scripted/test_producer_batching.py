"""Producers of both flavours that let messages wait for each other: what leaves together, when, and who is told."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from rocketline.aio import TransactionProducer
from rocketline.broker.sends.batch_members import MEMBERS_AT_ONCE
from rocketline.client.producer.auto_batch import AutoBatch
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.transactions import TransactionState
from rocketline.errors import (
    ClosedError,
    ConfigError,
    InvalidMessageError,
    RefusedMessageError,
    SelectorError,
    SendFailedError,
)
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.batch import decode_batch
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from support.clients.members import settled, until
from support.clients.producers import FLAVOURS, MakeProducer, Sender, error_of, maker

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE


@pytest.fixture(params=FLAVOURS)
async def make(request: pytest.FixtureRequest, clock: FakeClock, peer: ScriptedPeer) -> MakeProducer:
    """Producers that gather, beside a broker that answers batches as a real one does."""
    peer.on(BATCH).call(stored)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(20))  # blocking callers have a thread each
    return functools.partial(maker(request.param), clock=clock, auto_batch=True)


def stored(received: Received) -> Command:
    ids = ",".join(f"{number:032X}" for number in range(len(bodies(received))))
    return response(0, ext={"msgId": ids, "queueId": received.ext["e"], "queueOffset": "100"})


def bodies(received: Received) -> list[bytes]:
    if received.code == SEND:
        return [received.body]
    return [message.body for message in decode_batch(received.body, "T")]


def sends(peer: ScriptedPeer) -> list[Received]:
    return [each for each in peer.received if each.code in (SEND, BATCH)]


def batches_of(sender: Sender) -> AutoBatch:
    core: Any = getattr(sender, "producer", sender)
    batches: AutoBatch = getattr(core, "_twin", core).batches
    return batches


async def begun(sender: Sender, count: int) -> None:
    """So many messages wait in the producer."""
    batches = batches_of(sender)
    await until(lambda: sum([len(group.members) for group in batches._groups.values()]) == count)


async def test_callers_at_the_same_time_share_a_request_and_each_has_its_own_receipt(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C102."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(producer.send(Message("T", b"%d" % n, keys=[f"k{n}"]))) for n in range(10)]
        await begun(producer, 10)
        assert sends(peer) == []
        clock.advance(0.011)
        receipts = [await each for each in sending]
        (request,) = sends(peer)
        assert (request.code, request.ext["m"]) == (BATCH, "true")
        by_body = dict(zip(bodies(request), decode_batch(request.body, "T"), strict=True))
        for number, receipt in enumerate(receipts):
            member = by_body[b"%d" % number]
            place = bodies(request).index(b"%d" % number)
            assert isinstance(receipt, SendReceipt)
            assert member.properties["UNIQ_KEY"] == receipt.message_id
            assert member.keys == [f"k{number}"]
            assert (receipt.queue_offset, receipt.offset_message_id) == (100 + place, f"{place:032X}")
            assert receipt.queue.queue_id == int(request.ext["e"])
        assert len({receipt.message_id for receipt in receipts}) == 10


async def test_a_message_that_is_alone_leaves_by_itself_when_its_time_is_over(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C103: as a plain message, which the broker gives all that it gives to such."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        sending = group.create_task(producer.send(Message("T", b"x")))
        await begun(producer, 1)
        clock.advance(0.009)
        await settled()
        assert sends(peer) == []
        clock.advance(0.002)
        assert (await sending).is_ok
        assert [each.code for each in sends(peer)] == [SEND]


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", delay_level=3),
        Message("T", b"x", deliver_after=5),
        Message("T", b"x", deliver_at=datetime(2026, 11, 20, tzinfo=UTC)),
        Message("T", b"x" * 5000),
        [Message("T", b"x")],
    ],
    ids=["delayed", "in a while", "at a time", "compressed", "a batch"],
)
async def test_what_goes_by_itself_goes_at_once(make: MakeProducer, peer: ScriptedPeer, message: Message) -> None:
    """C104."""
    async with make(peer.address) as producer:
        assert (await producer.send(message)).is_ok
        assert (await producer.send(Message("T", b"y"), timeout_s=3)).is_ok
        assert len(sends(peer)) == 2


async def test_when_a_batch_fails_each_caller_gets_an_error_of_its_own(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C105."""
    peer.on(BATCH).reply(code=ResponseCode.MESSAGE_ILLEGAL, remark="no")
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(error_of(producer.send(Message("T", b"%d" % n)))) for n in range(5)]
        await begun(producer, 5)
        clock.advance(0.011)
        errors = [await each for each in sending]
        assert {type(error) for error in errors} == {RefusedMessageError}
        assert len({id(error) for error in errors}) == 5


async def test_a_wrong_message_troubles_nobody_else(make: MakeProducer, peer: ScriptedPeer, clock: FakeClock) -> None:
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(producer.send(Message("T", b"%d" % n))) for n in range(2)]
        assert isinstance(await error_of(producer.send(Message("T", b""))), InvalidMessageError)
        wrong = MessageQueue("other", "broker-a", 0)
        assert isinstance(await error_of(producer.send(Message("T", b"x"), queue=wrong)), InvalidMessageError)
        await begun(producer, 2)
        clock.advance(0.011)
        assert all([(await each).is_ok for each in sending])
        (request,) = sends(peer)
        assert len(bodies(request)) == 2


async def test_enough_bytes_leave_before_their_time(make: MakeProducer, peer: ScriptedPeer, clock: FakeClock) -> None:
    """And no batch is longer than it may be."""
    async with make(peer.address, batch_bytes_max=1024) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(producer.send(Message("T", b"%d" % n * 300))) for n in range(7)]
        await until(lambda: len(sends(peer)) == 3)
        await begun(producer, 1)
        clock.advance(0.011)
        assert all([(await each).is_ok for each in sending])
        assert [len(bodies(each)) for each in sends(peer)] == [2, 2, 2, 1]
        assert all(len(each.body) <= 1024 for each in sends(peer))


async def test_bytes_are_those_that_are_sent(make: MakeProducer, peer: ScriptedPeer, clock: FakeClock) -> None:
    """Letters of other scripts have two or three each, and brokers count those."""
    async with make(peer.address, batch_bytes_max=2048) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(producer.send(Message("T", b"x", keys="ж" * 400))) for _ in range(4)]
        await until(lambda: len(sends(peer)) == 1)
        await begun(producer, 2)
        clock.advance(0.011)
        assert all([(await each).is_ok for each in sending])
        assert [len(bodies(each)) for each in sends(peer)] == [2, 2]
        assert all(len(each.body) <= 2048 for each in sends(peer))


async def test_no_batch_is_so_long_that_a_broker_stores_it_in_pieces(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """Each receipt's offset counts on the messages being neighbours."""
    async with make(peer.address, batch_bytes_max=2**20, batch_delay_s=30, send_timeout_s=60) as producer:
        sending = [producer.send_soon(Message("T", b"x")) for _ in range(MEMBERS_AT_ONCE + 1)]
        await begun(producer, 1)
        await producer.close()
        receipts = await asyncio.gather(*sending)
        assert sorted(len(bodies(each)) for each in sends(peer)) == [1, MEMBERS_AT_ONCE]
        assert [each.queue_offset for each in receipts[:-1]] == list(range(100, 100 + MEMBERS_AT_ONCE))


async def test_messages_gather_by_topic_tags_and_what_they_wait_for(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    peer.route("T2")
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        for n in range(2):
            for message in (
                Message("T", b"plain %d" % n),
                Message("T", b"tagged %d" % n, tags="a"),
                Message("T", b"hasty %d" % n, waits_for_store=False),
                Message("T2", b"elsewhere %d" % n),
            ):
                group.create_task(producer.send(message))
        await begun(producer, 8)
        clock.advance(0.011)
        await until(lambda: len(sends(peer)) == 4)
        assert {tuple(sorted(bodies(each))) for each in sends(peer)} == {
            tuple(b"%s %d" % (name, n) for n in range(2)) for name in (b"plain", b"tagged", b"hasty", b"elsewhere")
        }


@pytest.mark.parametrize("how", ["queue", "selector"])
async def test_messages_for_one_queue_keep_their_order_whatever_they_are(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock, how: str
) -> None:
    """Others, which are sent by themselves, do not overtake those that wait."""
    async with make(peer.address) as producer:
        await producer.queues("T")
        chosen = MessageQueue("T", "broker-a", 2)
        where = {"queue": chosen} if how == "queue" else {"selector": lambda queues, message: queues[2]}
        sending = [
            producer.send_soon(message, **where)
            for message in (
                Message("T", b"0", tags="a"),
                Message("T", b"1", tags="b"),
                Message("T", b"2" * 5000),
                Message("T", b"3"),
                Message("T", b"4", waits_for_store=False),
                Message("T", b"5", waits_for_store=False),
                Message("T", b"6", delay_level=1),
            )
        ]
        receipts = await asyncio.gather(*sending)
        assert {receipt.queue for receipt in receipts} == {chosen}
        assert [len(bodies(each)) for each in sends(peer)] == [2, 1, 1, 2, 1]
        assert bodies(sends(peer)[0]) == [b"0", b"1"]
        assert bodies(sends(peer)[3]) == [b"4", b"5"]


@pytest.mark.parametrize("where", ["queue", "selector"])
@pytest.mark.parametrize("how", ["send", "send_soon", "request"])
async def test_what_does_not_wait_does_not_overtake_those_that_wait_for_its_queue(
    make: MakeProducer, peer: ScriptedPeer, how: str, where: str
) -> None:
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        await producer.queues("T")
        chosen = MessageQueue("T", "broker-a", 2)
        given: dict[str, Any] = {"queue": chosen} if where == "queue" else {"selector": lambda queues, _: queues[2]}
        waiting = producer.send_soon(Message("T", b"0"), queue=chosen)
        elsewhere = producer.send_soon(Message("T", b"elsewhere"))
        await begun(producer, 2)

        async def send() -> None:
            with suppress(ClosedError):  # nobody replies to the request
                await getattr(producer, how)(Message("T", b"1"), timeout_s=3, **given)

        group.create_task(send())
        await until(lambda: len(sends(peer)) == 2)
        assert [(bodies(each), each.ext["e"]) for each in sends(peer)] == [([b"0"], "2"), ([b"1"], "2")]
        assert not elsewhere.done()
        await producer.close()
        assert (await waiting).is_ok


@pytest.mark.parametrize("where", ["queue", "selector"])
async def test_neither_does_a_oneway_message(make: MakeProducer, peer: ScriptedPeer, where: str) -> None:
    async with make(peer.address) as producer:
        await producer.queues("T")
        chosen = MessageQueue("T", "broker-a", 2)
        given: dict[str, Any] = {"queue": chosen} if where == "queue" else {"selector": lambda queues, _: queues[2]}
        waiting = producer.send_soon(Message("T", b"0"), queue=chosen)
        await begun(producer, 1)
        await producer.send_oneway(Message("T", b"1"), **given)
        assert (await waiting).is_ok
        await until(lambda: len(sends(peer)) == 2)
        assert [(bodies(each), each.ext["e"]) for each in sends(peer)] == [([b"0"], "2"), ([b"1"], "2")]


async def test_neither_does_a_oneway_message_nor_half_a_transaction(peer: ScriptedPeer, clock: FakeClock) -> None:
    queue = MessageQueue("T", "broker-a", 2)
    async with TransactionProducer(
        peer.address, group="P", check=lambda _: TransactionState.COMMIT, clock=clock, auto_batch=True
    ) as producer:
        await producer.queues("T")
        for n in range(2):
            waiting = producer.send_soon(Message("T", b"waits %d" % n), queue=queue)
            await begun(cast("Sender", producer), 1)
            if n:
                await producer.send_oneway(Message("T", b"oneway"), queue=queue)
            else:
                async with producer.transaction(Message("T", b"half"), queue=queue):
                    pass
            assert (await waiting).is_ok
        await until(lambda: len(sends(peer)) == 4)
        assert [bodies(each) for each in sends(peer)] == [[b"waits 0"], [b"half"], [b"waits 1"], [b"oneway"]]


async def test_closing_sends_what_waits(make: MakeProducer, peer: ScriptedPeer) -> None:
    async with make(peer.address) as producer:
        async with asyncio.TaskGroup() as group:
            sending = [group.create_task(producer.send(Message("T", b"%d" % n))) for n in range(3)]
            soon = producer.send_soon(Message("T", b"soon"))
            await begun(producer, 4)
            await producer.close()
        assert all(each.result().is_ok for each in sending)
        assert (await soon).is_ok
        assert sorted(len(bodies(each)) for each in sends(peer)) == [1, 3]


async def test_closing_the_runtime_ends_each_wait_with_an_error_of_its_own(
    make: MakeProducer, peer: ScriptedPeer
) -> None:
    """Nothing is left that would send what gathers; its callers waited for ever."""
    async with make(peer.address, async_in_flight_max=4) as producer:
        blocking: Any = getattr(producer, "producer", None)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            sending = [group.create_task(error_of(producer.send(Message("T", b"%d" % n)))) for n in range(3)]
            sending.append(group.create_task(error_of(producer.send_soon(Message("T", b"soon")))))
            await begun(producer, 4)
            runtime = cast("Any", producer if blocking is None else blocking).runtime
            await (runtime.close() if blocking is None else asyncio.to_thread(runtime.close))
        errors = [each.result() for each in sending]
        assert {type(each) for each in errors} == {ClosedError}
        assert len({id(each) for each in errors}) == 4
        assert batches_of(producer).waiting_bytes == 0
    assert not sends(peer)


async def test_what_is_handed_over_while_it_closes_waits_for_nobody(make: MakeProducer, peer: ScriptedPeer) -> None:
    """The alarm of a group might never go off: the runtime closes with its last client."""
    async with make(peer.address) as producer:
        batches_of(producer).close()
        assert (await producer.send(Message("T", b"late"))).is_ok
        assert [each.code for each in sends(peer)] == [SEND]


async def test_a_selector_that_fails_is_told_to_its_caller_alone(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    def fails(queues: object, message: object) -> MessageQueue:
        raise ValueError("no")

    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        await producer.queues("T")
        good = group.create_task(producer.send(Message("T", b"x")))
        assert isinstance(await error_of(producer.send(Message("T", b"x"), selector=fails)), SelectorError)
        await begun(producer, 1)
        clock.advance(0.011)
        assert (await good).is_ok


async def test_a_broker_that_cannot_be_reached_fails_all_and_leaves_no_permit_behind(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C105: with the rules of callers that wait, which try three times."""
    peer.on(BATCH).drop()
    async with make(peer.address, async_in_flight_max=4) as producer:
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                sending = [group.create_task(error_of(producer.send(Message("T", b"%d" % n)))) for n in range(4)]
                await begun(producer, 4)
                clock.advance(0.011)
            assert {type(each.result()) for each in sending} == {SendFailedError}
        assert len([each for each in sends(peer) if each.code == BATCH]) == 9


async def test_more_bytes_than_may_wait_leave_at_once(make: MakeProducer, peer: ScriptedPeer) -> None:
    async with make(peer.address, batch_total_bytes_max=1024) as producer, asyncio.TaskGroup() as group:
        waiting = [group.create_task(producer.send(Message("T", b"x" * 400))) for _ in range(2)]
        await begun(producer, 2)
        assert (await producer.send(Message("T", b"y" * 400))).is_ok
        assert [bodies(each) for each in sends(peer)] == [[b"y" * 400]]
        assert not any(each.done() for each in waiting)
        await producer.close()


async def test_a_batch_must_be_allowed_to_be_so_long(make: MakeProducer, peer: ScriptedPeer) -> None:
    with pytest.raises(ConfigError, match="batch_bytes_max"):
        async with make(peer.address, message_bytes_max=10_000):
            pass


async def test_a_message_must_not_wait_until_its_time_is_over(make: MakeProducer, peer: ScriptedPeer) -> None:
    with pytest.raises(ConfigError, match="batch_delay_s=3: a call ends after 3 s"):
        async with make(peer.address, batch_delay_s=3):
            pass


async def test_whoever_gives_up_before_takes_the_message_along(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.on(BATCH).call(stored)
    async with maker("asyncio")(peer.address, clock=clock, auto_batch=True) as producer, asyncio.TaskGroup() as group:
        sending = [group.create_task(producer.send(Message("T", b"%d" % n))) for n in range(3)]
        await begun(producer, 3)
        sending[1].cancel()
        await settled()
        clock.advance(0.011)
        assert [(await each).is_ok for each in (sending[0], sending[2])] == [True, True]
        (request,) = sends(peer)
        assert bodies(request) == [b"0", b"2"]


async def test_a_callback_that_sends_does_not_wait_for_itself(peer: ScriptedPeer, clock: FakeClock) -> None:
    """It runs on the thread that would have to send the batch."""
    async with maker("blocking")(peer.address, clock=clock, auto_batch=True) as sender:
        producer: Any = sender.producer  # type: ignore[attr-defined]
        await asyncio.to_thread(producer.queues, "T")
        receipts: list[SendReceipt] = []
        first = await asyncio.to_thread(
            producer.send_soon, Message("T", b"1"), lambda _: receipts.append(producer.send(Message("T", b"2")))
        )
        await begun(sender, 1)
        clock.advance(0.011)
        await until(lambda: bool(receipts))
        assert first.result().is_ok
        assert receipts[0].is_ok
        assert [bodies(each) for each in sends(peer)] == [[b"1"], [b"2"]]
