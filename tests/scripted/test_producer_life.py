"""The beginning and the end of producers of both flavours, their hooks, and errors that teach."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rocketline
from rocketline import aio
from rocketline.client.options import Credentials
from rocketline.client.producer.hooks import MessageKind, SendContext, SendMode
from rocketline.errors import (
    ClientError,
    ClosedError,
    ConfigError,
    ForkedError,
    GroupInUseError,
    InvalidNameError,
    NotStartedError,
    SendFailedError,
    WrongLoopError,
)
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.message import Message
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.acl import is_signed_with
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.clients.members import until
from support.clients.producers import FLAVOURS, BlockingSender, MakeProducer, Sender, error_of, maker
from support.running_threads import running_threads

SEND, UNREGISTER, HEARTBEAT = RequestCode.SEND_MESSAGE_V2, RequestCode.UNREGISTER_CLIENT, RequestCode.HEART_BEAT
MESSAGE = Message("T", b"body")


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(flavour: str) -> MakeProducer:
    return maker(flavour)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as peer:
        peer.route("T")
        yield peer


async def runtime_at(flavour: str, peer: ScriptedPeer) -> Any:
    """A started runtime to share; `close` it on its own side."""
    if flavour == "asyncio":
        runtime = aio.ClientRuntime.at(peer.address)
        await runtime.lease()
        return runtime
    blocking = rocketline.ClientRuntime.at(peer.address)
    await asyncio.to_thread(blocking.lease)
    return blocking


async def close(runtime: Any) -> None:
    closing = runtime.close() if isinstance(runtime, aio.ClientRuntime) else asyncio.to_thread(runtime.close)
    await closing


class TestLife:
    async def test_two_of_one_group_do_not_share_a_runtime(
        self, flavour: str, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C7: the first one goes on."""
        runtime = await runtime_at(flavour, peer)
        async with make(runtime=runtime) as first:
            second = FLAVOURS[flavour](group="P", runtime=runtime)
            assert isinstance(await error_of(second.start()), GroupInUseError)
            assert (await first.send(MESSAGE)).is_ok
        await close(runtime)

    async def test_shared_runtime_has_one_connection_and_one_heartbeat(
        self, flavour: str, make: MakeProducer, peer: ScriptedPeer
    ) -> None:
        """C6, C12: after one of two is closed the other goes on."""
        runtime = await runtime_at(flavour, peer)
        async with make(runtime=runtime, group="P1") as first:
            async with make(runtime=runtime, group="P2") as second:
                await first.send_soon(MESSAGE)
                await second.send_soon(MESSAGE)
                await until(lambda: any(_groups(one) == {"P1", "P2"} for one in _heartbeats(peer)))
                assert peer.connections_opened == 1
            await peer.wait_for(UNREGISTER)
            assert (await first.send(MESSAGE)).is_ok
        await close(runtime)

    @pytest.mark.parametrize("group", ["DEFAULT_PRODUCER", "", "a b", "g" * 121])
    async def test_group_without_a_proper_name_is_refused(self, flavour: str, peer: ScriptedPeer, group: str) -> None:
        """C8: and no connection is opened."""
        with pytest.raises(InvalidNameError):
            FLAVOURS[flavour](peer.address, group=group)
        assert peer.connections_opened == 0

    async def test_second_start_is_refused(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C9."""
        async with make(peer.address) as producer:
            assert isinstance(await error_of(producer.start()), ClientError)
            assert (await producer.send(MESSAGE)).is_ok

    async def test_second_close_does_nothing(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C10: nor does closing what was never started."""
        async with make(peer.address) as producer:
            await producer.close()

    async def test_close_says_farewell_to_masters_and_slaves(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C11."""
        async with ScriptedPeer() as slave:
            peer.route("T", {"broker-a": {0: peer, 1: slave}})
            async with make(peer.address) as producer:
                await producer.send(MESSAGE)
            for broker in (peer, slave):
                groups = [received.header.producer_group for received in broker.requests(UNREGISTER)]
                assert "P" in groups

    async def test_nothing_is_left_after_the_last_one(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C13."""
        threads = running_threads()
        async with make(peer.address) as producer:
            await producer.send(MESSAGE)
            await producer.send_soon(MESSAGE)
        await until(lambda: not peer.connections)
        assert not [left for left in running_threads() - threads if "asyncio" not in left.name]

    async def test_closed_one_sends_nothing(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C14."""
        async with make(peer.address) as producer:
            pass
        heard = len(peer.received)
        for sending in (producer.send(MESSAGE), producer.send_oneway(MESSAGE), producer.queues("T")):
            assert isinstance(await error_of(sending), ClosedError)
        with pytest.raises(ClosedError, match="make a new one"):
            producer.send_soon(MESSAGE)
        assert len(peer.received) == heard

    async def test_one_that_was_not_started_says_so(self, flavour: str, peer: ScriptedPeer) -> None:
        producer = FLAVOURS[flavour](peer.address, group="P")
        error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, NotStartedError)
        assert "`with`" in str(error)
        await producer.close()

    async def test_topics_are_looked_up_at_the_start(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """One that is missing is no reason not to start."""
        async with make(peer.address, topics=("T", "missing")):
            asked = [received.header.topic for received in peer.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)]
            assert {"T", "missing"} <= set(asked)
            assert await peer.wait_for(HEARTBEAT)


def test_wrong_options_are_all_named() -> None:
    with pytest.raises(ConfigError) as caught:
        rocketline.Producer("a:1", group="P", retries=-1, compression_level=40, back_pressure_count=3)
    assert len(caught.value.problems) == 3
    with pytest.raises(TypeError, match="did you mean send_timeout_s"):
        rocketline.Producer("a:1", group="P", send_timeout=3)  # type: ignore[call-arg]


async def test_another_loop_is_told_so(peer: ScriptedPeer) -> None:
    async with aio.Producer(peer.address, group="P") as producer:
        await producer.send(MESSAGE)
        error = await asyncio.to_thread(lambda: asyncio.run(error_of(producer.send(MESSAGE))))
        assert isinstance(error, WrongLoopError)
        with pytest.raises(WrongLoopError):
            await asyncio.to_thread(producer.send_soon, MESSAGE)


def _send_in_child(producer: rocketline.Producer, outcome: Any) -> None:
    for send in (producer.send, producer.send_soon, producer.send_oneway):
        try:
            send(MESSAGE)
        except Exception as error:  # noqa: BLE001
            outcome.send(type(error))


async def test_fork_is_told_so(peer: ScriptedPeer) -> None:
    async with maker("blocking")(peer.address) as sender:
        assert isinstance(sender, BlockingSender)
        await sender.send(MESSAGE)
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        child = multiprocessing.get_context("fork").Process(target=_send_in_child, args=(sender.producer, theirs))
        child.start()
        assert [await asyncio.to_thread(ours.recv) for _ in range(3)] == [ForkedError] * 3
        await asyncio.to_thread(child.join)
        assert (await sender.send(MESSAGE)).is_ok
        ours.close()
        theirs.close()


class Watching:
    """Writes down what it sees; fails if told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.seen = fails, list[tuple[str, SendContext]]()

    def before_send(self, context: SendContext) -> None:
        assert (context.receipt, context.error) == (None, None)
        self._see("before", context)

    def after_send(self, context: SendContext) -> None:
        self._see("after", context)

    def _see(self, when: str, context: SendContext) -> None:
        self.seen.append((when, context))
        if self.fails:
            raise RuntimeError("a hook's own fault")


class Forbidding:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def check_forbidden(self, context: SendContext) -> None:
        raise self._error


class TestHooks:
    async def test_hook_that_fails_changes_nothing(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C122."""
        hook = Watching(fails=True)
        async with make(peer.address, send_hooks=(hook,)) as producer:
            assert (await producer.send(MESSAGE)).is_ok
            assert (await producer.send_soon(MESSAGE)).is_ok
            await producer.send_oneway(MESSAGE)
        assert [when for when, _ in hook.seen] == ["before", "after"] * 3, "once each, whatever the way"

    async def test_hook_sees_every_attempt(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        peer.on(SEND).reply(code=2).default()
        hook = Watching()
        message = Message("T", b"x", delay_level=2)
        async with make(peer.address, send_hooks=(hook,)) as producer:
            receipt = await producer.send(message)
        (_, first), _, (_, second), _ = hook.seen
        assert (first.error is not None, first.receipt, second.error, second.receipt) == (True, None, None, receipt)
        assert (second.mode, second.kind, second.address) == (SendMode.SYNC, MessageKind.DELAY, peer.address)
        assert (second.group, list(second.messages), second.queue) == ("P", [message], receipt.queue)

    async def test_forbidden_message_is_not_sent(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C123: what the hook raises is the outcome; a `ClientError`, that of each attempt."""
        async with make(peer.address, forbidden_hooks=(Forbidding(PermissionError("no")),)) as producer:
            assert isinstance(await error_of(producer.send(MESSAGE)), PermissionError)
            assert isinstance(await error_of(producer.send_soon(MESSAGE)), PermissionError)
            assert isinstance(await error_of(producer.send_oneway(MESSAGE)), PermissionError)
        async with make(peer.address, forbidden_hooks=(Forbidding(ClientError("not here")),)) as producer:
            error = await error_of(producer.send(MESSAGE))
        assert isinstance(error, SendFailedError)
        assert (error.code, len(error.attempts)) == (10003, 3)
        assert not peer.requests(SEND)

    async def test_every_message_is_signed_and_shown_to_rpc_hooks(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C227, of all ways to send."""
        hook = Counting()
        options = {"credentials": Credentials("me", "secret"), "rpc_hooks": (hook,), "namespace_v2": "N"}
        async with make(peer.address, **options) as producer:
            await producer.send(MESSAGE)
            await producer.send_soon(MESSAGE)
            await producer.send_oneway(MESSAGE)
            sent = await peer.wait_for(SEND, 3)
        assert all(is_signed_with(received.command, "secret") for received in sent)
        assert all((one.ext["ns"], one.ext["nsd"], one.ext["hooked"]) == ("N", "true", "yes") for one in sent)
        assert hook.codes.count(SEND) == 2, "a oneway message has no answer to be shown"

    async def test_namespace_stays_on_the_wire(self, make: MakeProducer, peer: ScriptedPeer) -> None:
        """C225, the producer's part."""
        peer.route("N%T")
        async with make(peer.address, namespace="N") as producer:
            receipt = await producer.send(MESSAGE)
            assert receipt.queue in await producer.queues("T")
            assert (await producer.send(MESSAGE, queue=receipt.queue)).queue == receipt.queue
        (first, *_) = peer.requests(SEND)
        assert (first.header.topic, first.header.producer_group, receipt.queue.topic) == ("N%T", "N%P", "T")
        assert "INSTANCE_ID\x01N\x02" in first.header.properties


class Counting:
    def __init__(self) -> None:
        self.codes: list[int] = []

    def before_request(self, address: str, request: Command) -> None:
        request.ext["hooked"] = "yes"

    def after_response(self, address: str, request: Command, response: Command) -> None:
        self.codes.append(request.code)


def _heartbeats(peer: ScriptedPeer) -> list[HeartbeatData]:
    return [received.decoded(HeartbeatData) for received in peer.requests(HEARTBEAT)]


def _groups(heartbeat: HeartbeatData) -> set[str]:
    return {producer.group_name for producer in heartbeat.producer_data_set} - {"CLIENT_INNER_PRODUCER"}


def test_senders_have_one_face() -> None:
    """What the tests call exists in both."""
    names = {name for name in vars(Sender) if not name.startswith("_")}
    assert all(hasattr(kind, name) for kind in (aio.Producer, BlockingSender) for name in names)
