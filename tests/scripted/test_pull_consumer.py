"""What a pull consumer asks, with asyncio and blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketline.client.aio.pull_consumer import PullConsumer
from rocketline.client.consumer.pulls import PullStatus
from rocketline.client.options import Credentials
from rocketline.client.received_message import decode_messages
from rocketline.client.sync.pull_consumer import PullConsumer as BlockingPullConsumer
from rocketline.errors import (
    BrokerNotFoundError,
    ClientError,
    ClosedError,
    FlowControlError,
    NotStartedError,
    RequestTimeoutError,
    TopicNotFoundError,
)
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import PullMessageResponseHeader
from support.clients.consuming import offsets_of

PULL = RequestCode.PULL_MESSAGE
Q0, Q1 = (MessageQueue("T", "broker-a", number) for number in range(2))


class InThread:
    """A blocking consumer whose calls are awaited: the peer lives on the test's loop."""

    def __init__(self, consumer: BlockingPullConsumer) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*arguments: object, **keywords: object) -> object:
            return await asyncio.to_thread(getattr(self._consumer, name), *arguments, **keywords)

        return call


@pytest.fixture(params=["asyncio", "blocking"])
async def consumer(request: pytest.FixtureRequest, peer: ScriptedPeer) -> AsyncIterator[Any]:
    if request.param == "asyncio":
        async with PullConsumer(peer.address, group="g", api_timeout_s=5) as made:
            yield made
    else:
        blocking = BlockingPullConsumer(peer.address, group="g", api_timeout_s=5)
        await asyncio.to_thread(blocking.start)
        yield InThread(blocking)
        await asyncio.to_thread(blocking.close)


async def test_pull_at_once_asks_for_no_wait(peer: ScriptedPeer, consumer: Any) -> None:
    peer.broker.put("T", b"a", b"b", b"c", properties={"TAGS": "new"})
    result = await consumer.pull(Q0, 1, 2, "new || paid")
    assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 3, 3)
    assert offsets_of(result.messages) == [1, 2]
    (pull,) = peer.requests(PULL)
    header = pull.header
    assert (header.queue_offset, header.max_msg_nums, header.sys_flag) == (1, 2, 0b100)
    assert (header.subscription, header.sub_version, header.expression_type) == ("new || paid", 0, "TAG")
    assert pull.ext["ReqT"] == "0"


async def test_pull_that_waits_is_held_by_the_broker(peer: ScriptedPeer, consumer: Any) -> None:
    pulling = asyncio.ensure_future(consumer.pull(Q0, 0, waits=True))  # noqa: TID251
    (pull,) = await peer.wait_for(PULL)
    assert (pull.header.sys_flag, pull.header.suspend_timeout_millis) == (0b110, 20_000)
    peer.broker.put("T", b"late")
    assert [message.body for message in (await pulling).messages] == [b"late"]


async def test_raw_pull_has_the_records_undecoded(peer: ScriptedPeer, consumer: Any) -> None:
    peer.broker.put("T", b"a", b"b")
    raw = await consumer.pull_raw(Q0, 0)
    assert (raw.status, raw.next_offset, raw.offset_delta) == (PullStatus.FOUND, 2, 0)
    assert [message.body for message in decode_messages(raw.body, Q0)] == [b"a", b"b"]


async def test_end_of_the_queue_and_offsets_outside_are_no_errors(peer: ScriptedPeer, consumer: Any) -> None:
    header = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=4, min_offset=1, max_offset=4)
    peer.on(PULL).reply(header, code=ResponseCode.PULL_NOT_FOUND).reply(header, code=ResponseCode.PULL_OFFSET_MOVED)
    first, second = await consumer.pull(Q0, 4), await consumer.pull(Q0, 9)
    assert (first.status, second.status) == (PullStatus.NO_NEW_MESSAGE, PullStatus.OFFSET_ILLEGAL)
    assert (second.next_offset, second.messages) == (4, [])


async def test_refusal_and_silence_raise(peer: ScriptedPeer, consumer: Any) -> None:
    peer.on(PULL).reply(code=ResponseCode.FLOW_CONTROL, remark="later").never()
    with pytest.raises(FlowControlError):
        await consumer.pull(Q0, 0)
    with pytest.raises(RequestTimeoutError):
        await consumer.pull(Q0, 0, timeout_s=0.05)


@pytest.mark.parametrize(("offset", "count"), [(-1, 1), (0, 0)])
async def test_pull_that_cannot_be_is_not_sent(peer: ScriptedPeer, consumer: Any, offset: int, count: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        await consumer.pull(Q0, offset, count)
    assert not peer.requests(PULL)


async def test_unknown_broker_is_looked_for_once(peer: ScriptedPeer, consumer: Any) -> None:
    with pytest.raises(BrokerNotFoundError, match="nobody"):
        await consumer.pull(MessageQueue("T", "nobody", 0), 0)
    assert len(peer.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_offsets_are_fetched_and_updated_by_hand(peer: ScriptedPeer, consumer: Any) -> None:
    assert await consumer.fetch_offset(Q0) == -1
    await consumer.update_offset(Q0, 7)
    assert peer.broker.offsets == {("g", "T", 0): 7}
    assert await consumer.fetch_offset(Q0) == 7
    with pytest.raises(ValueError, match="at least 0"):
        await consumer.update_offset(Q0, -1)


async def test_queues_and_their_bounds_are_asked_of_the_brokers(peer: ScriptedPeer, consumer: Any) -> None:
    peer.broker.min_offsets["T", 0] = 2
    peer.broker.put("T", b"a")
    assert await consumer.queues("T") == {MessageQueue("T", "broker-a", number) for number in range(4)}
    assert (await consumer.min_offset(Q0), await consumer.max_offset(Q0)) == (2, 3)
    assert await consumer.offset_for_time(Q0, 5) == 2
    peer.on(RequestCode.GET_EARLIEST_MSG_STORETIME).reply({"timestamp": "77"})
    assert await consumer.earliest_store_ms(Q0) == 77
    with pytest.raises(TopicNotFoundError):
        await consumer.queues("nowhere")


async def test_consumer_is_no_member_of_its_group(peer: ScriptedPeer, consumer: Any) -> None:
    peer.broker.put("T", b"a")
    await consumer.pull(Q0, 0)
    assert "g" not in peer.broker.members


async def test_several_pulls_are_under_way_on_one_connection(peer: ScriptedPeer) -> None:
    script = peer.on(PULL).hold(times=100)
    peer.broker.put("T", *(b"%d" % number for number in range(96)))
    async with PullConsumer(peer.address, group="g") as consumer:
        pulls = asyncio.gather(*(consumer.pull_raw(Q0, offset) for offset in (0, 32, 64)))
        await peer.wait_for(PULL, 3)
        assert peer.connections_opened == 1
        script.release()
        assert [raw.next_offset for raw in await pulls] == [32, 64, 96]


async def test_blocking_consumer_has_several_pulls_under_way_too(peer: ScriptedPeer) -> None:
    script = peer.on(PULL).hold(times=100)
    peer.broker.put("T", *(b"%d" % number for number in range(64)))

    def begin() -> Any:
        return [blocking.pull_raw_soon(Q0, offset) for offset in (0, 32)]

    blocking = BlockingPullConsumer(peer.address, group="g")
    await asyncio.to_thread(blocking.start)
    futures = await asyncio.to_thread(begin)
    await peer.wait_for(PULL, 2)
    assert peer.connections_opened == 1
    script.release()
    assert [(await asyncio.wrap_future(future)).next_offset for future in futures] == [32, 64]
    await asyncio.to_thread(blocking.close)
    with pytest.raises(ClosedError):
        blocking.pull_raw_soon(Q0, 0)


async def test_requests_of_blocking_pulls_are_signed(peer: ScriptedPeer) -> None:
    peer.broker.put("T", b"a")
    blocking = BlockingPullConsumer(peer.address, group="g", credentials=Credentials("key", "secret"))
    await asyncio.to_thread(blocking.start)
    await asyncio.to_thread(blocking.pull, Q0, 0)
    await asyncio.to_thread(blocking.close)
    assert all(received.ext["AccessKey"] == "key" and received.ext["Signature"] for received in peer.received)


async def test_consumer_runs_between_start_and_close(peer: ScriptedPeer, clock: FakeClock) -> None:
    consumer = PullConsumer(peer.address, group="g", clock=clock)
    with pytest.raises(NotStartedError):
        await consumer.pull(Q0, 0)
    async with consumer:
        with pytest.raises(ClientError, match="started already"):
            await consumer.start()
    await consumer.close()
    with pytest.raises(ClosedError):
        await consumer.pull(Q0, 0)
    blocking = BlockingPullConsumer(peer.address, group="g")
    with pytest.raises(NotStartedError):
        blocking.pull(Q0, 0)
    blocking.close()


async def test_names_have_their_namespace_on_the_wire_alone(clock: FakeClock) -> None:
    """C225."""
    async with ScriptedPeer(clock=clock) as peer:
        peer.route("N%T", queues=1)
        peer.broker.put("N%T", b"x")
        async with PullConsumer(peer.address, group="g", clock=clock, namespace="N") as consumer:
            assert await consumer.queues("T") == {Q0}
            (message,) = (await consumer.pull(Q0, 0)).messages
            assert (message.topic, message.queue) == ("T", Q0)
            await consumer.update_offset(Q0, 1)
            assert peer.broker.offsets == {("N%g", "N%T", 0): 1}
