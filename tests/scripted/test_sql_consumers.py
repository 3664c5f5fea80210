"""Consumers that subscribe by SQL: what they ask before they start, and what they make of the answers."""

from __future__ import annotations

import pytest

from rocketline.aio import LitePullConsumer, PushConsumer, by_sql
from rocketline.errors import InvalidFilterError
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.codes import RequestCode
from support.clients.members import settled

CHECK = RequestCode.CHECK_CLIENT_CONFIG


async def take(message: object) -> None:
    pass


def push_consumer(peer: ScriptedPeer, clock: FakeClock) -> PushConsumer:
    consumer = PushConsumer(peer.address, group="C", clock=clock)
    consumer.subscribe("T", by_sql("a > 5"), take)
    return consumer


def lite_pull_consumer(peer: ScriptedPeer, clock: FakeClock) -> LitePullConsumer:
    consumer = LitePullConsumer(peer.address, group="C", clock=clock)
    consumer.subscribe("T", by_sql("a > 5"))
    return consumer


@pytest.mark.parametrize("make", [push_consumer, lite_pull_consumer])
async def test_expression_is_checked_by_every_broker_before_the_start_returns(
    peer: ScriptedPeer, clock: FakeClock, make: type[PushConsumer]
) -> None:
    """C48."""
    async with ScriptedPeer(clock=clock, broker_name="broker-b") as other:
        peer.route("T", {"broker-a": peer, "broker-b": other})
        async with make(peer, clock):  # type: ignore[call-arg,arg-type]
            for broker in (peer, other):
                (asked,) = broker.requests(CHECK)
                body = asked.decoded(CheckClientRequestBody)
                assert body.group == "C"
                assert body.subscription_data is not None
                assert body.subscription_data.sub_string == "a > 5"
                assert body.subscription_data.expression_type == "SQL92"


@pytest.mark.parametrize("make", [push_consumer, lite_pull_consumer])
@pytest.mark.parametrize(("code", "advice"), [(23, "no, never"), (1, "enablePropertyFilter=true")])
async def test_refused_expression_fails_the_start(
    peer: ScriptedPeer, clock: FakeClock, make: type[PushConsumer], code: int, advice: str
) -> None:
    """C48."""
    peer.on(CHECK).reply(code=code, remark="no, never")
    with pytest.raises(InvalidFilterError, match=advice) as raised:
        await make(peer, clock).start()  # type: ignore[call-arg,arg-type]
    assert raised.value.code == code
    assert not peer.requests(RequestCode.PULL_MESSAGE)
    assert peer.requests(RequestCode.UNREGISTER_CLIENT)


async def test_broker_that_hangs_up_does_not_stop_the_start(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.on(CHECK).drop()
    async with push_consumer(peer, clock):
        await peer.wait_for(RequestCode.HEART_BEAT)


async def test_pull_header_says_what_kind_of_expression_it_has(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with lite_pull_consumer(peer, clock):
        await settled()
        clock.advance(1)
        (pull,) = (await peer.wait_for(RequestCode.LITE_PULL_MESSAGE))[:1]
        assert (pull.ext["subscription"], pull.ext["expressionType"]) == ("a > 5", "SQL92")
