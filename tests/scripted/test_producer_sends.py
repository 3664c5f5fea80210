"""Producers of both flavours against brokers that answer as they are told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from rocketline.client.producer.queue_choice import by_hash
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.errors import (
    BrokerNotFoundError,
    CallTimeoutError,
    ConnectError,
    FlowControlError,
    InvalidMessageError,
    InvalidNameError,
    NoNameServerError,
    OverloadedError,
    RefusedMessageError,
    RequestTimeoutError,
    RouteError,
    SelectorError,
    SendFailedError,
    TopicNotFoundError,
    TransportError,
)
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.sys_flags import CompressionType, compression_type
from rocketline.testing.scripted_peer import Script, ScriptedPeer
from rocketline.testing.server_process import free_port
from rocketline.wire.batch import decode_batch
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.compression import decompress
from rocketline.wire.properties import parse_properties
from support.clients.producers import FLAVOURS, BlockingSender, MakeProducer, Sender, error_of, maker

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MESSAGE = Message("T", b"body")


@pytest.fixture(params=list(FLAVOURS))
def make(request: pytest.FixtureRequest) -> MakeProducer:
    return maker(request.param)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    """A name server and broker in one, which has the topic T."""
    async with ScriptedPeer() as peer:
        peer.route("T")
        yield peer


class Two(NamedTuple):
    """Two brokers of topic T, of which the first is the name server too."""

    a: ScriptedPeer
    b: ScriptedPeer

    def sends(self) -> int:
        return len(self.a.requests(SEND)) + len(self.b.requests(SEND))

    def on_both(self) -> tuple[Script, Script]:
        return self.a.on(SEND), self.b.on(SEND)


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with ScriptedPeer() as a, ScriptedPeer(broker_name="broker-b") as b:
        a.route("T", {"broker-a": a, "broker-b": b})
        yield Two(a, b)


def queue_ids(peer: ScriptedPeer) -> list[int]:
    return [received.header.queue_id for received in peer.requests(SEND)]


async def test_a_body_that_is_no_bytes_is_told_its_sender_alone(make: MakeProducer, peer: ScriptedPeer) -> None:
    """It was put into the message after that was made; nothing of the attempt is left behind."""
    message = Message("T", b"x")
    message.body = "text"  # type: ignore[assignment]
    for how in ({}, {"auto_batch": True}):
        async with make(peer.address, async_in_flight_max=1, **how) as producer:
            for _ in range(2):
                with pytest.raises(InvalidMessageError, match="str, not bytes"):
                    await producer.send(message)
                with pytest.raises(InvalidMessageError, match="str, not bytes"):
                    await producer.send_soon(message)
            assert (await producer.send_soon(Message("T", b"x"), timeout_s=3)).is_ok


class TestReceipts:
    @pytest.mark.parametrize(
        ("code", "status"),
        [
            (0, SendStatus.SEND_OK),
            (10, SendStatus.FLUSH_DISK_TIMEOUT),
            (11, SendStatus.SLAVE_NOT_AVAILABLE),
            (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
        ],
    )
    async def test_four_codes_are_receipts(
        self, make: MakeProducer, peer: ScriptedPeer, code: int, status: SendStatus
    ) -> None:
        """C62: with the offsets and the queue of the answer."""
        peer.on(SEND).reply({"msgId": "PLACE", "queueId": "3", "queueOffset": "77"}, code=code)
        async with make(peer.address) as producer:
            for receipt in (await producer.send(MESSAGE), await producer.send_soon(MESSAGE)):
                assert (receipt.status, receipt.queue, receipt.queue_offset, receipt.offset_message_id) == (
                    status,
                    MessageQueue("T", "broker-a", 3),
                    77,
                    "PLACE",
                )
        _, second = peer.requests(SEND)
        assert receipt.message_id == parse_properties(second.header.properties)["UNIQ_KEY"]

    async def test_region_and_trace_are_the_brokers(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C91."""
        place = {"msgId": "P", "queueId": "0", "queueOffset": "0"}
        peer.on(SEND).reply(place).reply({**place, "TRACE_ON": "false", "MSG_REGION": "north"})
        async with make(peer.address) as producer:
            plain, told = await producer.send(MESSAGE), await producer.send(MESSAGE)
        assert (plain.is_traced, plain.region) == (True, "DefaultRegion")
        assert (told.is_traced, told.region) == (False, "north")

    async def test_message_ids_are_unique_upper_case_hex(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C93: of 10,000 messages, in batches to save time."""
        async with make(peer.address, send_timeout_s=30) as producer:
            ids = [one for _ in range(100) for one in (await producer.send([MESSAGE] * 100)).message_ids]
        assert len(set(ids)) == 10_000
        assert {len(one) for one in ids} <= {32, 56}
        assert set("".join(ids)) <= set("0123456789ABCDEF")


class TestWaitingForTheReceipt:
    async def test_refusal_for_good_is_raised_after_one_attempt(self, make: MakeProducer, two: Two) -> None:
        """C63."""
        for script in two.on_both():
            script.reply(code=13, remark="too big")
        async with make(two.a.address) as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, RefusedMessageError)
        assert (error.code, two.sends()) == (13, 1)
        assert "SEND_MESSAGE_V2 at 127.0.0.1:" in str(error)

    async def test_busy_broker_sends_the_message_to_the_other(self, make: MakeProducer, two: Two) -> None:
        """C64: until each was tried first once, the second attempt is always on the other one."""
        two.a.on(SEND).reply(code=2)
        async with make(two.a.address) as producer:
            receipts = [await producer.send(MESSAGE) for _ in range(8)]
        assert {receipt.queue.broker_name for receipt in receipts} == {"broker-b"}
        assert len(two.b.requests(SEND)) == 8
        assert len(two.a.requests(SEND)) >= 1

    async def test_only_broker_that_stays_busy_is_tried_three_times(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C65."""
        peer.on(SEND).reply(code=2, remark="busy")
        async with make(peer.address) as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, SendFailedError)
        assert (error.code, len(error.attempts), len(peer.requests(SEND))) == (2, 3, 3)
        assert all(broker == "broker-a" and isinstance(cause, FlowControlError) for broker, cause in error.attempts)

    async def test_broker_that_refuses_connections_is_tried_three_times(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C66."""
        peer.route("T", {"gone": f"127.0.0.1:{free_port()}"})
        async with make(peer.address) as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, SendFailedError)
        assert error.code == 10001
        assert [(broker, type(cause)) for broker, cause in error.attempts] == [("gone", ConnectError)] * 3

    async def test_broker_that_never_answers_takes_all_the_time(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C67: one attempt, and an error that says that the time is over. The 3 s themselves: test_send_attempts."""
        peer.on(SEND).never()
        async with make(peer.address) as producer:
            error = await error_of(producer.send(MESSAGE, timeout_s=1.5))  # enough to find the broker on a busy machine
        assert isinstance(error, CallTimeoutError)
        assert (error.timeout_s, type(error.cause)) == (1.5, RequestTimeoutError)
        assert len(peer.requests(SEND)) == 1

    async def test_limit_for_one_attempt_leaves_time_for_others(self, make: MakeProducer, two: Two) -> None:
        """C68: the third attempt, with the rest of the time, is a success. The times: test_producer_times."""
        for script in two.on_both():
            script.never().default()
        async with make(two.a.address, send_timeout_s=20, attempt_timeout_s=0.8) as producer:
            assert (await producer.send(MESSAGE)).is_ok
        assert two.sends() == 3

    async def test_without_retries_one_attempt_is_made(self, make: MakeProducer, two: Two) -> None:
        """C69."""
        for script in two.on_both():
            script.reply(code=2)
        async with make(two.a.address, retries=0) as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, SendFailedError)
        assert (error.code, two.sends()) == (2, 1)

    async def test_unsafe_receipt_is_the_last_word_unless_told_otherwise(self, make: MakeProducer, two: Two) -> None:
        """C70."""
        late = {"msgId": "P", "queueId": "0", "queueOffset": "0"}
        for script in two.on_both():
            script.reply(late, code=12)
        async with make(two.a.address) as producer:
            assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert two.sends() == 1
        async with make(two.a.address, retries_unsafe=True) as producer:
            assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert two.sends() == 1 + 3
            two.b.on(SEND).default()
            assert (await producer.send(MESSAGE)).is_ok

    async def test_unsafe_receipt_stands_if_the_next_broker_refuses(self, make: MakeProducer, two: Two) -> None:
        """A refusal for good does not take back what another broker has stored."""
        late = {"msgId": "P", "queueId": "0", "queueOffset": "0"}
        two.a.on(SEND).reply(late, code=10)
        two.b.on(SEND).reply(code=13)
        async with make(two.a.address, retries_unsafe=True) as producer:
            outcomes = [await _outcome(producer) for _ in range(8)]
        assert SendStatus.FLUSH_DISK_TIMEOUT in outcomes
        assert set(outcomes) <= {SendStatus.FLUSH_DISK_TIMEOUT, RefusedMessageError}

    async def test_retries_keep_the_messages_id(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C71."""
        peer.on(SEND).reply(code=2).reply(code=2).default()
        async with make(peer.address) as producer:
            receipt = await producer.send(MESSAGE)
        sent = {parse_properties(received.header.properties)["UNIQ_KEY"] for received in peer.requests(SEND)}
        assert sent == {receipt.message_id}
        assert MESSAGE.properties == {}, "the application's message is as it was"

    async def test_sent_away_it_comes_back_on_a_new_connection(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C92: in the same call, and again without waiting."""
        async with make(peer.address, retries=0) as producer:
            await producer.send(MESSAGE)
            peer.on(SEND).reply(code=ResponseCode.GO_AWAY).default()
            before = peer.connections_opened
            assert (await producer.send(MESSAGE)).is_ok
            assert peer.connections_opened == before + 1
            peer.on(SEND).reply(code=ResponseCode.GO_AWAY).default()
            assert (await producer.send_soon(MESSAGE)).is_ok
        assert len(peer.requests(SEND)) == 5

    async def test_lost_connection_is_another_attempt(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        async with make(peer.address) as producer:
            await producer.send(MESSAGE)
            peer.on(SEND).drop().default()
            assert (await producer.send(MESSAGE)).is_ok
            peer.close_connections()
            assert (await producer.send(MESSAGE)).is_ok


async def _outcome(producer: Sender) -> object:
    try:
        return (await producer.send(MESSAGE)).status
    except RefusedMessageError as error:
        return type(error)


class TestQueues:
    async def test_every_queue_gets_its_turn(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C72: one thread, or one loop."""
        async with make(peer.address) as producer:
            if isinstance(producer, BlockingSender):
                blocking = producer.producer
                await asyncio.to_thread(lambda: [blocking.send(MESSAGE) for _ in range(16)])
            else:
                for _ in range(16):
                    await producer.send(MESSAGE)
        assert sorted(queue_ids(peer)) == sorted([0, 1, 2, 3] * 4)

    async def test_each_thread_begins_somewhere(self, peer: ScriptedPeer) -> None:
        """C73."""
        peer.route("T", queues=1000)
        async with maker("blocking")(peer.address) as producer:
            assert isinstance(producer, BlockingSender)
            blocking = producer.producer
            await producer.send(MESSAGE)
            peer.forget()
            for _ in range(3):
                thread = threading.Thread(target=blocking.send, args=(MESSAGE,))
                thread.start()
                await asyncio.to_thread(thread.join)
        assert len(set(queue_ids(peer))) > 1

    async def test_given_queue_of_another_topic_is_refused(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C79: before anything is sent."""
        async with make(peer.address) as producer:
            error = await error_of(producer.send(MESSAGE, queue=MessageQueue("other", "broker-a", 0)))
        assert isinstance(error, InvalidMessageError)
        assert peer.requests(SEND) == []

    async def test_given_queue_gets_one_attempt(self, make: MakeProducer, two: Two) -> None:
        """And its very error; a queue is found without asking for its topic's route twice."""
        two.a.on(SEND).reply(code=2)
        async with make(two.a.address) as producer:
            await producer.send(MESSAGE)
            two.a.forget()
            error = await error_of(producer.send(MESSAGE, queue=MessageQueue("T", "broker-a", 2)))
        assert isinstance(error, FlowControlError)
        assert queue_ids(two.a) == [2]

    async def test_selected_queue_gets_one_attempt(self, make: MakeProducer, two: Two) -> None:
        """C80."""
        seen: list[tuple[int, Message]] = []

        def third(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            seen.append((len(queues), message))
            return queues[3]

        two.a.on(SEND).reply(code=2)
        async with make(two.a.address) as producer:
            error = await error_of(producer.send(MESSAGE, selector=third))
        assert isinstance(error, FlowControlError)
        assert (queue_ids(two.a), two.sends(), seen) == ([3], 1, [(8, MESSAGE)])

    async def test_selector_that_fails_is_named(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C81."""

        def broken(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            raise KeyError("order-7")

        async with make(peer.address) as producer:
            await producer.send(MESSAGE)
            error = await error_of(producer.send(MESSAGE, selector=broken))
            assert isinstance(error, SelectorError)
            assert isinstance(error.__cause__, KeyError)
            nothing = await error_of(producer.send(MESSAGE, selector=lambda queues, message: None))
        assert isinstance(nothing, SelectorError)
        assert len(peer.requests(SEND)) == 1

    async def test_hash_keeps_a_keys_messages_together(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        async with make(peer.address) as producer:
            for number in range(8):
                await producer.send(MESSAGE, selector=by_hash(f"order-{number % 2}"))
        assert queue_ids(peer) == queue_ids(peer)[:2] * 4

    async def test_queues_are_those_to_write_to(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        peer.route("T", queues=2, read_queues=8)
        async with make(peer.address) as producer:
            assert await producer.queues("T") == [MessageQueue("T", "broker-a", number) for number in range(2)]


class TestRoutes:
    async def test_queues_of_a_static_topic_are_sent_to_where_they_lie(self, make: MakeProducer, two: Two) -> None:
        """C39: there are two logical queues, one at each broker."""
        mappings = {
            "broker-a": TopicQueueMappingInfo("T", "broker-a", total_queues=2, curr_id_map={0: 0}),
            "broker-b": TopicQueueMappingInfo("T", "broker-b", total_queues=2, curr_id_map={1: 0}),
        }
        two.a.broker.routes["T"] = replace(two.a.broker.routes["T"], topic_queue_mapping_by_broker=mappings)
        async with make(two.a.address) as producer:
            queues = await producer.queues("T")
            assert [queue.queue_id for queue in queues] == [0, 1]
            for queue in queues:
                assert (await producer.send(MESSAGE, queue=queue)).is_ok
        assert (queue_ids(two.a), queue_ids(two.b)) == ([0], [1])

    async def test_new_topic_goes_where_brokers_will_make_it(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C35: the pattern has 8 queues, of which a new topic gets 4."""
        peer.route("TBW102", queues=8, perm=7)
        async with make(peer.address) as producer:
            for _ in range(12):
                await producer.send(Message("new", b"x"))
        headers = [received.header for received in peer.requests(SEND)]
        assert {header.queue_id for header in headers} <= {0, 1, 2, 3}
        assert {(header.default_topic, header.default_topic_queue_nums) for header in headers} == {("TBW102", 4)}

    async def test_topic_that_nobody_has_is_named(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C36."""
        async with make(peer.address) as producer:
            error = await error_of(producer.send(Message("missing", b"x")))
            assert isinstance(error, TopicNotFoundError)
            assert (error.code, error.topic, error.name_servers) == (10005, "missing", (peer.address,))
            assert isinstance(await error_of(producer.send_soon(Message("missing", b"x"))), TopicNotFoundError)

    async def test_topic_that_may_not_be_written_to_is_named(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        peer.route("readable", perm=4)
        async with make(peer.address) as producer:
            error = await error_of(producer.send(Message("readable", b"x")))
        assert isinstance(error, RouteError)
        assert error.code == 10005
        assert "permission forbids writing" in str(error)

    async def test_without_a_name_server_there_is_nobody_to_ask(
        self, make: MakeProducer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C37."""
        monkeypatch.delenv("NAMESRV_ADDR", raising=False)
        async with make() as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, NoNameServerError)
        assert error.code == 10004

    async def test_broker_without_an_address_is_named_after_a_look_at_the_route(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        async with make(peer.address) as producer:
            error = await error_of(producer.send(MESSAGE, queue=MessageQueue("T", "elsewhere", 0)))
        assert isinstance(error, BrokerNotFoundError)
        assert error.broker_name == "elsewhere"
        assert "T" in {received.header.topic for received in peer.requests(ROUTE)}

    async def test_names_servers_that_are_down_fail_the_send_and_not_the_start(self, make: MakeProducer) -> None:
        """C23, C24."""
        async with make(f"127.0.0.1:{free_port()}") as producer:
            assert isinstance(await error_of(producer.send(MESSAGE)), TransportError)


class TestWithoutWaiting:
    async def test_lost_connections_are_tried_again(self, make: MakeProducer, two: Two) -> None:
        """C74: at most twice, on the other broker, and the outcome comes once."""
        for script in two.on_both():
            script.drop()
        async with make(two.a.address) as producer:
            error = await error_of(producer.send_soon(MESSAGE))
            assert isinstance(error, SendFailedError)
            tried = [broker for broker, _ in error.attempts]
            assert (len(tried), tried[0] == tried[2] != tried[1], two.sends()) == (3, True, 3)
            two.b.on(SEND).default()
            assert (await producer.send_soon(MESSAGE)).queue.broker_name == "broker-b"

    async def test_refusal_is_not_tried_again(self, make: MakeProducer, two: Two) -> None:
        """C75."""
        for script in two.on_both():
            script.reply(code=2)
        async with make(two.a.address) as producer:
            assert isinstance(await error_of(producer.send_soon(MESSAGE)), FlowControlError)
        assert two.sends() == 1

    async def test_time_that_is_over_is_told(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C76: on the real clock only that it comes; how late, in test_producer_times."""
        peer.on(SEND).never()
        async with make(peer.address) as producer:
            error = await error_of(producer.send_soon(MESSAGE, timeout_s=1.5))
        assert isinstance(error, CallTimeoutError)
        assert len(peer.requests(SEND)) == 1

    async def test_given_queue_is_tried_again_on_its_broker(self, make: MakeProducer, two: Two) -> None:
        """C77."""
        two.a.on(SEND).drop(times=2).default()
        async with make(two.a.address) as producer:
            receipt = await producer.send_soon(MESSAGE, queue=MessageQueue("T", "broker-a", 1))
        assert receipt.is_ok
        assert (queue_ids(two.a), queue_ids(two.b)) == ([1, 1, 1], [])

    async def test_too_many_on_their_way_are_refused(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C89."""
        peer.on(SEND).never()
        async with make(peer.address, async_in_flight_max=20, send_timeout_s=0.5) as producer:
            waiting = [producer.send_soon(MESSAGE) for _ in range(20)]
            with pytest.raises(OverloadedError, match="async_in_flight_max"):
                producer.send_soon(MESSAGE)
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} <= {CallTimeoutError, SendFailedError}
            peer.on(SEND).default()
            assert (await producer.send_soon(MESSAGE)).is_ok

    async def test_back_pressure_lets_no_more_than_ten_fly(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C90: the eleventh has waited for room until its time was over."""
        peer.on(SEND).never()
        async with make(peer.address, back_pressure=True, back_pressure_count=10) as producer:
            waiting = [producer.send_soon(MESSAGE, timeout_s=2) for _ in range(10)]
            await peer.wait_for(SEND, 10)
            late = await error_of(_soon(producer, 0.2))
            assert isinstance(late, CallTimeoutError)
            assert "room" in str(late)
            assert len(peer.requests(SEND)) == 10
            peer.close_connections()
            peer.on(SEND).default()
            assert all(receipt.is_ok for receipt in await asyncio.gather(*waiting))
            assert (await _soon(producer, 2)).is_ok

    async def test_close_waits_for_what_is_on_its_way(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        script = peer.on(SEND).hold()
        async with make(peer.address) as producer:
            waiting = producer.send_soon(MESSAGE)
            await peer.wait_for(SEND)
            asyncio.get_running_loop().call_later(0.05, script.release)
        assert (await waiting).is_ok

    async def test_bodies_of_a_size_that_fill_the_room_wait_for_it(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C90: bytes count too."""
        script = peer.on(SEND).hold(times=1).default()
        big = Message("T", bytes(700 * 1024))
        options = {"back_pressure": True, "back_pressure_bytes": 1024 * 1024, "compress_over_bytes": 2**30}
        async with make(peer.address, **options) as producer:
            first = producer.send_soon(big)
            await peer.wait_for(SEND)
            second = asyncio.ensure_future(_soon(producer, 3, big))  # noqa: TID251
            await asyncio.sleep(0.05)
            assert len(peer.requests(SEND)) == 1
            script.release()
            assert (await first).is_ok
            assert (await second).is_ok


async def _soon(producer: Sender, timeout_s: float, message: Message = MESSAGE) -> SendReceipt:
    """The blocking one waits for room in the calling thread, which must not be the loop's."""
    if isinstance(producer, BlockingSender):
        future = await asyncio.to_thread(producer.producer.send_soon, message, timeout_s=timeout_s)
        return await asyncio.wrap_future(future)
    return await producer.send_soon(message, timeout_s=timeout_s)


async def test_oneway_message_awaits_no_answer(make: MakeProducer, peer: ScriptedPeer) -> None:
    """C78: not even a refusal, and the connection stays in order."""
    peer.on(SEND).reply(code=1).default()
    async with make(peer.address) as producer:
        await producer.send_oneway(MESSAGE)
        (received,) = await peer.wait_for(SEND)
        assert received.is_oneway
        assert (await producer.send(MESSAGE)).is_ok


class TestMessages:
    @pytest.mark.parametrize("size", [0, 4 * 1024 * 1024 + 1])
    async def test_body_of_no_use_is_refused(self, make: MakeProducer, peer: ScriptedPeer, size: int) -> None:
        """C82."""
        async with make(peer.address) as producer:
            error = await error_of(producer.send(Message("T", bytes(size))))
        assert isinstance(error, InvalidMessageError)
        assert (error.code, peer.requests(SEND)) == (13, [])

    async def test_body_of_exactly_four_mebibytes_is_sent(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C82."""
        async with make(peer.address, compress_over_bytes=2**30) as producer:
            await producer.send(Message("T", bytes(4 * 1024 * 1024)))
        assert [len(received.body) for received in peer.requests(SEND)] == [4 * 1024 * 1024]

    @pytest.mark.parametrize("topic", ["t" * 128, "a b", "", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
    async def test_topic_that_no_broker_takes_is_refused(
        self, make: MakeProducer, peer: ScriptedPeer, topic: str
    ) -> None:
        """C83, C84."""
        async with make(peer.address) as producer:
            peer.forget()
            assert isinstance(await error_of(producer.send(Message(topic, b"x"))), InvalidNameError)
        assert not peer.requests(SEND)
        assert not peer.requests(ROUTE)

    async def test_topic_of_127_characters_is_sent(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C83."""
        peer.route("t" * 127)
        async with make(peer.address) as producer:
            assert (await producer.send(Message("t" * 127, b"x"))).is_ok

    @pytest.mark.parametrize("kind", [None, *CompressionType])
    async def test_long_bodies_are_compressed(
        self, make: MakeProducer, peer: ScriptedPeer, kind: CompressionType | None
    ) -> None:
        """C85, C86: from 4,096 bytes on; the application's message keeps its body."""
        short, long = Message("T", b"s" * 4095), Message("T", b"l" * 4096)
        options = {} if kind is None else {"compression": kind}
        async with make(peer.address, **options) as producer:
            await producer.send(short)
            await producer.send(long)
        raw, packed = peer.requests(SEND)
        assert (raw.header.sys_flag, raw.body) == (0, short.body)
        expected = kind or CompressionType.ZLIB
        assert packed.header.sys_flag == 0x1 | {"LZ4": 0x100, "ZSTD": 0x200, "ZLIB": 0x300}[expected.name]
        assert decompress(packed.body, compression_type(packed.header.sys_flag)) == long.body == b"l" * 4096

    async def test_vip_channel_is_two_ports_below(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C87."""
        async with ScriptedPeer() as vip:
            peer.route("T", {"broker-a": f"127.0.0.1:{vip.port + 2}"})
            async with make(peer.address, vip_channel=True) as producer:
                assert (await producer.send(MESSAGE)).is_ok
                assert (await producer.send_soon(MESSAGE)).is_ok
            assert len(vip.requests(SEND)) == 2

    async def test_delay_level_travels_as_a_property(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        async with make(peer.address) as producer:
            await producer.send(Message("T", b"x", delay_level=3, tags="a", keys=["k1", "k2"]))
        (received,) = peer.requests(SEND)
        properties = parse_properties(received.header.properties)
        assert (properties["DELAY"], properties["TAGS"], properties["KEYS"]) == ("3", "a", "k1 k2")


class TestBatches:
    async def test_three_messages_are_one_request(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C99."""
        messages = [Message("T", b"m%d" % number, tags="a") for number in range(3)]
        async with make(peer.address) as producer:
            receipt = await producer.send(messages)
        (received,) = peer.requests(BATCH)
        assert received.header.batch
        members = decode_batch(received.body, "T")
        assert [member.body for member in members] == [b"m0", b"m1", b"m2"]
        ids = [member.properties["UNIQ_KEY"] for member in members]
        assert receipt.message_id == ",".join(ids)
        assert receipt.message_ids == ids

    async def test_batch_kept_in_one_piece_has_its_own_id(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        place = {"msgId": "P", "queueId": "0", "queueOffset": "0", "batchUniqId": "whatever"}
        peer.on(BATCH).reply(place)
        async with make(peer.address) as producer:
            receipt = await producer.send([MESSAGE, MESSAGE])
        (received,) = peer.requests(BATCH)
        assert receipt.message_id == parse_properties(received.header.properties)["UNIQ_KEY"]

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            [Message("T", b"x"), Message("U", b"x")],
            [Message("T", b"x"), Message("T", b"x", waits_for_store=False)],
            [Message("T", b"x", delay_level=1)],
            [Message("%RETRY%G", b"x")],
        ],
        ids=["empty", "topics", "wait", "delay", "retry"],
    )
    async def test_messages_that_do_not_go_together_are_refused(
        self, make: MakeProducer, peer: ScriptedPeer, messages: list[Message]
    ) -> None:
        """C100."""
        async with make(peer.address) as producer:
            peer.forget()
            assert isinstance(await error_of(producer.send(messages)), InvalidMessageError)
        assert not peer.requests(BATCH)
        assert not peer.requests(ROUTE)

    async def test_batch_that_is_too_big_is_refused(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C101: its members fit, and it does not."""
        async with make(peer.address, message_bytes_max=1000) as producer:
            error = await error_of(producer.send([Message("T", bytes(400))] * 3))
        assert isinstance(error, InvalidMessageError)
        assert error.code == 13


class TestMessageHooks:
    class Mark:
        def __init__(self) -> None:
            self.seen: list[bytes] = []

        def prepare_message(self, message: Message) -> Message:
            self.seen.append(message.body)
            return Message.of(message.topic, message.body, {**message.properties, "mark": "yes"}, message.flag)

    async def test_each_message_is_seen_once_and_another_is_sent(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """However it is sent, and however often that is tried."""
        hook = self.Mark()
        peer.on(SEND).reply(code=ResponseCode.SYSTEM_BUSY).default()
        async with make(peer.address, message_hooks=(hook,)) as producer:
            await producer.send(Message("T", b"1"))
            await producer.send_soon(Message("T", b"2"))
            await producer.send_oneway(Message("T", b"3"))
            await producer.send([Message("T", b"4"), Message("T", b"5")])
        assert hook.seen == [b"1", b"2", b"3", b"4", b"5"]
        sent = peer.requests(SEND)
        assert {parse_properties(one.header.properties)["mark"] for one in sent} == {"yes"}
        assert [one.body for one in sent if one.body != b"3"] == [b"1", b"1", b"2"]
        (batch,) = peer.requests(BATCH)
        assert [one.properties["mark"] for one in decode_batch(batch.body, "T")] == ["yes", "yes"]
