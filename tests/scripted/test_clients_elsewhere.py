"""Clients that are used where they cannot be: on another loop, or in a forked child. All of them say so."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketline.aio import Admin, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer, SimpleConsumer
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.sync import lite_pull_consumer, producer, pull_consumer, push_consumer, simple_consumer
from rocketline.errors import ForkedError, WrongLoopError
from rocketline.model.queue import MessageQueue
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode

Use = Callable[[Any], Any]
Q0 = MessageQueue("T", "broker-a", 0)
PRODUCER: dict[str, Use] = {
    "send": lambda client: client.send(Message("T", b"x")),
    "send_soon": lambda client: client.send_soon(Message("T", b"x")),
    "send_oneway": lambda client: client.send_oneway(Message("T", b"x")),
    "queues": lambda client: client.queues("T"),
}
PULL: dict[str, Use] = {
    "pull": lambda client: client.pull(Q0, 0),
    "pull_raw": lambda client: client.pull_raw(Q0, 0),
    "fetch_offset": lambda client: client.fetch_offset(Q0),
    "update_offset": lambda client: client.update_offset(Q0, 1),
    "min_offset": lambda client: client.min_offset(Q0),
    "max_offset": lambda client: client.max_offset(Q0),
    "offset_for_time": lambda client: client.offset_for_time(Q0, 1),
    "earliest_store_ms": lambda client: client.earliest_store_ms(Q0),
    "queues": lambda client: client.queues("T"),
}
LITE: dict[str, Use] = {
    "poll": lambda client: client.poll(0),
    "commit": lambda client: client.commit(),
    "committed": lambda client: client.committed(Q0),
    "seek": lambda client: client.seek(Q0, 0),
    "seek_to_begin": lambda client: client.seek_to_begin(Q0),
    "pause": lambda client: client.pause([Q0]),
    "resume": lambda client: client.resume([Q0]),
    "assign": lambda client: client.assign([Q0]),
    "watch_queues": lambda client: client.watch_queues("T", print),
    "replace_name_servers": lambda client: client.replace_name_servers("127.0.0.1:1"),
    "max_offset": lambda client: client.max_offset(Q0),
}
PUSH: dict[str, Use] = {
    "subscribe": lambda client: client.subscribe("U", "*", print),
    "unsubscribe": lambda client: client.unsubscribe("T"),
    "suspend": lambda client: client.suspend(),
    "resume": lambda client: client.resume(),
    "resize": lambda client: client.resize(3),
    "reset_to_time": lambda client: client.reset_to_time(1),
}
SIMPLE: dict[str, Use] = {
    "subscribe": lambda client: client.subscribe("U"),
    "unsubscribe": lambda client: client.unsubscribe("T"),
    "receive": lambda client: client.receive(),
    "ack": lambda client: client.ack([]),
    "extend": lambda client: client.extend([]),
    "nack": lambda client: client.nack([]),
}
ADMIN: dict[str, Use] = {"topics.names": lambda client: client.topics.names()}
SOON: dict[str, Use] = {"pull_raw_soon": lambda client: client.pull_raw_soon(Q0, 0)}
FAMILIES = [
    (Producer, PRODUCER),
    (PullConsumer, PULL),
    (LitePullConsumer, LITE),
    (PushConsumer, PUSH),
    (SimpleConsumer, SIMPLE),
    (Admin, ADMIN),
]
BLOCKING = [
    (producer.Producer, PRODUCER),
    (pull_consumer.PullConsumer, PULL | SOON),
    (lite_pull_consumer.LitePullConsumer, LITE),
    (push_consumer.PushConsumer, PUSH),
    (simple_consumer.SimpleConsumer, SIMPLE),
]


def cases(families: list[Any]) -> list[Any]:
    return [
        pytest.param(kind, use, id=f"{kind.__name__}.{name}") for kind, uses in families for name, use in uses.items()
    ]


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    """A name server and broker in one, which has the topic T, by the real clock."""
    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        peer.broker.put("T", b"x")
        yield peer


def made(kind: Any, peer: ScriptedPeer) -> Any:
    return kind(peer.address) if kind is Admin else kind(peer.address, group="g")


async def warm(client: Any) -> None:
    """Have it use a connection, where there is one to use: the next call need not open it."""
    for name, use in {"send": PRODUCER["send"], "pull": PULL["pull"]}.items():
        if hasattr(client, name):
            await use(client)


@contextmanager
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a child: with another process id."""
    parent = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: parent + 1)
        yield


async def used(client: Any, use: Use) -> None:
    outcome = use(client)
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.parametrize(("kind", "use"), cases(FAMILIES))
async def test_other_loop_is_told_so(peer: ScriptedPeer, kind: Any, use: Use) -> None:
    async with made(kind, peer) as client:
        await warm(client)
        with pytest.raises(WrongLoopError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(asyncio.wait_for(used(client, use), 3)))


@pytest.mark.parametrize(("kind", "use"), cases(FAMILIES))
async def test_forked_child_is_told_so(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, kind: Any, use: Use
) -> None:
    async with made(kind, peer) as client:
        await warm(client)
        with forked(monkeypatch), pytest.raises(ForkedError, match="after the fork"):
            await asyncio.to_thread(lambda: asyncio.run(asyncio.wait_for(used(client, use), 3)))


@pytest.mark.parametrize(("kind", "use"), cases(BLOCKING))
async def test_forked_child_of_a_blocking_client_is_told_so(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, kind: Any, use: Use
) -> None:
    client = made(kind, peer)
    await asyncio.to_thread(client.start)
    try:
        with forked(monkeypatch), pytest.raises(ForkedError, match="after the fork"):
            await asyncio.to_thread(use, client)
    finally:
        await asyncio.to_thread(client.close)


@pytest.mark.parametrize("kind", [kind for kind, _ in FAMILIES])
async def test_child_that_closes_leaves_the_parents_connections_alone(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    client = made(kind, peer)
    await client.start()
    await warm(client)
    runtime = client._runtime if kind is Admin else client.runtime
    with forked(monkeypatch):
        await asyncio.to_thread(lambda: asyncio.run(client.close()))
    assert not peer.requests(RequestCode.UNREGISTER_CLIENT)
    assert not runtime.is_closed
    await runtime.close()


@pytest.mark.parametrize("kind", [kind for kind, _ in FAMILIES])
async def test_client_is_closed_on_its_own_loop_alone(peer: ScriptedPeer, kind: Any) -> None:
    async with made(kind, peer) as client:
        with pytest.raises(WrongLoopError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(client.close()))
        await warm(client)


@pytest.mark.parametrize("kind", [Producer, PullConsumer, LitePullConsumer, PushConsumer, SimpleConsumer])
async def test_a_start_on_another_loop_takes_nothing_from_those_who_share_the_runtime(
    peer: ScriptedPeer, kind: type[Any]
) -> None:
    async with ClientRuntime.at(peer.address) as runtime:
        client = kind(group="g", runtime=runtime)
        with pytest.raises(WrongLoopError):
            await asyncio.to_thread(asyncio.run, client.start())
        await client.close()
        assert not runtime.is_closed
