"""What name servers and brokers may say, and what becomes of the clients that listen: calls end in their time, the
honest brokers go on serving, and nobody is asked without a pause who has nothing to say."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from rocketline import Producer as BlockingProducer
from rocketline.admin.aio import Admin
from rocketline.aio import LitePullConsumer, Message, Producer, PushConsumer
from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ConnectError, RocketlineError, RouteRefusedError, SendFailedError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.net.channel import Outcome
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.bodies.believed_routes import BROKERS_MAX
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import response
from support.clients.members import in_background, passes, settled, until

ROUTE, SEND, PULL = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
LITE_PULL = RequestCode.LITE_PULL_MESSAGE
MESSAGE = Message("T", b"body")
ADDRESSES_OF_NOBODY = [
    "nonsense",
    "127.0.0.1:99999999",
    pytest.param(f"127.0.0.1:{'9' * 5000}", id="port of 5000 digits"),
    "127.0.0.1:x",
    "",
    "[::1",
    "a\0b:1",
    "a\nb:1",
    f"{'a' * 64}.b:1",
]
ASKED_MAX = 32
"""Pulls of one queue in two seconds by a client that backs off: sixteen at once, then pauses that grow to a second."""


def lie(peer: ScriptedPeer, *liars: QueueData, is_alone: bool = False) -> None:
    """Let strangers have registered for topic T."""
    route = TopicRouteData() if is_alone else peer.broker.routes["T"]
    brokers = [BrokerData("c", liar.broker_name, {0: peer.address}) for liar in liars]
    peer.broker.routes["T"] = TopicRouteData([*liars, *route.queue_datas], [*brokers, *route.broker_datas])


async def test_stranger_with_two_thousand_million_queues_takes_no_client_from_a_topic(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    lie(peer, QueueData("a-liar", 2**31 - 1, 2**31 - 1, 6))
    async with Producer(peer.address, group="P", clock=clock) as producer:
        receipts = [await producer.send(MESSAGE) for _ in range(4)]
    assert {receipt.queue.broker_name for receipt in receipts} == {"broker-a"}


async def test_stranger_alone_is_told_to_all_kinds_of_callers(peer: ScriptedPeer, clock: FakeClock) -> None:
    lie(peer, QueueData("a-liar", 2**31 - 1, 2**31 - 1, 6), is_alone=True)
    async with Producer(peer.address, group="P", clock=clock) as producer:
        for work in (producer.send(MESSAGE), producer.send_soon(MESSAGE), producer.queues("T")):
            with pytest.raises(RouteRefusedError, match="2147483647 queues"):
                await work
    with BlockingProducer(peer.address, group="B", clock=clock) as blocking, pytest.raises(RouteRefusedError):
        await in_background(lambda: blocking.send(MESSAGE))
    async with Admin(peer.address, clock=clock) as admin:
        with pytest.raises(RouteRefusedError):
            await admin.topics.route("T")


async def test_route_of_too_many_brokers_changes_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with Producer(peer.address, group="P", clock=clock) as producer:
        await producer.send(MESSAGE)
        lie(peer, *(QueueData(f"l{number}", 1, 1, 6) for number in range(BROKERS_MAX)))
        with pytest.raises(RouteRefusedError, match="brokers"):
            await producer.runtime.update_route("T")
        assert (await producer.send(MESSAGE)).queue.broker_name == "broker-a"


@pytest.mark.parametrize("order", ["broker-a:2147483647", f"broker-a:{'9' * 5000}", "a:60000;b:60000"])
async def test_order_configuration_beyond_all_bounds_is_refused(
    peer: ScriptedPeer, clock: FakeClock, order: str
) -> None:
    peer.route("T", order=order)
    async with Producer(peer.address, group="P", clock=clock) as producer:
        with pytest.raises(RouteRefusedError, match="order configuration"):
            await producer.send(MESSAGE)


@pytest.mark.parametrize("address", ADDRESSES_OF_NOBODY)
@pytest.mark.parametrize("vip_channel", [False, True])
async def test_broker_whose_address_is_none_costs_an_attempt_and_no_more(
    peer: ScriptedPeer, clock: FakeClock, address: str, vip_channel: bool
) -> None:
    peer.route("T", {"a-liar": address})
    async with Producer(peer.address, group="P", clock=clock, vip_channel=vip_channel) as producer:
        with pytest.raises(SendFailedError) as failed:
            await producer.send(MESSAGE)
    assert {type(error) for _, error in failed.value.attempts} == {ConnectError}


async def test_host_that_resolvers_choke_on_is_one_that_nobody_reaches(
    peer: ScriptedPeer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is that they find wrong: an attempt has failed, and the client has not been closed."""

    def choke(*arguments: object, **options: object) -> NoReturn:
        raise ValueError("embedded null character")

    peer.route("T", {"a-liar": "any.name:1"})
    async with Producer(peer.address, group="P", clock=clock) as producer:
        await producer.queues("T")
        monkeypatch.setattr(socket, "getaddrinfo", choke)
        with pytest.raises(SendFailedError) as failed:
            await producer.send(MESSAGE)
    assert {type(error) for _, error in failed.value.attempts} == {ConnectError}


async def test_all_who_wait_for_a_connection_or_a_route_are_told_in_errors_of_their_own(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    lie(peer, QueueData("a-liar", 2**31 - 1, 2**31 - 1, 6), is_alone=True)
    async with ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=clock) as runtime:
        for wait in (lambda: runtime.update_route("T"), lambda: runtime.connect("127.0.0.1:1", 3)):
            told = await asyncio.gather(*(wait() for _ in range(3)), return_exceptions=True)
            assert len(set(map(id, told))) == 3
            assert len({str(error) for error in told}) == 1
            assert len({id(_happened(error)) for error in told}) == 1


def _happened(told: object) -> object:
    """The error that somebody was told of by a copy, or that very one."""
    assert isinstance(told, RocketlineError)
    return told.__cause__ if isinstance(told.__cause__, RocketlineError) else told


async def test_member_list_without_bound_is_not_believed(
    peer: ScriptedPeer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    from rocketline.client.rebalance.group_members import MEMBERS_MAX, find_members

    async with ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=clock) as runtime:
        await runtime.update_route("T")
        peer.broker.members["G"] = [f"c{number}" for number in range(MEMBERS_MAX + 1)]
        assert await find_members(runtime, "T", "G") is None
        assert "16385 client ids" in caplog.text
        peer.broker.members["G"].pop()
        assert len(await find_members(runtime, "T", "G") or ()) == MEMBERS_MAX


# --- whoever has nothing to say


def _nothing(code: int, *, advance: int = 0) -> Callable[[Received], Outcome]:
    def say(received: Received) -> Outcome:
        following = str(received.header.queue_offset + advance)
        ext = {"nextBeginOffset": following, "minOffset": "0", "maxOffset": str(2**62), "suggestWhichBrokerId": "0"}
        return response(code, "nothing", ext=ext)

    return say


FRUITLESS = [
    pytest.param(_nothing(ResponseCode.PULL_RETRY_IMMEDIATELY), id="retry"),
    pytest.param(_nothing(ResponseCode.PULL_RETRY_IMMEDIATELY, advance=1), id="retry, a step further"),
    pytest.param(_nothing(ResponseCode.PULL_NOT_FOUND), id="not found, at once"),
    pytest.param(_nothing(ResponseCode.PULL_OFFSET_MOVED), id="moved to where it was"),
    pytest.param(_nothing(ResponseCode.SUCCESS), id="found, and nothing is there"),
    pytest.param(_nothing(ResponseCode.SUCCESS, advance=1), id="found, nothing is there, a step further"),
    pytest.param(_nothing(ResponseCode.FLOW_CONTROL), id="flow control"),
    pytest.param(_nothing(ResponseCode.SYSTEM_BUSY), id="busy"),
]


async def _turn(clock: FakeClock, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        clock.advance(0.05)
        await settled()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("say", FRUITLESS)
async def test_push_consumer_does_not_hammer_a_broker_that_has_nothing(
    peer: ScriptedPeer, clock: FakeClock, say: Callable[[Received], Outcome]
) -> None:
    peer.route("T", queues=1)
    peer.on(PULL).call(say)
    consumer = PushConsumer(peer.address, group="G", clock=clock)
    consumer.subscribe("T", "*", lambda message: None)
    async with consumer:
        await passes(clock, lambda: bool(_pulls_of(peer, PULL)), within_s=30)
        peer.forget()
        await _turn(clock, 2)
        assert len(_pulls_of(peer, PULL)) <= ASKED_MAX


@pytest.mark.parametrize("say", FRUITLESS)
async def test_lite_pull_consumer_does_not_hammer_a_broker_that_has_nothing(
    peer: ScriptedPeer, clock: FakeClock, say: Callable[[Received], Outcome]
) -> None:
    peer.route("T", queues=1)
    peer.on(LITE_PULL).call(say)
    consumer = LitePullConsumer(peer.address, group="G", clock=clock)
    async with consumer:
        consumer.assign(await consumer.queues("T"))
        await until(lambda: bool(_pulls_of(peer, LITE_PULL)))
        await _turn(clock, 2)
        assert len(_pulls_of(peer, LITE_PULL)) <= ASKED_MAX


FILTERED_STEP = 800
"""So many messages both brokers look at for one answer to a pull of a queue that is filtered."""
LED_ON_MAX = 2 * 500 + 100
"""Pulls of one queue in two seconds by a client that is led on: five hundred a second, and a hundred at once."""


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_consumer_of_a_rare_tag_catches_up(
    peer: ScriptedPeer, clock: FakeClock, kind: type[PushConsumer] | type[LitePullConsumer]
) -> None:
    leads_on = _nothing(ResponseCode.PULL_RETRY_IMMEDIATELY, advance=FILTERED_STEP)
    offsets = await _offsets_asked_in_two_seconds(peer, clock, kind, leads_on)
    assert max(offsets) >= 100_000


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
@pytest.mark.parametrize("code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.SUCCESS])
async def test_broker_that_leads_on_without_end_is_asked_within_a_budget(
    peer: ScriptedPeer, clock: FakeClock, kind: type[PushConsumer] | type[LitePullConsumer], code: int
) -> None:
    offsets = await _offsets_asked_in_two_seconds(peer, clock, kind, _nothing(code, advance=5000))
    assert len(offsets) <= LED_ON_MAX


async def _offsets_asked_in_two_seconds(
    peer: ScriptedPeer,
    clock: FakeClock,
    kind: type[PushConsumer] | type[LitePullConsumer],
    say: Callable[[Received], Outcome],
) -> list[int]:
    """Where the pulls of one queue began, by a consumer that asks as often as it may."""
    peer.route("T", queues=1)
    code = PULL if kind is PushConsumer else LITE_PULL
    peer.on(code).call(say)
    consumer = kind(peer.address, group="G", clock=clock)
    if isinstance(consumer, PushConsumer):
        consumer.subscribe("T", "rare", lambda message: None)
    else:
        consumer.subscribe("T", "rare")
    async with consumer:
        await passes(clock, lambda: bool(_pulls_of(peer, code)), within_s=30)
        for _ in range(20):
            await _silent(peer, code)
            clock.advance(0.1)
        await _silent(peer, code)
        return [received.header.queue_offset for received in _pulls_of(peer, code)]


async def _silent(peer: ScriptedPeer, code: int) -> None:
    """Let the client ask until it rests, or for long enough to show that it does not."""
    asked = -1
    while asked < len(_pulls_of(peer, code)) <= 2 * LED_ON_MAX:
        asked = len(_pulls_of(peer, code))
        for _ in range(5):
            await asyncio.sleep(0.001)


def _pulls_of(peer: ScriptedPeer, code: int) -> list[Received]:
    return [received for received in peer.requests(code) if received.header.topic == "T"]


# --- all at once


async def test_cold_burst_asks_and_dials_once_and_goes_the_short_way(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Thousands begin with neither a route nor a connection: they wait together, without a task, and then each is sent
    as it would be on a client that is warm."""
    async with Producer(peer.address, group="P", clock=clock) as producer:
        long_ways = 0
        delivery = producer.delivery
        carry = delivery.carry

        async def counted(*arguments: object, **options: object) -> object:
            nonlocal long_ways
            long_ways += 1
            return await carry(*arguments, **options)  # type: ignore[arg-type]

        delivery.carry = counted  # type: ignore[method-assign, assignment]
        opened = peer.connections_opened
        receipts = await asyncio.gather(*(producer.send(MESSAGE, timeout_s=60) for _ in range(100)))
    assert len(receipts) == len(peer.requests(SEND)) == 100
    assert len([asked for asked in peer.requests(ROUTE) if asked.header.topic == "T"]) == 1
    assert peer.connections_opened <= opened + 1
    assert long_ways == 0


async def test_no_error_tells_of_a_time_below_zero(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with Producer(peer.address, group="P", clock=clock) as producer:
        for timeout_s in (0, -1e-6):
            for _ in range(2):  # cold, and warm
                outcomes = await asyncio.gather(
                    producer.send(MESSAGE, timeout_s=timeout_s),
                    producer.send_soon(MESSAGE, timeout_s=timeout_s),
                    producer.runtime.connections.connect("127.0.0.1:1", timeout_s),
                    return_exceptions=True,
                )
                assert all(isinstance(outcome, RocketlineError) for outcome in outcomes), outcomes
                assert not any(" -" in str(outcome) for outcome in outcomes), outcomes
            await producer.send(MESSAGE)


async def test_no_blocking_error_tells_of_a_time_below_zero(peer: ScriptedPeer, clock: FakeClock) -> None:
    def outcomes(producer: BlockingProducer, timeout_s: float) -> list[object]:
        queue = MessageQueue("T", "broker-a", 0)
        return [
            _raised(lambda: producer.send(MESSAGE, timeout_s=timeout_s)),
            _raised(lambda: producer.send(MESSAGE, queue=queue, timeout_s=timeout_s)),
            _raised(lambda: producer.send_soon(MESSAGE, timeout_s=timeout_s).result(30)),
        ]

    def work() -> list[object]:
        told: list[object] = []
        with BlockingProducer(peer.address, group="P", clock=clock) as producer:
            for timeout_s in (0, -1e-6):
                for _ in range(2):  # cold, and warm
                    told += outcomes(producer, timeout_s)
                producer.send(MESSAGE)
        return told

    told = await in_background(work)
    assert all(isinstance(outcome, RocketlineError) for outcome in told), told
    assert not any(" -" in str(outcome) for outcome in told), told


def _raised(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # the test looks at what it is
        return error


async def test_cold_burst_makes_no_more_tasks_and_timers_than_a_warm_one(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Ten times the messages cost no further task and no further timer, and so does a client that knows nothing yet."""
    loop = asyncio.get_running_loop()
    made = Counter[str]()
    call_at = loop.call_at

    def counted_call_at(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        made["timers"] += 1
        return call_at(*arguments, **options)

    def counted_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made["tasks"] += 1
        return asyncio.Task(work, loop=loop, **options)

    async def burst(producer: Producer, count: int) -> dict[str, int]:
        """What is made beside the tasks of `gather` itself."""
        made.clear()
        await asyncio.gather(*(producer.send(MESSAGE, timeout_s=60) for _ in range(count)))
        return {"tasks": made["tasks"] - count, "timers": made["timers"]}

    loop.call_at = counted_call_at  # type: ignore[method-assign, assignment]
    loop.set_task_factory(counted_task)
    try:
        for count in (100, 1000):
            async with Producer(peer.address, group=f"P{count}", clock=clock) as producer:
                cold, warm = await burst(producer, count), await burst(producer, count)
            assert all(cold[kind] <= warm[kind] + 16 for kind in cold), (cold, warm)
            assert max(warm.values()) <= 16, warm
    finally:
        loop.set_task_factory(None)
        loop.call_at = call_at  # type: ignore[method-assign]
