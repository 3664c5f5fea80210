"""The blocking lite pull consumer: its threads, its listeners, and what it must not be used for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

import pytest

from rocketline.client.aio.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from rocketline.client.lite_pull.options import LitePullKeywords
from rocketline.client.sync.lite_pull_consumer import LitePullConsumer
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.errors import ClientError, ClosedError, ConnectError, ForkedError, NotStartedError, WrongLoopError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from support.clients.consuming import offsets_of
from support.clients.members import in_background, until

Q0 = MessageQueue("T", "broker-a", 0)
Q1 = MessageQueue("T", "broker-a", 1)
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
in_thread = asyncio.to_thread


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    """A name server and broker in one, which has the topic T. A blocking consumer lives by the real clock."""
    async with ScriptedPeer() as peer:
        peer.route("T")
        yield peer


@asynccontextmanager
async def started(peer: ScriptedPeer, **options: Unpack[LitePullKeywords]) -> AsyncIterator[LitePullConsumer]:
    options.setdefault("consume_from", FIRST)
    consumer = LitePullConsumer(peer.address, group="g", **options)
    await in_thread(consumer.start)
    try:
        yield consumer
    finally:
        await in_thread(consumer.close)


async def test_messages_are_polled_and_iterated_in_any_thread(peer: ScriptedPeer) -> None:
    peer.broker.put("T", *(b"%d" % number for number in range(25)))
    async with started(peer, auto_commit=False) as consumer:
        consumer_queues = await in_thread(consumer.queues, "T")
        assert Q0 in consumer_queues
        await in_thread(consumer.assign, [Q0])
        assert offsets_of(await in_thread(consumer.poll, 5)) == list(range(10))
        assert [(await in_thread(next, consumer)).queue_offset for _ in range(3)] == [10, 11, 12]
        await in_thread(consumer.commit, is_persisted=True)
        await until(lambda: peer.broker.offsets == {("g", "T", 0): 13})
        assert offsets_of(await in_thread(consumer.poll, 5)) == list(range(13, 20))
        await in_thread(consumer.seek, Q0, 24)
        assert offsets_of(await in_thread(consumer.poll, 5)) == [24]
        assert await in_thread(consumer.poll, 0) == []


async def test_poll_that_waits_in_a_thread_is_woken(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(peer) as consumer:
        await in_thread(consumer.assign, [Q0])
        await peer.wait_for(RequestCode.LITE_PULL_MESSAGE)
        polling = in_background(lambda: consumer.poll(30))
        peer.broker.put("T", b"late")
        assert [message.body for message in await polling] == [b"late"]
        waiting, wait = threading.Semaphore(0), consumer._queues.wait

        def noted(timeout_s: float) -> bool:
            waiting.release()
            return wait(timeout_s)

        monkeypatch.setattr(consumer._queues, "wait", noted)
        iterating = in_background(lambda: list(consumer))
        await in_thread(waiting.acquire)
        polling = in_background(lambda: consumer.poll(30))
        for _ in range(2):  # the first may be the iteration's again, which has waited for half a second
            await in_thread(waiting.acquire)
        await in_thread(consumer.close)
        assert (await polling, await iterating) == ([], [])


async def test_listeners_run_in_a_thread_and_may_call_the_consumer(peer: ScriptedPeer) -> None:
    told: list[int] = []

    def listener(topic: str, queues: object, mine: object) -> None:
        told.append(consumer.committed(Q0))  # on the loop's own thread this would raise

    consumer = LitePullConsumer(peer.address, group="g", queue_listener=listener)
    consumer.subscribe("T")
    await in_thread(consumer.start)
    await until(lambda: bool(told))
    await in_thread(consumer.close)
    assert told == [-1]


async def test_topic_that_is_watched_in_a_thread(peer: ScriptedPeer) -> None:
    told: list[int] = []
    async with started(peer, topic_check_period_s=0.05) as consumer:
        await in_thread(consumer.watch_queues, "T", lambda topic, queues: told.append(len(queues)))
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        await in_thread(consumer.queues, "T")
        peer.route("T", queues=6)
        await in_thread(consumer.watch_queues, "T", lambda topic, queues: None)  # looks at once
        await until(lambda: told == [6])


async def test_subscription_is_shared_by_rebalances(peer: ScriptedPeer) -> None:
    peer.broker.put("T", b"a")
    async with started(peer) as consumer:
        await in_thread(consumer.subscribe, "T")
        assert [message.body for message in await in_thread(consumer.poll, 10)] == [b"a"]
        assert len(consumer.assignment()) == 4
        with pytest.raises(ClientError, match="by subscribe"):
            await in_thread(consumer.assign, [Q0])
        await in_thread(consumer.unsubscribe, "T")
        assert consumer.assignment() == set()


async def test_automatic_commit_goes_by_the_loop(peer: ScriptedPeer) -> None:
    peer.broker.put("T", b"a")
    async with started(peer, auto_commit_period_s=1.0, offset_persist_period_s=0.05) as consumer:
        await in_thread(consumer.assign, [Q0, Q1])
        assert len(await in_thread(consumer.poll, 5)) == 1
        # Commits are made by polls; the first saving is ten seconds after the start, so ask memory.
        async with asyncio.timeout(10):
            while await in_thread(consumer.committed, Q0) != 1:
                await in_thread(consumer.poll, 0.05)


async def test_consumers_share_a_runtime_and_its_connections(peer: ScriptedPeer) -> None:
    runtime = ClientRuntime.at(peer.address)

    def share() -> None:
        with (
            runtime,
            LitePullConsumer(group="one", runtime=runtime, consume_from=FIRST) as one,
            LitePullConsumer(group="two", runtime=runtime, consume_from=FIRST) as two,
        ):
            for consumer in (one, two):
                consumer.assign([Q0])
                assert len(consumer.poll(5)) == 1

    peer.broker.put("T", b"a")
    await in_thread(share)
    assert peer.connections_opened == 1


async def test_start_that_fails_leaves_no_thread(peer: ScriptedPeer) -> None:
    address = peer.address
    await peer.stop()
    consumer = LitePullConsumer(address, group="g")
    consumer.subscribe("T")
    with pytest.raises(ConnectError):
        await in_thread(consumer.start)
    with pytest.raises(ClosedError):
        consumer.poll(0)


async def test_calls_before_the_start_and_after_the_end_say_so(peer: ScriptedPeer) -> None:
    consumer = LitePullConsumer(peer.address, group="g")
    for call in (consumer.poll, consumer.commit, lambda: next(consumer), lambda: consumer.committed(Q0)):
        with pytest.raises(NotStartedError):
            call()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll()
    assert list(consumer) == []


async def test_poll_in_a_forked_child_says_so(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(peer) as consumer:
        with monkeypatch.context() as patch:
            parent = os.getpid()
            patch.setattr(os, "getpid", lambda: parent + 1)
            with pytest.raises(ForkedError, match="after the fork"):
                consumer.poll(1)


async def test_asyncio_consumer_in_another_loop_says_so(peer: ScriptedPeer) -> None:
    async with AsyncLitePullConsumer(peer.address, group="g") as consumer:

        def elsewhere() -> None:
            asyncio.run(consumer.poll(1))

        with pytest.raises(WrongLoopError, match="another event loop"):
            await in_thread(elsewhere)


async def test_messages_that_were_pulled_before_a_fork_are_the_parents(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.broker.put("T", b"a", b"b")
    async with started(peer) as consumer:
        await in_thread(consumer.assign, [Q0])
        assert (await in_thread(next, consumer)).body == b"a"
        with monkeypatch.context() as patch:
            parent = os.getpid()
            patch.setattr(os, "getpid", lambda: parent + 1)
            for call in (lambda: consumer.poll(0), lambda: next(consumer)):
                with pytest.raises(ForkedError, match="after the fork"):
                    call()


async def test_messages_are_handed_on_by_the_consumers_own_loop_alone(peer: ScriptedPeer) -> None:
    peer.broker.put("T", b"a", b"b")
    async with AsyncLitePullConsumer(peer.address, group="g", consume_from=FIRST) as consumer:
        consumer.assign([Q0])
        await anext(consumer)
        for use in (lambda: asyncio.run(consumer.poll(1)), lambda: consumer.assign([Q1])):
            with pytest.raises(WrongLoopError, match="another event loop"):
                await in_thread(use)
