"""Pulls over real connections, with the hot path in front of the handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.server import Broker
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import encode
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import consumer, heartbeat
from support.brokers.messages import create_topic, send
from support.brokers.pulls import COMMIT, SUBSCRIPTION, SUSPEND, bodies, pull
from support.brokers.running import BrokerPeer, broker

WAITING = SUBSCRIPTION | SUSPEND


@asynccontextmanager
async def scene(*, clock: FakeClock | None = None, **settings: str) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    """A broker with the topic T, and one peer of it."""
    async with broker(clock=clock, files=None, **settings) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=2)
        yield running, peer


async def ask(peer: BrokerPeer, request: Command) -> Command:
    return await peer.request(request, 20)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something to happen in the broker; the test's timeout is the bound."""
    while not is_so():  # noqa: ASYNC110  # the broker has no event for it
        await asyncio.sleep(0.001)


async def test_refusals_have_the_codes_of_apache() -> None:
    """S105, S106, S107, S108."""
    async with scene() as (_, peer):
        assert (await ask(peer, pull(topic="unknown"))).code == 17
        assert (await ask(peer, pull(queueId="2"))).code == 29
        assert (await ask(peer, pull(flags=0))).code == 24
        await peer.request(heartbeat("c", consumer("g", SubscriptionData("T", sub_version=5))), 5)
        assert (await ask(peer, pull(flags=0, subVersion="5"))).code == 19
        assert (await ask(peer, pull(flags=0, subVersion="6"))).code == 25
        assert (await ask(peer, pull(flags=0, topic="TBW102"))).code == 24
        disabled = SubscriptionGroupConfig("g", consume_enable=False)
        await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(disabled))
        assert (await ask(peer, pull())).code == 16


async def test_pull_with_its_own_expression_needs_no_heartbeat() -> None:
    """S109, S110."""
    async with scene() as (_, peer):
        assert (await ask(peer, pull(0))).code == 19
        moved = await ask(peer, pull(5))
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "0")


async def test_messages_come_from_any_offset_that_exists() -> None:
    """S111, S112, S125."""
    async with scene() as (_, peer):
        for number in range(5):
            await send(peer, b"%d" % number)
        first = await ask(peer, pull(1, maxMsgNums="3"))
        assert bodies(first) == [b"1", b"2", b"3"]
        again = await ask(peer, pull(1, maxMsgNums="3"))
        assert (again.ext, again.body) == (first.ext, first.body)
        assert (first.ext["nextBeginOffset"], first.ext["minOffset"], first.ext["maxOffset"]) == ("4", "0", "5")
        assert first.ext["suggestWhichBrokerId"] == "0"
        at_end, beyond = await ask(peer, pull(5)), await ask(peer, pull(6))
        assert (at_end.code, at_end.ext["nextBeginOffset"]) == (19, "5")
        assert (beyond.code, beyond.ext["nextBeginOffset"]) == (21, "5")


async def test_limits_of_a_pull_are_those_of_the_settings_and_at_least_one_message() -> None:
    """S112."""
    limits = {"maxTransferCountOnMessageInMemory": "32", "maxTransferBytesOnMessageInMemory": "262144"}
    async with scene(clock=None, **limits) as (_, peer):
        for _ in range(40):
            await send(peer)
        await send(peer, bytes(300_000), queue_id=1)
        assert len(bodies(await ask(peer, pull(0, maxMsgNums="100")))) == 32
        assert len(bodies(await ask(peer, pull(0, queueId="1")))) == 1


async def test_tags_choose_messages_and_move_the_consumer_on() -> None:
    """S113, S114."""
    async with scene() as (_, peer):
        for tag in ("A", "C", "B", "C"):
            await send(peer, tag.encode(), TAGS=tag)
        assert bodies(await ask(peer, pull(0, subscription="A || B"))) == [b"A", b"B"]
        none = await ask(peer, pull(0, subscription="D"))
        assert (none.code, none.ext["nextBeginOffset"], none.body) == (20, "4", b"")


async def test_waiting_pull_is_answered_by_the_message_it_wants() -> None:
    """S115, S120."""
    async with scene() as (running, peer), BrokerPeer(running.address) as producer:
        waiting = asyncio.gather(
            ask(peer, pull(0, flags=WAITING | COMMIT, commitOffset="3", subscription="A")),
            ask(peer, pull(0, flags=WAITING)),
        )
        await until(lambda: len(running.services.held) == 2)
        asked = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "3"
        await send(producer, b"new", TAGS="A")
        assert [bodies(answer) for answer in await waiting] == [[b"new"], [b"new"]]


async def test_waiting_pull_ends_with_its_time(clock: FakeClock) -> None:
    """S116, S117, S119."""
    async with scene(clock=clock) as (running, peer):
        waiting = asyncio.gather(ask(peer, pull(0, flags=WAITING)))
        await until(lambda: len(running.services.held) == 1)
        clock.advance(14.9)
        assert (await ask(peer, pull(0))).code == 19
        assert len(running.services.held) == 1
        clock.advance(0.2)
        (answer,) = await waiting
        assert (answer.code, len(running.services.held)) == (19, 0)


async def test_message_with_another_tag_ends_the_wait_by_and_by(clock: FakeClock) -> None:
    """S118."""
    async with scene(clock=clock) as (running, peer), BrokerPeer(running.address) as producer:
        waiting = asyncio.gather(ask(peer, pull(0, flags=WAITING, subscription="A")))
        await until(lambda: len(running.services.held) == 1)
        await send(producer, TAGS="B")
        assert len(running.services.held) == 1
        clock.advance(5)
        (answer,) = await waiting
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "1")


async def test_permission_of_the_broker_and_of_the_group_count() -> None:
    """S122, S123."""
    async with scene() as (_, peer):
        await peer.request(heartbeat("c", consumer("g", "T")), 5)
        forbid = {"group": "g", "topic": "T", "readable": "false"}
        await peer.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid)
        assert (await ask(peer, pull(flags=0))).code == 16
        assert (await ask(peer, pull())).code == 19
        await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2\n")
        assert (await ask(peer, pull())).code == 16


async def test_consumer_far_behind_is_sent_to_a_replica_if_those_may_be_read() -> None:
    """S121."""
    async with scene(clock=None, slaveReadEnable="true", accessMessageInMemoryMaxRatio="0") as (_, peer):
        for _ in range(2):
            await send(peer)
        assert (await ask(peer, pull(0, maxMsgNums="1"))).ext["suggestWhichBrokerId"] == "1"


async def test_pulls_of_a_connection_that_closes_are_forgotten(clock: FakeClock) -> None:
    async with scene(clock=clock) as (running, _):
        async with BrokerPeer(running.address) as leaver:
            waiting = [asyncio.gather(ask(leaver, pull(0, flags=WAITING)), return_exceptions=True) for _ in range(10)]
            await until(lambda: len(running.services.held) == 10)
        await asyncio.gather(*waiting)
        await until(lambda: len(running.services.held) == 0)


async def test_heartbeat_with_new_tags_counts_for_the_next_pull() -> None:
    """What the hot path remembers of a consumer goes with the heartbeat it came from."""
    async with scene() as (_, peer):
        for tag in ("A", "B"):
            await send(peer, tag.encode(), TAGS=tag)
        for version, tag in enumerate(("A", "B", "A"), 1):
            subscription = SubscriptionData("T", tag, [tag], [tags_code(tag)], sub_version=version)
            await peer.request(heartbeat("c", consumer("g", subscription)), 5)
            for _ in range(2):
                assert bodies(await ask(peer, pull(0, flags=0))) == [tag.encode()]


@pytest.mark.parametrize("field", ["queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion"])
async def test_number_that_is_none_is_an_error_that_names_it(field: str) -> None:
    async with scene() as (_, peer):
        request = pull()
        request.ext[field] = "many"
        answer = await ask(peer, request)
        assert answer.code == 1
        assert field in str(answer.remark)
        assert (await ask(peer, pull())).code == 19
