"""What clients say if the address of a name server is somebody else's, or if the name server refuses to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rocketline.aio import Admin, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer
from rocketline.errors import (
    NameServerNotReadyError,
    NoPermissionError,
    NotNameServerError,
    TopicNotFoundError,
)
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode, ResponseCode
from support.clients.members import until

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def _send(address: str) -> None:
    async with Producer(address, group="g") as producer:
        await producer.send(Message("T", b"x"))


async def _pull(address: str) -> None:
    async with PullConsumer(address, group="g") as consumer:
        await consumer.pull(MessageQueue("T", "broker-a", 0), 0)


async def _poll(address: str) -> None:
    consumer = LitePullConsumer(address, group="g")
    consumer.subscribe("T")
    await consumer.start()


async def _push(address: str) -> None:
    consumer = PushConsumer(address, group="g")
    consumer.subscribe("T", "*", print)
    await consumer.start()


async def _list(address: str) -> None:
    async with Admin(address) as admin:
        await admin.topics.route("T")


@pytest.mark.parametrize("use", [_send, _pull, _poll, _push, _list])
async def test_a_brokers_address_is_not_a_topic_that_is_missing(
    peer: ScriptedPeer, use: Callable[[str], Awaitable[None]]
) -> None:
    """Apache's brokers answer so, by AdminBrokerProcessor, and ours."""
    peer.on(ROUTE).reply(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type 105 not supported")
    with pytest.raises(NotNameServerError, match=f"{peer.address} is no name server.*probably a broker.*9876"):
        await use(peer.address)


async def test_an_address_that_is_none_is_passed_over(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with ScriptedPeer(clock=clock) as broker:
        broker.on(ROUTE).reply(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        for _ in range(4):  # whichever of them is asked first
            async with PullConsumer([peer.address, broker.address], group="g") as consumer:
                assert len(await consumer.queues("T")) == 4


async def test_a_refusal_is_told_by_its_code(peer: ScriptedPeer) -> None:
    peer.on(ROUTE).reply(code=ResponseCode.NO_PERMISSION, remark="not for you")
    for use in (_send, _pull, _poll, _push):
        with pytest.raises(NoPermissionError, match="code 16: not for you"):
            await use(peer.address)


NOT_NOW = [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY]
"""A name server that has just started says 1: it is not ready. The topic may well be there."""


@pytest.mark.parametrize("code", NOT_NOW)
async def test_a_name_server_that_is_not_ready_is_not_a_topic_that_is_missing(peer: ScriptedPeer, code: int) -> None:
    peer.on(ROUTE).reply(code=code, remark="name server not ready")
    for use in (_send, _pull):
        with pytest.raises(NameServerNotReadyError, match=rf"'T' is \(code {code}: name server not ready\)"):
            await use(peer.address)


@pytest.mark.parametrize("code", NOT_NOW)
async def test_the_route_that_is_known_serves_while_a_name_server_is_not_ready(peer: ScriptedPeer, code: int) -> None:
    async with PullConsumer(peer.address, group="g") as consumer:
        known = await consumer.queues("T")
        peer.on(ROUTE).reply(code=code)
        assert await consumer.queues("T") == known


@pytest.mark.parametrize("code", NOT_NOW)
@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_consumers_start_and_wait_for_a_name_server_that_is_not_ready(
    kind: type, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Java, if not for as long."""
    monkeypatch.setattr("rocketline.client.runtime.rebalance_timer.PERIOD_S", 0.2)
    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        peer.on(ROUTE).reply(code=code)
        consumer = kind(peer.address, group="g", route_period_s=0.05)
        consumer.subscribe("T", *(("*", print) if kind is PushConsumer else ()))
        async with consumer:
            peer.on(ROUTE)  # answers from now on
            await until(lambda: bool(consumer.queues if kind is PushConsumer else consumer.assignment()))


async def test_a_topic_is_missing_if_the_name_server_says_so(peer: ScriptedPeer) -> None:
    peer.on(ROUTE).reply(code=ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(TopicNotFoundError):
        await _send(peer.address)
