"""What a producer does in its time, on a clock that the test turns: timeouts, slow brokers, probes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rocketline import Producer as BlockingProducer
from rocketline import PullConsumer as BlockingPullConsumer
from rocketline.aio import Producer, PullConsumer
from rocketline.errors import CallTimeoutError, RequestTimeoutError, RocketlineError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from support.clients.members import settled, until

SEND, PROBE = RequestCode.SEND_MESSAGE_V2, RequestCode.GET_MAX_OFFSET
MESSAGE = Message("T", b"body")
QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture
async def other(clock: FakeClock, peer: ScriptedPeer) -> AsyncIterator[ScriptedPeer]:
    """A second broker of topic T."""
    async with ScriptedPeer(broker_name="broker-b", clock=clock) as other:
        peer.route("T", {"broker-a": peer, "broker-b": other})
        yield other


async def test_call_ends_after_exactly_its_three_seconds(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C67: between 3.0 and 3.6 s, after one attempt."""
    peer.on(SEND).never()
    async with Producer(peer.address, group="P", clock=clock) as producer, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_outcome(producer.send(MESSAGE)))
        await peer.wait_for(SEND)
        clock.advance(2.9)
        await settled()
        assert not sending.done()
        clock.advance(0.11)
        assert isinstance(await sending, CallTimeoutError)
    assert len(peer.requests(SEND)) == 1


async def test_nobody_waits_longer_for_a_message_sent_without_waiting(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C76: with a timeout of 1 s the outcome comes before 3.2 s; here, at once."""
    peer.on(SEND).never()
    async with Producer(peer.address, group="P", clock=clock) as producer:
        soon = producer.send_soon(MESSAGE, timeout_s=1)
        await peer.wait_for(SEND)
        clock.advance(1.01)
        assert isinstance(await _outcome(soon), CallTimeoutError)


async def test_time_of_a_call_counts_while_a_name_server_is_silent(peer: ScriptedPeer, clock: FakeClock) -> None:
    peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).never()
    async with Producer(peer.address, group="P", clock=clock) as producer, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_outcome(producer.send(MESSAGE, timeout_s=0.5)))
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        clock.advance(0.51)
        error = await sending
    assert isinstance(error, CallTimeoutError)
    assert peer.address in str(error)


@pytest.mark.parametrize("way", ["send", "send_soon", "send_oneway", "pull"])
async def test_time_of_a_call_counts_while_a_name_server_is_asked_for_a_given_queue(
    peer: ScriptedPeer, clock: FakeClock, way: str
) -> None:
    """The broker's address is asked for too, and the question would wait for three seconds."""
    peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).never()
    async with (
        Producer(peer.address, group="P", clock=clock, send_timeout_s=0.5) as producer,
        PullConsumer(peer.address, group="G", clock=clock) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "send": lambda: producer.send(MESSAGE, queue=QUEUE),
            "send_soon": lambda: producer.send_soon(MESSAGE, queue=QUEUE),
            "send_oneway": lambda: producer.send_oneway(MESSAGE, queue=QUEUE),
            "pull": lambda: consumer.pull(QUEUE, 0, timeout_s=0.5),
        }
        calling = tasks.create_task(_outcome(calls[way]()))
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        clock.advance(0.51)
        async with asyncio.timeout(5):
            assert isinstance(await calling, CallTimeoutError)


async def test_time_that_a_name_server_took_is_not_the_brokers(peer: ScriptedPeer, clock: FakeClock) -> None:
    """A pull has its time once, not once for each of those it asks."""
    route, pull = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.PULL_MESSAGE
    script = peer.on(route).hold(times=1)
    peer.on(pull).never()
    async with PullConsumer(peer.address, group="G", clock=clock) as consumer, asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(_outcome(consumer.pull(QUEUE, 0, timeout_s=2)))
        await peer.wait_for(route)
        clock.advance(1.5)
        script.release()
        await peer.wait_for(pull)
        clock.advance(0.51)
        async with asyncio.timeout(5):
            assert isinstance(await calling, RequestTimeoutError)


@pytest.mark.parametrize("way", ["send", "send_oneway", "pull"])
async def test_blocking_call_for_a_given_queue_has_its_own_time(way: str) -> None:
    async with ScriptedPeer() as peer:
        peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).never()
        elapsed_s = await asyncio.to_thread(_seconds_of, way, peer.address)
    assert 0.2 <= elapsed_s < 10


def _seconds_of(way: str, address: str) -> float:
    """How long a blocking call takes that may take 0.2 s, where a question for a route may take 30 s."""
    with (
        BlockingProducer(address, group="P", send_timeout_s=0.2, api_timeout_s=30) as producer,
        BlockingPullConsumer(address, group="G", api_timeout_s=30) as consumer,
    ):
        calls: dict[str, Callable[[], object]] = {
            "send": lambda: producer.send(MESSAGE, queue=QUEUE),
            "send_oneway": lambda: producer.send_oneway(MESSAGE, queue=QUEUE),
            "pull": lambda: consumer.pull(QUEUE, 0, timeout_s=0.2),
        }
        started_s = time.monotonic()
        with pytest.raises(CallTimeoutError):
            calls[way]()
        return time.monotonic() - started_s


async def test_time_that_a_message_waited_for_room_is_its_own(peer: ScriptedPeer, clock: FakeClock) -> None:
    options = {"back_pressure": True, "back_pressure_count": 10}
    async with Producer(peer.address, group="P", clock=clock, **options) as producer:  # type: ignore[arg-type]
        await producer.send(MESSAGE)
        script = peer.on(SEND).hold(times=10).never()
        first = [producer.send_soon(MESSAGE, timeout_s=10) for _ in range(10)]
        last = producer.send_soon(MESSAGE, timeout_s=3)
        await peer.wait_for(SEND, 11)
        clock.advance(2.0)
        script.release()
        await asyncio.gather(*first)
        await peer.wait_for(SEND, 12)
        clock.advance(1.01)
        assert isinstance(await _outcome(last), CallTimeoutError)


async def test_limit_for_one_attempt_divides_the_time(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C68: 0.5 s, 0.5 s and the rest of the three seconds."""
    peer.on(SEND).never()
    async with Producer(peer.address, group="P", clock=clock, attempt_timeout_s=0.5) as producer:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(_outcome(producer.send(MESSAGE)))
            for count, seconds in ((1, 0.51), (2, 0.51), (3, 2.0)):
                await peer.wait_for(SEND, count)
                clock.advance(seconds)
        assert isinstance(sending.result(), RocketlineError)
    assert len(peer.requests(SEND)) == 3


class TestSlowBrokers:
    async def test_slow_one_is_left_alone_for_two_seconds(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """C94: it took 600 ms."""
        script = peer.on(SEND).hold(times=1).default()
        async with Producer(peer.address, group="P", clock=clock, avoids_slow_brokers=True) as producer:
            async with asyncio.TaskGroup() as tasks:
                slow = tasks.create_task(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-a")))
                await peer.wait_for(SEND)
                clock.advance(0.6)
                script.release()
            assert slow.result().is_ok
            assert await _brokers(producer, 20) == {"broker-b"}
            clock.advance(1.9)
            assert await _brokers(producer, 20) == {"broker-b"}
            clock.advance(0.2)
            assert await _brokers(producer, 20) == {"broker-a", "broker-b"}

    async def test_lost_one_is_left_alone_for_ten_seconds(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """C95."""
        peer.on(SEND).drop().default()
        async with Producer(peer.address, group="P", clock=clock, avoids_slow_brokers=True) as producer:
            await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-a")))
            clock.advance(9.9)
            assert await _brokers(producer, 20) == {"broker-b"}
            clock.advance(0.2)
            assert await _brokers(producer, 20) == {"broker-a", "broker-b"}

    async def test_messages_go_out_though_all_are_left_alone(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """C96."""
        async with Producer(peer.address, group="P", clock=clock, avoids_slow_brokers=True) as producer:
            for broker in (peer, other):
                broker.on(SEND).drop().default()
            for name in ("broker-a", "broker-b"):
                await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, name)))
            assert await _brokers(producer, 4)

    async def test_failed_one_is_asked_whether_it_is_back(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """C97: about every 3 s."""
        async with _cautious(peer, clock) as producer:
            other.on(SEND).drop().default()
            other.on(PROBE).never()
            await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-b")))
            for count in (1, 2, 3):
                clock.advance(3.01)
                await other.wait_for(PROBE, count)
                clock.advance(0.21)
                await settled()
        assert not peer.requests(PROBE)
        assert all(received.header.queue_id == 0 for received in other.requests(PROBE))

    @pytest.mark.parametrize(("seconds", "is_in_time"), [(0.19, True), (0.21, False)])
    async def test_probe_is_waited_for_200_ms(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock, seconds: float, is_in_time: bool
    ) -> None:
        """C97: an answer after them is none, and the broker stays unreachable until the next probe."""
        async with _cautious(peer, clock) as producer:
            faults = producer.core.faults
            assert faults is not None
            other.on(SEND).drop().default()
            await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-b")))
            assert not faults.is_reachable("broker-b")
            script = other.on(PROBE).hold(times=1).default()
            clock.advance(3.01)
            await other.wait_for(PROBE)
            await settled()
            clock.advance(seconds)
            await settled()
            script.release()
            if not is_in_time:
                await asyncio.sleep(0.05)
                assert not faults.is_reachable("broker-b")
                clock.advance(3.01)
                await other.wait_for(PROBE, 2)
            await until(lambda: faults.is_reachable("broker-b"))

    async def test_one_that_cannot_be_reached_comes_last(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """All are left alone, one of them also does not answer probes; once it does, it is like the other."""
        async with _cautious(peer, clock) as producer:
            faults = producer.core.faults
            assert faults is not None
            other.on(SEND).drop().default()
            await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-b")))
            faults.note("broker-a", 20.0, clock.monotonic())
            assert await _brokers(producer, 10) == {"broker-a"}
            clock.advance(3.01)
            await until(lambda: faults.is_reachable("broker-b"))
            assert await _brokers(producer, 20) == {"broker-a", "broker-b"}

    async def test_without_the_option_a_failed_one_has_its_turn(
        self, peer: ScriptedPeer, other: ScriptedPeer, clock: FakeClock
    ) -> None:
        """C98."""
        peer.on(SEND).drop().default()
        async with Producer(peer.address, group="P", clock=clock) as producer:
            await _outcome(producer.send(MESSAGE, queue=await _queue_of(producer, "broker-a")))
            assert await _brokers(producer, 8) == {"broker-a", "broker-b"}


async def test_topic_sent_to_is_asked_for_every_30_seconds(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C27: also one that was not found."""
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC

    def asked(topic: str) -> int:
        return sum(received.header.topic == topic for received in peer.requests(route))

    async with Producer(peer.address, group="P", clock=clock) as producer:
        await producer.send(MESSAGE)
        await _outcome(producer.send(Message("missing", b"x")))
        before = asked("T"), asked("missing")
        clock.advance(30)
        await until(lambda: (asked("T"), asked("missing")) == (before[0] + 1, before[1] + 1))


def _cautious(peer: ScriptedPeer, clock: FakeClock) -> Producer:
    return Producer(peer.address, group="P", clock=clock, avoids_slow_brokers=True, probes_brokers=True)


async def _outcome(sending: Awaitable[object]) -> object:
    try:
        return await sending
    except RocketlineError as error:
        return error


async def _queue_of(producer: Producer, broker_name: str) -> MessageQueue:
    return next(queue for queue in await producer.queues("T") if queue.broker_name == broker_name)


async def _brokers(producer: Producer, count: int) -> set[str]:
    """The brokers that so many messages went to."""
    return {(await producer.send(MESSAGE)).queue.broker_name for _ in range(count)}
