"""How producers and push consumers start, share a runtime and end, on a peer that writes down what it hears."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rocketline import Message as BlockingMessage
from rocketline import Producer as BlockingProducer
from rocketline.aio import ClientRuntime, Message, Producer, PushConsumer
from rocketline.client.options import ClientOptions
from rocketline.errors import (
    ClientError,
    ClosedError,
    GroupInUseError,
    InvalidNameError,
    NoNameServerError,
    TopicNotFoundError,
    TransportError,
)
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.names import AUTO_CREATE_TOPIC, INNER_PRODUCER_GROUP
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.testing.server_process import free_port
from rocketline.wire.codes import RequestCode
from support.clients.members import settled, until
from support.running_threads import running_threads

HEART_BEAT, UNREGISTER = RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT
ROUTE, SEND = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2


def shared(peer: ScriptedPeer, clock: FakeClock) -> ClientRuntime:
    return ClientRuntime(ClientOptions(name_servers=(peer.address,), instance_name="A"), clock=clock)


async def take(message: object) -> None:
    pass


async def test_two_producers_on_one_runtime_share_connection_and_heartbeat(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C6: with the same runtime, which is what the same instance name is here."""
    async with (
        shared(peer, clock) as runtime,
        Producer(group="P1", runtime=runtime) as first,
        Producer(group="P2", runtime=runtime) as second,
    ):
        await first.send(Message("T", b"1"))
        await second.send(Message("T", b"2"))
        peer.forget()
        clock.advance(1)
        (beat,) = await peer.wait_for(HEART_BEAT)
        named = {producer.group_name for producer in beat.decoded(HeartbeatData).producer_data_set}
        assert named == {"P1", "P2", INNER_PRODUCER_GROUP}
        assert peer.connections_opened == 1


async def test_second_producer_of_a_group_fails_to_start_and_the_first_works_on(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C7."""
    async with shared(peer, clock) as runtime, Producer(group="P", runtime=runtime) as first:
        second = Producer(group="P", runtime=runtime)
        with pytest.raises(GroupInUseError):
            await second.start()
        await second.close()
        assert (await first.send(Message("T", b"still here"))).queue.topic == "T"


@pytest.mark.parametrize("group", ["DEFAULT_PRODUCER", "", "a b", "x" * 256])
async def test_group_that_no_server_takes_is_refused_before_any_connection(peer: ScriptedPeer, group: str) -> None:
    """C8: already when the client is made."""
    with pytest.raises(InvalidNameError):
        await Producer(peer.address, group=group).start()
    assert not peer.connections_opened


async def test_reserved_consumer_group_is_refused_before_any_connection(peer: ScriptedPeer) -> None:
    """C8."""
    with pytest.raises(InvalidNameError, match="DEFAULT_CONSUMER"):
        await PushConsumer(peer.address, group="DEFAULT_CONSUMER").start()
    assert not peer.connections_opened


async def test_starting_twice_is_an_error_and_closing_twice_is_none(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C9 and C10: of producers and push consumers."""
    consumer = PushConsumer(peer.address, group="C", clock=clock)
    consumer.subscribe("T", "*", take)
    for client in (Producer(peer.address, group="P", clock=clock), consumer):
        await client.start()
        with pytest.raises(ClientError, match="already"):
            await client.start()
        await client.close()
        await client.close()
        with pytest.raises(ClosedError):
            await client.start()


async def test_closing_producer_unregisters_everywhere_before_its_connections_close(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C11: master and slave; then the inner producer, as Java does."""
    async with ScriptedPeer(clock=clock) as slave:
        peer.route("T", {"broker-a": {0: peer, 1: slave}})
        producer = Producer(peer.address, group="P", clock=clock)
        await producer.start()
        await producer.send(Message("T", b"1"))
        await producer.close()
        for broker in (peer, slave):
            farewells = broker.requests(UNREGISTER)
            assert [farewell.header.producer_group for farewell in farewells] == ["P", INNER_PRODUCER_GROUP]
            assert {farewell.header.client_id for farewell in farewells} == {producer.client_id}


async def test_one_of_two_that_share_closes_and_the_other_works_on(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C12: without the application holding the runtime: the last one closes it."""
    runtime = shared(peer, clock)
    first, second = Producer(group="P1", runtime=runtime), Producer(group="P2", runtime=runtime)
    await first.start()
    await second.start()
    await first.close()
    await second.send(Message("T", b"still here"))
    peer.forget()
    clock.advance(31)
    (beat,) = await peer.wait_for(HEART_BEAT)
    assert "P1" not in {producer.group_name for producer in beat.decoded(HeartbeatData).producer_data_set}
    await second.close()
    assert runtime.is_closed


async def test_last_close_leaves_no_connection_task_or_thread(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C13: of a producer and a consumer."""
    tasks, threads = asyncio.all_tasks(), running_threads()
    consumer = PushConsumer(peer.address, group="C", clock=clock)
    consumer.subscribe("T", "*", take)
    async with Producer(peer.address, group="P", clock=clock) as producer, consumer:
        await producer.send(Message("T", b"1"))
    await until(lambda: not peer.connections)
    await settled()
    assert asyncio.all_tasks() == tasks
    assert not running_threads() - threads


@pytest.mark.parametrize("orderly", [False, True])
async def test_last_close_ends_the_threads_of_handlers(peer: ScriptedPeer, clock: FakeClock, orderly: bool) -> None:
    """C13: each of four messages has a thread of its own when the consumer closes, and none is left after it."""
    before = running_threads()
    in_handlers: set[threading.Thread] = set()
    together = threading.Barrier(4)

    def handle(message: object) -> None:
        in_handlers.add(threading.current_thread())
        together.wait(30)

    for number in range(4):
        peer.broker.put("T", b"x", queue_id=number)
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = PushConsumer(peer.address, group="C", clock=clock, consume_from=first, orderly=orderly)
    consumer.subscribe("T", "*", handle)
    async with consumer:
        await until(lambda: len(consumer.queues) == 4)
        clock.advance(0.5)
        await until(lambda: sorted(consumer.offsets().values()) == [1, 1, 1, 1])
        assert len(in_handlers - before) == 4
        assert all(thread.is_alive() for thread in in_handlers)
    # The clock stands still, so nothing here waits for a time to pass. `_no_leaks` grants 2 s of real time after this.
    await until(lambda: not peer.connections)
    # The pool has more threads than ran a message, and they end one after the other.
    await until(lambda: not running_threads() - before)


async def test_closed_producer_sends_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C14: it raises, and the network is quiet."""
    producer = Producer(peer.address, group="P", clock=clock)
    await producer.start()
    await producer.close()
    peer.forget()
    with pytest.raises(ClosedError, match="make a new one"):
        await producer.send(Message("T", b"late"))
    assert not peer.received


def nowhere() -> str:
    return f"127.0.0.1:{free_port()}"


async def test_producer_starts_with_all_name_servers_down_and_a_send_fails_soon() -> None:
    """C23 and C24: within 3 s and the time to connect."""
    async with Producer(f"{nowhere()};{nowhere()}", group="P") as producer, asyncio.timeout(6):
        with pytest.raises((TransportError, TopicNotFoundError)):
            await producer.send(Message("T", b"x"))


async def test_blocking_producer_starts_with_all_name_servers_down_and_a_send_fails_soon() -> None:
    """C23 and C24, blocking."""

    def use() -> None:
        with BlockingProducer(nowhere(), group="P") as producer, pytest.raises((TransportError, TopicNotFoundError)):
            producer.send(BlockingMessage("T", b"x"))

    async with asyncio.timeout(6):
        await asyncio.to_thread(use)


async def test_push_consumer_does_not_start_with_all_name_servers_down(clock: FakeClock) -> None:
    """C25: and leaves nothing running."""
    before = asyncio.all_tasks()
    consumer = PushConsumer(nowhere(), group="C", clock=clock)
    consumer.subscribe("T", "*", take)
    with pytest.raises(TransportError):
        await consumer.start()
    await settled()
    assert asyncio.all_tasks() == before
    assert consumer.runtime.is_closed


async def test_topic_that_was_sent_to_is_polled_though_it_has_no_route(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C27 and C36: code 10005; and the topic is asked for again with the next poll."""
    async with Producer(peer.address, group="P", clock=clock) as producer:
        with pytest.raises(TopicNotFoundError, match="rocketline topic create new") as caught:
            await producer.send(Message("new", b"x"))
        assert caught.value.code == 10005
        assert AUTO_CREATE_TOPIC in {received.header.topic for received in peer.requests(ROUTE)}
        peer.forget()
        clock.advance(30)
        assert "new" in {received.header.topic for received in await peer.wait_for(ROUTE)}


async def test_send_without_any_name_server_says_so(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """C37: code 10004."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    async with Producer(group="P", clock=clock) as producer:
        with pytest.raises(NoNameServerError, match="set NAMESRV_ADDR") as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == 10004


async def test_messages_follow_a_route_that_changes(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C28, C29 and C38: a new broker, one that may no longer be written to, one at a new address: after a poll."""
    async with (
        ScriptedPeer(clock=clock, broker_name="broker-b") as other,
        ScriptedPeer(clock=clock, broker_name="broker-b") as moved,
        Producer(peer.address, group="P", clock=clock) as producer,
    ):

        async def used() -> set[str]:
            receipts = [await producer.send(Message("T", b"x")) for _ in range(8)]
            return {receipt.queue.broker_name for receipt in receipts}

        async def poll(count: int) -> None:
            clock.advance(30)
            await peer.wait_for(ROUTE, count)
            await settled()

        assert await used() == {"broker-a"}
        peer.forget()
        peer.route("T", {"broker-a": peer, "broker-b": other}, queues=2)
        await poll(1)
        assert await used() == {"broker-a", "broker-b"}
        peer.route("T", {"broker-b": other}, queues=2)
        await poll(2)
        assert await used() == {"broker-b"}
        peer.route("T", {"broker-b": moved}, queues=2)
        await poll(3)
        other.forget()
        assert await used() == {"broker-b"}
        assert (len(other.requests(SEND)), len(moved.requests(SEND))) == (0, 8)


async def test_broker_without_a_master_is_never_sent_to(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C30: of two brokers the one with a master gets every message."""
    async with ScriptedPeer(clock=clock) as slave, ScriptedPeer(clock=clock, broker_name="broker-b") as master:
        peer.route("T", {"broker-a": {1: slave}, "broker-b": master})
        async with Producer(peer.address, group="P", clock=clock) as producer:
            assert {queue.broker_name for queue in await producer.queues("T")} == {"broker-b"}
            receipts = [await producer.send(Message("T", b"x")) for _ in range(16)]
        assert {receipt.queue.broker_name for receipt in receipts} == {"broker-b"}
        assert (len(slave.requests(SEND)), len(master.requests(SEND))) == (0, 16)


async def test_consumer_is_known_at_every_broker_when_its_start_returns(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C40 and C49: within 1 s at master and slave; tag subscriptions are not checked beforehand."""
    async with ScriptedPeer(clock=clock) as slave:
        peer.route("T", {"broker-a": {0: peer, 1: slave}})
        consumer = PushConsumer(peer.address, group="C", clock=clock)
        consumer.subscribe("T", "a || b", take)
        async with consumer:
            for broker in (peer, slave):
                (beat,) = (await broker.wait_for(HEART_BEAT))[:1]
                assert [data.group_name for data in beat.decoded(HeartbeatData).consumer_data_set] == ["C"]
            assert not peer.requests(RequestCode.CHECK_CLIENT_CONFIG)


async def test_notification_leads_to_a_question_for_the_members(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C50: GET_CONSUMER_LIST_BY_GROUP within 1.5 s."""
    consumer = PushConsumer(peer.address, group="C", clock=clock)
    consumer.subscribe("T", "*", take)
    async with consumer:
        await peer.wait_for(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
        clock.advance(1)
        await settled()
        peer.forget()
        await peer.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        await settled()
        clock.advance(1)
        await peer.wait_for(RequestCode.GET_CONSUMER_LIST_BY_GROUP)


async def test_topic_that_cannot_be_rebalanced_does_not_keep_the_others(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C229: a hundred topics, and the broker of one of them is down."""
    topics = [f"T{number}" for number in range(100)]
    for topic in topics[1:]:
        peer.route(topic, queues=1)
    peer.route(topics[0], {"broker-gone": nowhere()}, queues=1)
    consumer = PushConsumer(peer.address, group="C", clock=clock)
    for topic in topics:
        consumer.subscribe(topic, "*", take)
    async with consumer:
        await until(lambda: len(consumer.queues) >= 99)
        clock.advance(0.5)
        pulls = await peer.wait_for(RequestCode.PULL_MESSAGE, 99)
        assert {pull.header.topic for pull in pulls} >= set(topics[1:])
