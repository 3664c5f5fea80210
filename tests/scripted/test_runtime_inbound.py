"""What a runtime answers to brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime import inbound
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.model.ids import QueueOffset
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import bodies, headers
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody, ResetOffsetItem, ResetOffsetList
from rocketline.wire.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import encode_record
from support.brokers.tables import message
from support.clients.members import ConsumerDouble, settled, until

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture
def consumer() -> ConsumerDouble:
    return ConsumerDouble("C", "T")


@asynccontextmanager
async def running(peer: ScriptedPeer, consumer: ConsumerDouble) -> AsyncIterator[ClientRuntime]:
    """A runtime that the peer has heard of, with `consumer` on it."""
    async with ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=peer.clock) as runtime:
        runtime.register_consumer("C", consumer)
        await runtime.update_route("T")
        await runtime.heartbeat_all()
        peer.forget()
        yield runtime


def changed() -> headers.NotifyConsumerIdsChangedRequestHeader:
    return headers.NotifyConsumerIdsChangedRequestHeader(consumer_group="C")


async def test_changed_membership_wakes_the_rebalance(
    peer: ScriptedPeer, clock: FakeClock, consumer: ConsumerDouble
) -> None:
    """C50 (runtime's part): at once, not only after 20 s."""
    async with running(peer, consumer):
        await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, changed())
        await until(lambda: consumer.rebalances == 1)


async def test_changed_membership_is_not_answered(peer: ScriptedPeer, consumer: ConsumerDouble) -> None:
    """C50: no reply is written, though this notice asks for one; one to a later question comes past it."""
    async with running(peer, consumer):
        notice = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.encode(changed()))
        (channel,) = peer.connections
        reply = channel.begin(notice, 30)
        await until(lambda: consumer.rebalances == 1)
        assert (await peer.ask(4711)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert not reply.done()
        assert channel.in_flight == 1
        reply.cancel()


async def test_ten_notifications_bring_about_two_rebalances(
    peer: ScriptedPeer, clock: FakeClock, consumer: ConsumerDouble
) -> None:
    """C51: at most two rebalances run in the next 2 s."""
    async with running(peer, consumer):
        for _ in range(10):
            await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, changed())
            clock.advance(0.01)
            await settled()
        await until(lambda: consumer.rebalances == 1)
        for _ in range(19):
            clock.advance(0.1)
            await settled()
        assert consumer.rebalances == 2


async def test_rebalance_comes_every_20_s_and_every_second_while_unbalanced(
    peer: ScriptedPeer, clock: FakeClock, consumer: ConsumerDouble
) -> None:
    async with running(peer, consumer):
        for _ in range(20):
            assert consumer.rebalances == 0
            clock.advance(1)
            await settled()
        assert consumer.rebalances == 1
        consumer.is_balanced = False
        for _ in range(20):
            clock.advance(1)
            await settled()
        for count in (3, 4, 5):
            clock.advance(1)
            await settled()
            assert consumer.rebalances == count


async def test_member_that_fails_holds_up_none_of_the_others(
    peer: ScriptedPeer, clock: FakeClock, consumer: ConsumerDouble
) -> None:
    """One consumer's rebalance and persistence fail; the other's go on, and both come again."""
    other = ConsumerDouble("D", "T")
    async with running(peer, consumer) as runtime:
        runtime.register_consumer("D", other)
        consumer.failure = ValueError("a fault of the test's")
        runtime.wake_rebalance()
        for _ in range(15):
            clock.advance(1)
            await settled()
    assert other.rebalances == consumer.rebalances >= 14  # as the one never succeeds, both come round every second
    assert other.persists == consumer.persists == 2


async def test_offsets_are_persisted_after_10_s_and_every_5_s(
    peer: ScriptedPeer, clock: FakeClock, consumer: ConsumerDouble
) -> None:
    """C166 (runtime's part)."""
    async with running(peer, consumer):
        clock.advance(9.9)
        await settled()
        assert consumer.persists == 0
        clock.advance(0.1)
        await settled()
        assert consumer.persists == 1
        clock.advance(4.9)
        await settled()
        assert consumer.persists == 1
        clock.advance(0.1)
        await settled()
        assert consumer.persists == 2


@pytest.mark.parametrize("is_with_stacks", [True, False])
async def test_running_info_is_the_members(peer: ScriptedPeer, consumer: ConsumerDouble, is_with_stacks: bool) -> None:
    async with running(peer, consumer) as runtime:
        header = headers.GetConsumerRunningInfoRequestHeader(
            consumer_group="C", client_id=runtime.client_id, jstack_enable=is_with_stacks
        )
        answer = await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert answer.code == ResponseCode.SUCCESS
        assert bodies.decode(ConsumerRunningInfo, answer.body).properties == {"group": "C"}
        assert consumer.asked_for_stacks == [is_with_stacks]


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY])
async def test_group_that_is_not_here_is_answered_with_1(
    peer: ScriptedPeer, consumer: ConsumerDouble, code: RequestCode
) -> None:
    """C54."""
    async with running(peer, consumer) as runtime:
        header = headers.GetConsumerRunningInfoRequestHeader(consumer_group="other", client_id=runtime.client_id)
        answer = await peer.ask(code, header)
        assert (answer.code, answer.remark) == (1, "the consumer group other is not in this client")


async def test_status_lists_the_offsets_of_the_topic(peer: ScriptedPeer, consumer: ConsumerDouble) -> None:
    """C59 (runtime's part); a group that is not here has none."""
    async with running(peer, consumer):
        consumer.offsets = {QUEUE: 7, MessageQueue("other", "broker-a", 0): 8}
        for group, expected in (("C", {QUEUE: 7}), ("unknown", {})):
            header = headers.GetConsumerStatusRequestHeader(topic="T", group=group)
            answer = await peer.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
            assert answer.code == ResponseCode.SUCCESS
            assert bodies.decode(ConsumerStatus, answer.body).message_queue_table == expected


@pytest.mark.parametrize(
    "body",
    [ResetOffsetBody({QUEUE: 5}), ResetOffsetList([ResetOffsetItem("T", "broker-a", 0, 5)])],
    ids=["table", "list for C++"],
)
async def test_reset_reaches_the_member(peer: ScriptedPeer, consumer: ConsumerDouble, body: object) -> None:
    """C57 (runtime's part): both forms of the body; a group that is not here changes nothing."""
    async with running(peer, consumer):
        for group in ("other", "C"):
            header = headers.ResetOffsetRequestHeader(topic="T", group=group, timestamp=0, is_force=True)
            await peer.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        await until(lambda: bool(consumer.resets))
        assert consumer.resets == [("T", {QUEUE: 5})]


class SlowConsumer(ConsumerDouble):
    """Its resets take until it may go on."""

    def __init__(self) -> None:
        super().__init__("C", "T")
        self.go_on = asyncio.Event()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await super().reset_offsets(topic, offsets)
        await self.go_on.wait()


async def consume_directly(peer: ScriptedPeer) -> Command:
    header = headers.ConsumeMessageDirectlyResultRequestHeader(consumer_group="C", broker_name="broker-a")
    return await peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record())


@pytest.mark.parametrize("bytes_max", [2**26, 2000])
async def test_no_more_is_begun_for_brokers_than_a_client_has_room_for(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(inbound, "AT_WORK_BYTES_MAX", bytes_max, raising=False)
    consumer = SlowConsumer()
    async with running(peer, consumer):
        header = headers.ResetOffsetRequestHeader(topic="T", group="C", timestamp=0, is_force=True)
        body = bodies.encode(ResetOffsetBody({QUEUE: 5}))
        for _ in range(257):
            await peer.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        refusal = await consume_directly(peer)
        assert (refusal.code, "done already" in (refusal.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        assert len(consumer.resets) == min(256, bytes_max // len(body))
        consumer.go_on.set()
        await settled()
        assert (await consume_directly(peer)).code == ResponseCode.SUCCESS


def record() -> bytes:
    return encode_record(replace(message("T", b"hello"), queue_offset=QueueOffset(3)))


async def test_message_is_consumed_directly_and_the_result_told(peer: ScriptedPeer, consumer: ConsumerDouble) -> None:
    """C55 (runtime's part)."""
    async with running(peer, consumer):
        header = headers.ConsumeMessageDirectlyResultRequestHeader(consumer_group="C", broker_name="broker-a")
        answer = await peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record())
        assert answer.code == ResponseCode.SUCCESS
        assert bodies.decode(ConsumeMessageDirectlyResult, answer.body).consume_result is CMResult.CR_SUCCESS
        (consumed,) = consumer.consumed
        assert (consumed.topic, consumed.body, consumed.queue_offset) == ("T", b"hello", 3)


async def test_unknown_code_is_answered_with_3(peer: ScriptedPeer, consumer: ConsumerDouble) -> None:
    """C60: with the same opaque, or the peer would not find its request again."""
    async with running(peer, consumer):
        answer = await peer.ask(4711)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, b""),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, record()),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, b"no record"),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, b""),
    ],
)
async def test_handler_that_fails_is_answered_with_1_and_the_connection_stays(
    peer: ScriptedPeer, consumer: ConsumerDouble, code: RequestCode, body: bytes
) -> None:
    """C61."""
    async with running(peer, consumer) as runtime:
        consumer.failure = ValueError("a fault of the test's")
        header = headers.GetConsumerRunningInfoRequestHeader(consumer_group="C", client_id=runtime.client_id)
        answer = await peer.ask(code, header, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark
        assert (await peer.ask(4711)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert len(peer.connections) == 1


async def test_request_without_its_fields_is_answered_with_1(peer: ScriptedPeer, consumer: ConsumerDouble) -> None:
    """C61: what cannot be read is a failure too."""
    async with running(peer, consumer):
        answer = await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "consumerGroup" in (answer.remark or "")
