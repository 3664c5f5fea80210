"""What a runtime does when connections and clocks fail, and what every request of it carries."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading

import pytest

from rocketline.aio import Message, Producer, PushConsumer
from rocketline.client.options import ClientOptions, Credentials
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ConnectionLostError, ForkedError, ResponseError, RocketlineError, WrongLoopError
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import frame
from rocketline.wire.acl import is_signed_with
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import UpdateConsumerOffsetRequestHeader
from support.clients.members import ConsumerDouble, ProducerDouble, passes, settled, until

ASK = RequestCode.GET_BROKER_RUNTIME_INFO


def runtime_at(peer: ScriptedPeer, clock: FakeClock, **options: object) -> ClientRuntime:
    return ClientRuntime(ClientOptions(name_servers=(peer.address,), **options), clock=clock)  # type: ignore[arg-type]


async def test_lost_connection_fails_all_requests_at_once(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C221: all of them, though their time is far from over."""
    peer.on(ASK).never()
    async with runtime_at(peer, clock) as runtime:
        await runtime.connect(peer.address, 3)
        waiting = [runtime.begin(peer.address, Command(ASK), clock.monotonic() + 30) for _ in range(50)]
        await peer.wait_for(ASK, 50)
        peer.close_connections()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionLostError}


async def test_answer_that_nobody_waits_for_is_ignored(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C222: the next request on the same connection gets its own."""
    async with runtime_at(peer, clock) as runtime:
        await runtime.update_route("T")
        stray = response(0)
        stray.opaque = 4_000_000
        peer.connections[0].reply_bytes(frame.encode(stray), 0)
        await runtime.update_route("T")
        assert peer.connections_opened == 1


async def test_idle_connection_is_closed_and_made_again_on_demand(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C223: after 120 s."""
    async with ScriptedPeer() as broker, runtime_at(peer, clock) as runtime:
        await runtime.ask(broker.address, Command(ASK), timeout_s=3)
        for _ in range(4):
            clock.advance(29.9)
            await settled()
        assert broker.connections
        clock.advance(0.4)
        await until(lambda: not broker.connections)
        await runtime.ask(broker.address, Command(ASK), timeout_s=3)
        assert broker.connections_opened == 2


async def test_broker_that_restarts_is_found_again(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C224 (heartbeats): the next one and the next request go through."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        peer.route("T", {"broker-a": broker})
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        await runtime.heartbeat_all()
        await broker.stop()
        await runtime.heartbeat_all()
        await broker.start()
        broker.forget()
        clock.advance(31)
        await broker.wait_for(RequestCode.HEART_BEAT)
        await runtime.ask(broker.address, Command(ASK), timeout_s=3)


@pytest.mark.parametrize(("down_s", "is_forgotten"), [(1, False), (45, False), (45, True)])
async def test_sends_and_pulls_recover_after_a_brokers_restart(
    peer: ScriptedPeer, clock: FakeClock, down_s: int, is_forgotten: bool
) -> None:
    """C224: within 35 s of the clock, with the options as they are. It was down for a moment, or for longer than
    from one look at routes to the next, and the name server went on naming it or did not."""
    consumed: list[bytes] = []

    async def take(message: ReceivedMessage) -> None:
        consumed.append(message.body)

    async with ScriptedPeer(clock=clock) as broker:
        peer.route("T", {"broker-a": broker}, queues=1)
        consumer = PushConsumer(
            peer.address, group="C", clock=clock, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe("T", "*", take)
        async with Producer(peer.address, group="P", clock=clock) as producer, consumer:
            broker.broker.put("T", b"before")
            await producer.send(Message("T", b"x"))
            await passes(clock, lambda: consumed == [b"before"] and bool(broker.broker.pulls_waiting), within_s=2)
            await broker.stop()
            if is_forgotten:
                del peer.broker.routes["T"]
            assert not await _has_sent(producer)
            for _ in range(down_s):
                clock.advance(1)
                await asyncio.sleep(0.005)
            assert not await _has_sent(producer)

            peer.route("T", {"broker-a": broker}, queues=1)
            broker.broker.put("T", b"after")
            await broker.start()
            begin_s = clock.monotonic()
            while not await _has_sent(producer):
                clock.advance(1)
                assert clock.monotonic() - begin_s <= 35
            left_s = 35 - (clock.monotonic() - begin_s)
            await passes(clock, lambda: consumed == [b"before", b"after"], within_s=left_s)
            assert clock.monotonic() - begin_s <= 35


async def _has_sent(producer: Producer) -> bool:
    try:
        return (await producer.send(Message("T", b"x"))).is_ok
    except RocketlineError:
        return False


async def test_silent_connection_is_given_up_with_the_first_request_that_times_out(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """Nothing came since it was asked, so the next request takes a new connection."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        broker.on(ASK).never(times=1).default()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_code_or_error(runtime, broker))
            await broker.wait_for(ASK)
            clock.advance(3)
        assert asking.result() == "RequestTimeoutError"
        await until(lambda: not broker.connections)
        await runtime.ask(broker.address, Command(ASK), timeout_s=3)
        assert broker.connections_opened == 2


async def test_connection_that_still_speaks_survives_a_request_that_times_out(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """Differs from Java, which closes it under everybody who waits on it."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        broker.on(ASK).never(times=1).reply()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_code_or_error(runtime, broker))
            await broker.wait_for(ASK)
            clock.advance(2)
            assert await _code_or_error(runtime, broker) == "0"
            clock.advance(1)
        assert asking.result() == "RequestTimeoutError"
        assert await _code_or_error(runtime, broker) == "0"
        assert broker.connections_opened == 1


async def _code_or_error(runtime: ClientRuntime, broker: ScriptedPeer) -> str:
    try:
        return str((await runtime.ask(broker.address, Command(ASK), timeout_s=3)).code)
    except Exception as error:  # noqa: BLE001  # whatever it is, the test looks at it
        return type(error).__name__


async def test_go_away_leads_to_a_new_connection_and_the_same_request(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C92 (runtime's part): once; the answers that are due on the old connection still come."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        held = broker.on(RequestCode.GET_BROKER_CONFIG).hold()
        broker.on(ASK).reply(code=ResponseCode.GO_AWAY).reply()
        async with asyncio.TaskGroup() as group:
            due = group.create_task(runtime.ask(broker.address, Command(RequestCode.GET_BROKER_CONFIG), timeout_s=3))
            await broker.wait_for(RequestCode.GET_BROKER_CONFIG)
            answer = await runtime.ask(broker.address, Command(ASK, {"a": "b"}), timeout_s=3)
            assert answer.code == 0
            first, second = broker.requests(ASK)
            assert first.channel is not second.channel
            assert first.ext == second.ext
            held.release()
            await due
        await until(lambda: len(broker.connections) == 1)


async def test_go_away_twice_is_an_error(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        broker.on(ASK).reply(code=ResponseCode.GO_AWAY)
        with pytest.raises(ResponseError, match="code 1500"):
            await runtime.ask(broker.address, Command(ASK), timeout_s=3)


async def _everything(runtime: ClientRuntime, peer: ScriptedPeer) -> None:
    """Every kind of request that a runtime sends."""
    runtime.register_consumer(runtime.with_namespace("G"), ConsumerDouble("G", runtime.with_namespace("T")))
    await runtime.update_route(runtime.with_namespace("T"))
    await runtime.heartbeat_all()
    offset = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic="T", queue_id=0, commit_offset=1)
    await runtime.send_oneway(peer.address, offset, timeout_s=3)
    await runtime.begin(peer.address, Command(ASK), runtime.clock.monotonic() + 3)
    await runtime.unregister_consumer(runtime.with_namespace("G"))


CODES = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.HEART_BEAT,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    ASK,
    RequestCode.UNREGISTER_CLIENT,
}


async def test_namespace_is_part_of_the_names_on_the_wire(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C225 (runtime's part): `N%T`, `N%G` and `%RETRY%N%G` there, `T` here."""
    peer.route("N%T")
    async with runtime_at(peer, clock, namespace="N") as runtime:
        await _everything(runtime, peer)
        assert peer.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)[0].header.topic == "N%T"
        (consumer,) = peer.requests(RequestCode.HEART_BEAT)[0].decoded(HeartbeatData).consumer_data_set
        assert consumer.group_name == "N%G"
        assert runtime.with_namespace("%RETRY%G") == "%RETRY%N%G"
        assert runtime.without_namespace("N%T") == "T"


async def test_new_namespace_is_named_by_every_request(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C226: `nsd` and `ns`, and the names are unchanged."""
    async with runtime_at(peer, clock, namespace_v2="N") as runtime:
        await _everything(runtime, peer)
        assert {received.code for received in peer.received} == CODES
        for received in peer.received:
            assert (received.ext["nsd"], received.ext["ns"]) == ("true", "N")
        assert peer.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)[0].header.topic == "T"


async def test_every_request_is_signed(peer: ScriptedPeer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """C227: also oneway ones, heartbeats and route queries; the zone is added after it."""
    monkeypatch.setenv("ROCKETMQ_ZONE", "z1")
    monkeypatch.setenv("ROCKETMQ_ZONE_MODE", "true")
    async with runtime_at(peer, clock, credentials=Credentials("user", "secret"), stream_requests=True) as runtime:
        await _everything(runtime, peer)
        assert {received.code for received in peer.received} == CODES
        for received in peer.received:
            assert received.ext["AccessKey"] == "user"
            assert (received.ext.pop("__ZONE_NAME"), received.ext.pop("__ZONE_MODE")) == ("z1", "true")
            assert is_signed_with(received.command, "secret")


class Hook:
    """Adds a field, and remembers the answers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def before_request(self, address: str, request: Command) -> None:
        request.ext["hook"] = "was here"

    def after_response(self, address: str, request: Command, response: Command) -> None:
        self.seen.append((address, request.code, response.code))


async def test_hooks_see_every_request_and_answer_before_the_signature(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Hooks run on oneway requests too, and what they add is signed."""
    hook = Hook()
    async with runtime_at(peer, clock, credentials=Credentials("user", "secret"), rpc_hooks=(hook,)) as runtime:
        await _everything(runtime, peer)
        assert {received.code for received in peer.received} == CODES
        assert all(is_signed_with(received.command, "secret") for received in peer.received)
        assert all(received.ext["hook"] == "was here" for received in peer.received)
        await settled()
        assert {code for _, code, _ in hook.seen} == CODES - {RequestCode.UPDATE_CONSUMER_OFFSET}


async def test_vip_requests_go_to_the_second_port(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C87 (runtime's part): the port that is lower by two, for those requests that may."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock, vip_channel=True) as runtime:
        address = f"127.0.0.1:{broker.port + 2}"
        await runtime.ask(address, Command(ASK), timeout_s=3, vip=True)
        await runtime.send_oneway(address, Command(ASK), timeout_s=3, vip=True)
        await broker.wait_for(ASK, 2)


async def test_wall_clock_that_steps_back_does_not_stop_the_periods(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C228 (timers): they go by the monotonic clock."""
    async with runtime_at(peer, clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        clock.advance(1)
        await peer.wait_for(RequestCode.HEART_BEAT)
        clock._wall_ms -= 10_000
        clock.advance(30)
        await peer.wait_for(RequestCode.HEART_BEAT, 2)


async def test_other_loop_is_told_so(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Must hold 5: a typed error that names the thing and the remedy."""
    async with runtime_at(peer, clock) as runtime:
        outcome: list[BaseException] = []

        async def use() -> None:
            try:
                await runtime.update_route("T")
            except WrongLoopError as error:
                outcome.append(error)

        thread = threading.Thread(target=lambda: asyncio.run(use()))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert "belongs to another event loop" in str(outcome[0])


async def test_forked_child_is_told_so(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Must hold 5: a child does not use its parent's connections."""
    async with runtime_at(peer, clock) as runtime:
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)

        def child() -> None:
            try:
                runtime.check("producer 'P'")
            except ForkedError as error:
                sender.send(str(error))

        process = context.Process(target=child)
        process.start()
        text = await asyncio.to_thread(receiver.recv)
        await asyncio.to_thread(process.join)
        receiver.close()
        sender.close()
        assert text.startswith("producer 'P' was made before this process was forked")
