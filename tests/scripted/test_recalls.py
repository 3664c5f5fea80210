"""Producers of both flavours that call timer messages back, at brokers that answer as they are told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketline.errors import InvalidMessageError, InvalidNameError, ResponseError
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.recall_handle import RecallHandle
from support.clients.producers import FLAVOURS, MakeProducer, error_of, maker

RECALL, ROUTE = RequestCode.RECALL_MESSAGE, RequestCode.GET_ROUTEINFO_BY_TOPIC
DUE_MS = 1_900_000_000_001


@pytest.fixture(params=list(FLAVOURS))
def make(request: pytest.FixtureRequest) -> MakeProducer:
    return maker(request.param)


@pytest.fixture
async def two() -> AsyncIterator[tuple[ScriptedPeer, ScriptedPeer]]:
    """Two brokers of the topic T, of which the first is the name server too."""
    async with ScriptedPeer() as first, ScriptedPeer(broker_name="broker-b") as second:
        first.route("T", {"broker-a": first, "broker-b": second})
        yield first, second


@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "%DLQ%g", "no topic"])
@pytest.mark.parametrize("handle", ["garbage", "", "djI=", RecallHandle("Other", "broker-a", DUE_MS, "K").encode()])
async def test_handle_that_is_none_raises_and_nothing_is_sent(
    two: tuple[ScriptedPeer, ScriptedPeer], make: MakeProducer, topic: str, handle: str
) -> None:
    """C121."""
    async with make(two[0].address) as producer:
        error = await error_of(producer.recall(topic, handle))
        assert isinstance(error, InvalidMessageError if topic == "T" else InvalidNameError)
        assert not any(peer.requests(code) for peer in two for code in (RECALL, ROUTE))


@pytest.mark.parametrize("broker_name", ["broker-a", "broker-b"])
async def test_the_broker_that_the_handle_names_is_asked(
    two: tuple[ScriptedPeer, ScriptedPeer], make: MakeProducer, broker_name: str
) -> None:
    """C121."""
    asked, other = two if broker_name == "broker-a" else two[::-1]
    asked.on(RECALL).reply({"msgId": "K"})
    handle = RecallHandle("T", broker_name, DUE_MS, "K").encode()
    async with make(two[0].address, group="g") as producer:
        assert await producer.recall("T", handle) == "K"
        (request,) = asked.requests(RECALL)
        assert {name: request.ext[name] for name in ("topic", "recallHandle", "producerGroup")} == {
            "topic": "T",
            "recallHandle": handle,
            "producerGroup": "g",
        }
        assert not other.requests(RECALL)


async def test_a_broker_that_nobody_knows_is_asked_for_at_another(
    two: tuple[ScriptedPeer, ScriptedPeer], make: MakeProducer
) -> None:
    """It can tell what is wrong with the handle."""
    for peer in two:
        peer.on(RECALL).reply(code=ResponseCode.ILLEGAL_OPERATION, remark="another broker's")
    async with make(two[0].address) as producer:
        error = await error_of(producer.recall("T", RecallHandle("T", "broker-z", DUE_MS, "K").encode()))
        assert isinstance(error, ResponseError)
        assert error.code == ResponseCode.ILLEGAL_OPERATION
        assert sum(len(peer.requests(RECALL)) for peer in two) == 1
