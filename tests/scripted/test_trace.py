"""What clients that trace write down, when it leaves, and that nothing else waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketline.aio import (
    ConsumeFromWhere,
    ConsumeResult,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketline.client.producer.core import ProducerCore
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.trace import buffer, dispatcher
from rocketline.client.trace.records import NORMAL, TraceKind, TraceRecord, decode_records, encode_sent
from rocketline.errors import ConfigError, ResponseError
from rocketline.model.message import Message
from rocketline.model.names import HALF_TOPIC, TRACE_TOPIC
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import CheckTransactionStateRequestHeader
from rocketline.wire.message_codec import encode_record
from rocketline.wire.properties import parse_properties
from rocketline.wire.recall_handle import RecallHandle
from support.brokers.tables import message as stored
from support.clients.members import until
from support.clients.producers import FLAVOURS, MakeProducer, maker

SEND, BATCH, END = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.END_TRANSACTION
PLACE = {"msgId": "PLACE", "queueId": "1", "queueOffset": "7"}
MESSAGE = Message("T", b"body", tags="new", keys=["k1", "k2"])


@pytest.fixture(params=list(FLAVOURS))
def make(request: pytest.FixtureRequest) -> MakeProducer:
    return maker(request.param)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        peer.route(TRACE_TOPIC, queues=1)
        yield peer


def trace_messages(peer: ScriptedPeer, topic: str = TRACE_TOPIC) -> list[Received]:
    return [sent for sent in peer.requests(SEND) if sent.header.topic == topic]


def traced(peer: ScriptedPeer, topic: str = TRACE_TOPIC) -> list[TraceRecord]:
    records = []
    for sent in trace_messages(peer, topic):
        found, broken = decode_records(sent.body)
        assert broken == 0
        records += found
    return records


def keys(sent: Received) -> list[str]:
    return parse_properties(sent.header.properties)["KEYS"].split()


class TestProducers:
    async def test_record_of_a_send_has_javas_columns(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C124: and names the message by its id and its keys."""
        started_ms = time.time_ns() // 1_000_000
        async with make(peer.address, group="P", trace=True) as producer:
            receipt = await producer.send(MESSAGE)
            await until(lambda: trace_messages(peer) != [])
        (sent,) = trace_messages(peer)
        assert sent.body.endswith(b"\x02")
        columns = sent.body[:-1].decode().split("\x01")
        assert columns[0] == "Pub"
        assert columns[2:9] == ["DefaultRegion", "P", "T", receipt.message_id, "new", "k1 k2", peer.address]
        assert (columns[9], columns[11:]) == ("4", ["0", receipt.offset_message_id, "true"])
        assert started_ms <= int(columns[1]) <= time.time_ns() // 1_000_000
        assert 0 <= int(columns[10]) < 10_000
        time_ms, cost_ms = int(columns[1]), int(columns[10])
        assert sent.body.decode() == encode_sent(
            time_ms, "DefaultRegion", "P", "T", receipt.message_id, "new", "k1 k2", peer.address, 4, cost_ms, NORMAL,
            receipt.offset_message_id, is_ok=True,
        )  # fmt: skip
        assert keys(sent) == [receipt.message_id, "k1", "k2"]
        assert sent.header.producer_group.startswith("_INNER_TRACE_PRODUCER-P-PRODUCE-")

    async def test_records_of_quick_sends_leave_together(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C125: within a second, in two messages at most."""
        async with make(peer.address, trace=True) as producer:
            for _ in range(10):
                await producer.send(MESSAGE)
            last_s = time.monotonic()
            await until(lambda: len(traced(peer)) == 10)
            assert time.monotonic() - last_s < 1
            assert len(trace_messages(peer)) <= 2

    async def test_every_way_to_send_is_noted_but_oneway(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C127."""
        async with make(peer.address, trace=True) as producer:
            receipts = [await producer.send(MESSAGE), await producer.send_soon(Message("T", b"x", delay_level=1))]
            await producer.send_oneway(Message("T", b"oneway"))
            await until(lambda: len(peer.requests(SEND)) >= 3)
        assert [record.message_id for record in traced(peer)] == [receipt.message_id for receipt in receipts]
        assert [record.message_kind for record in traced(peer)] == [0, 3]

    async def test_each_message_of_a_batch_has_its_record(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        peer.on(BATCH).reply({**PLACE, "msgId": "A,B"}).reply({**PLACE, "batchUniqId": "BATCH"})
        batch = [Message("T", b"1", keys=["one"]), Message("T", b"22")]
        async with make(peer.address, trace=True) as producer:
            first = await producer.send(batch)
            await producer.send(batch)
        found = traced(peer)
        assert [record.message_id for record in found[:2]] == first.message_ids
        assert [record.offset_message_id for record in found] == ["A", "B", "PLACE", "PLACE"]
        assert [record.body_bytes for record in found] == [1, 2, 1, 2]
        assert {record.message_id for record in found} < set(keys(trace_messages(peer)[-1])) | set(first.message_ids)

    async def test_messages_that_gathered_are_noted_each(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        async with make(peer.address, trace=True, auto_batch=True) as producer:
            sent = [producer.send_soon(MESSAGE) for _ in range(3)]
            ids = [(await each).message_id for each in sent]
        assert [record.message_id for record in traced(peer)] == ids

    async def test_each_attempt_with_an_answer_is_noted_as_it_went(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """Nothing is noted of one that failed."""
        peer.on(SEND).reply(code=2).reply(PLACE, code=ResponseCode.FLUSH_DISK_TIMEOUT).reply(PLACE).default()
        async with make(peer.address, trace=True, retries_unsafe=True) as producer:
            receipt = await producer.send(MESSAGE)
        assert [(record.message_id, record.is_ok) for record in traced(peer)] == [
            (receipt.message_id, False),
            (receipt.message_id, True),
        ]

    async def test_brokers_region_is_noted_and_its_wish_for_no_trace_obeyed(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        peer.on(SEND).reply({**PLACE, "TRACE_ON": "false"}).reply({**PLACE, "MSG_REGION": "north"}).default()
        async with make(peer.address, trace=True) as producer:
            await producer.send(MESSAGE)
            await producer.send(MESSAGE)
        assert [record.region for record in traced(peer)] == ["north"]

    async def test_names_are_without_namespace_and_the_topic_of_ones_choice_too(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        peer.route("ns%T", queues=1)
        peer.route("mine", queues=1)
        async with make(peer.address, trace=True, trace_topic="mine", namespace="ns") as producer:
            await producer.send(MESSAGE)
        (record,) = traced(peer, "mine")
        assert (record.topic, record.group) == ("T", "P")

    async def test_no_record_is_written_of_records(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        async with make(peer.address, trace=True) as producer:
            await producer.send(Message(TRACE_TOPIC, b"a record of somebody else's\x02"))
            await asyncio.sleep(0.6)
        assert len(trace_messages(peer)) == 1

    async def test_without_a_topic_for_traces_sends_go_on(
        self, make: MakeProducer, peer: ScriptedPeer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """C129: what is lost is counted and told."""
        async with make(peer.address, trace=True, trace_topic="missing") as producer:
            for _ in range(3):
                assert (await producer.send(MESSAGE)).is_ok
        assert "trace records not sent" in caplog.text
        assert "dropped=3" in caplog.text
        assert traced(peer, "missing") == []

    async def test_what_waits_has_left_when_the_producer_is_closed(
        self, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C130."""
        async with make(peer.address, trace=True) as producer:
            ids = [(await producer.send(MESSAGE)).message_id for _ in range(3)]
            started_s = time.monotonic()
        assert time.monotonic() - started_s < 5
        assert [record.message_id for record in traced(peer)] == ids

    async def test_silent_broker_holds_up_no_send_and_the_end_for_a_time(
        self, make: MakeProducer, peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """C129, C130."""
        monkeypatch.setattr(dispatcher, "CLOSE_WAIT_S", 0.2)

        def silent_for_traces(received: Received) -> Command | None:
            return None if received.header.topic == TRACE_TOPIC else response(0, ext=dict(PLACE))

        peer.on(SEND).call(silent_for_traces)
        async with make(peer.address, trace=True) as producer:
            await producer.send(MESSAGE)
            await until(lambda: trace_messages(peer) != [])
            for _ in range(2):
                await producer.send(MESSAGE)
            started_s = time.monotonic()
        assert time.monotonic() - started_s < 3
        assert "dropped=3" in caplog.text

    async def test_records_without_room_are_counted_and_told(
        self, make: MakeProducer, peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(buffer.TraceBuffer.__init__, "__defaults__", (2, buffer.BYTES_MAX))
        async with make(peer.address, trace=True) as producer:
            await asyncio.gather(*(producer.send_soon(MESSAGE) for _ in range(10)))
            await until(lambda: "dropped=8" in caplog.text)
        assert len(traced(peer)) == 2

    async def test_without_trace_nothing_of_it_is_there(self, peer: ScriptedPeer) -> None:
        async with Producer(peer.address, group="P") as producer:
            await producer.send(MESSAGE)
            assert type(producer.core) is ProducerCore
            assert producer.core.trace is None
        assert trace_messages(peer) == []
        with pytest.raises(ConfigError, match="topic 'no topic'"):
            Producer(peer.address, group="P", trace_topic="no topic")
        with pytest.raises(ConfigError, match="trace_topic 'no topic'"):
            PushConsumer(peer.address, group="P", trace_topic="no topic")

    async def test_runtime_that_is_closed_ends_the_producer_of_traces_too(self, peer: ScriptedPeer) -> None:
        """Though nobody closes the client: its records leave, and its connections are closed."""
        async with ClientRuntime.at(peer.address) as runtime:
            producer = Producer(group="P", runtime=runtime, trace=True)
            await producer.start()
            receipt = await producer.send(MESSAGE)
        assert [record.message_id for record in traced(peer)] == [receipt.message_id]
        await until(lambda: not peer.connections)
        await producer.close()

    @pytest.mark.parametrize(("is_traced", "records"), [(True, [TraceKind.RECALLED]), (False, [])])
    async def test_recalls_are_noted_if_wished(
        self, make: MakeProducer, peer: ScriptedPeer, is_traced: bool, records: list[TraceKind]
    ) -> None:
        peer.on(RequestCode.RECALL_MESSAGE).reply({"msgId": "ID"}).reply(code=1)
        handle = RecallHandle("T", "broker-a", 1, "ID").encode()
        async with make(peer.address, trace=True, trace_recalls=is_traced) as producer:
            assert await producer.recall("T", handle) == "ID"
            with pytest.raises(ResponseError):
                await producer.recall("T", handle)
        assert [(record.kind, record.message_id, record.topic) for record in traced(peer)] == [
            (kind, "ID", "T") for kind in records
        ]


class TestTransactions:
    @pytest.mark.parametrize(
        ("state", "name"),
        [
            (TransactionState.COMMIT, "COMMIT_MESSAGE"),
            (TransactionState.ROLLBACK, "ROLLBACK_MESSAGE"),
            (TransactionState.UNKNOWN, "UNKNOW"),
        ],
    )
    async def test_end_is_noted_by_its_state(self, peer: ScriptedPeer, state: TransactionState, name: str) -> None:
        """C131."""
        async with TransactionProducer(peer.address, group="P", check=lambda _: state, trace=True) as producer:
            receipt = await producer.send_in_transaction(MESSAGE, lambda _: state)
        half, ended = traced(peer)
        assert (half.kind, half.message_kind, half.message_id) == (TraceKind.SENT, 1, receipt.transaction_id)
        assert (ended.kind, ended.message_kind, ended.state, ended.is_check) == (
            TraceKind.TRANSACTION_ENDED, 2, name, False,
        )  # fmt: skip
        assert (ended.message_id, ended.transaction_id) == (
            receipt.transaction_id,
            receipt.receipt.transaction_id or receipt.transaction_id,
        )
        assert (ended.region, ended.topic, ended.keys, ended.address) == ("DefaultRegion", "T", "k1 k2", peer.address)

    async def test_answer_to_a_question_is_noted_unless_the_message_is_not_to_be_traced(
        self, peer: ScriptedPeer
    ) -> None:
        """C128, C131."""
        header = CheckTransactionStateRequestHeader(
            topic=HALF_TOPIC, tran_state_table_offset=7, commit_log_offset=4711, transaction_id="K", target_broker="b"
        )
        check = TransactionState.COMMIT
        async with TransactionProducer(peer.address, group="P", check=lambda _: check, trace=True) as producer:
            await producer.send(Message("T", b"hello"))
            for wish in ("false", "true"):
                half = stored(
                    "T", b"half", UNIQ_KEY=wish, TRACE_ON=wish, PGROUP="P", TRAN_MSG="true", MSG_REGION="north"
                )
                await peer.tell(RequestCode.CHECK_TRANSACTION_STATE, header, encode_record(half))
            await peer.wait_for(END, 2)
        _, ended = traced(peer)
        assert (ended.message_id, ended.transaction_id, ended.is_check, ended.region, ended.state) == (
            "true", "K", True, "north", "COMMIT_MESSAGE",
        )  # fmt: skip


class TestConsumers:
    @staticmethod
    async def consume(peer: ScriptedPeer, handler: Any, **options: Any) -> None:
        """Until the handler was called."""
        seen = asyncio.Event()

        async def handle(message: Any) -> Any:
            seen.set()
            return handler(message)

        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = PushConsumer(peer.address, group="g", trace=True, consume_from=first, **options)
        consumer.subscribe("T", "*", handle)
        async with consumer:
            await asyncio.wait_for(seen.wait(), 10)

    @pytest.mark.parametrize(
        ("outcome", "return_type", "is_ok"),
        [
            (None, "SUCCESS", True),
            (ConsumeResult.RETRY_LATER, "FAILED", False),
            (KeyError("no"), "EXCEPTION", False),
            ("nothing known", "RETURNNULL", False),
        ],
    )
    async def test_call_of_a_handler_is_noted_before_and_after(
        self, peer: ScriptedPeer, outcome: object, return_type: str, is_ok: bool
    ) -> None:
        """C126: 0 is success, 4 RECONSUME_LATER, 2 an exception."""

        def handle(message: ReceivedMessage) -> object:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        peer.broker.put("T", b"one", properties={"UNIQ_KEY": "ID", "KEYS": "k1", "MSG_REGION": "north"})
        await self.consume(peer, handle)
        begun, ended = traced(peer)
        assert (begun.kind, begun.region, begun.group, begun.message_id, begun.retries, begun.keys) == (
            TraceKind.BEGUN, "north", "g", "ID", 0, "k1",
        )  # fmt: skip
        assert (ended.kind, ended.return_type, ended.is_ok, ended.group) == (
            TraceKind.CONSUMED, return_type, is_ok, "g",
        )  # fmt: skip
        assert begun.request_id == ended.request_id
        assert len(begun.request_id) in (32, 56)
        code = {"SUCCESS": "0", "EXCEPTION": "2", "RETURNNULL": "3", "FAILED": "4"}[return_type]
        assert f"\x01k1\x01{code}\x01".encode() in b"".join(sent.body for sent in trace_messages(peer))

    async def test_messages_that_are_not_to_be_traced_are_left_out(self, peer: ScriptedPeer) -> None:
        """C128: also of a call with others, whose time is shared out among all."""
        for number, wish in enumerate(("false", "true", "false")):
            peer.broker.put("T", b"one", properties={"UNIQ_KEY": f"ID{number}", "TRACE_ON": wish})
        await self.consume(peer, lambda messages: None, consume_batch_max=8)
        assert [(record.kind, record.message_id) for record in traced(peer)] == [
            (TraceKind.BEGUN, "ID1"),
            (TraceKind.CONSUMED, "ID1"),
        ]

    async def test_orderly_handlers_are_noted_too(self, peer: ScriptedPeer) -> None:
        peer.broker.put("T", b"one", properties={"UNIQ_KEY": "ID"})
        await self.consume(peer, lambda message: None, orderly=True)
        assert [record.kind for record in traced(peer)] == [TraceKind.BEGUN, TraceKind.CONSUMED]


async def test_records_leave_by_the_clock_of_the_client(clock: FakeClock) -> None:
    async with ScriptedPeer(clock=clock) as peer:
        peer.route("T", queues=1)
        peer.route(TRACE_TOPIC, queues=1)
        async with Producer(peer.address, group="P", clock=clock, trace=True) as producer:
            await producer.send(MESSAGE)
            assert trace_messages(peer) == []
            clock.advance(1.0)
            await until(lambda: trace_messages(peer) != [])
