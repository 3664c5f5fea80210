"""Which name server a runtime asks, and what it does when that one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ConnectError, NoNameServerError, RequestTimeoutError, TransportError
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.testing.server_process import free_port
from rocketline.wire.codes import RequestCode
from support.clients.members import ProducerDouble, settled, until

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


class Discovery:
    """An HTTP server that says where the name servers are."""

    def __init__(self, body: str, status: str = "200 OK") -> None:
        self.body, self.status = body, status
        self.paths: list[str] = []
        self.asked = asyncio.Event()
        self.domain = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Discovery]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.domain = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.paths.append(head.split(b" ")[1].decode())
        writer.write(f"HTTP/1.1 {self.status}\r\nContent-Type: text/plain\r\n\r\n{self.body}".encode())
        writer.close()
        self.asked.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.paths) < count:
                self.asked.clear()
                await self.asked.wait()


def asked(*peers: ScriptedPeer) -> list[int]:
    return [len(peer.requests(ROUTE)) for peer in peers]


async def test_discovered_addresses_are_those_of_the_first_line(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C15: with no address given, exactly those of the first line are used."""
    async with (
        Discovery(f"{peer.address};127.0.0.1:1\nignored:1").serving() as discovery,
        ClientRuntime(ClientOptions(discovery_domain=discovery.domain), clock=clock) as runtime,
    ):
        assert set(runtime.name_servers) == {peer.address, "127.0.0.1:1"}
        assert await runtime.update_route("T")


async def test_discovery_comes_at_the_start_after_10_s_and_every_2_minutes(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C16: an answer with another list replaces the first."""
    async with (
        Discovery("127.0.0.1:1").serving() as discovery,
        ClientRuntime(ClientOptions(discovery_domain=discovery.domain), clock=clock) as runtime,
    ):
        assert len(discovery.paths) == 1
        discovery.body = peer.address
        clock.advance(9.9)
        await settled()
        assert len(discovery.paths) == 1
        clock.advance(0.2)
        await discovery.wait_for(2)
        await until(lambda: runtime.name_servers == (peer.address,))
        for count in (2, 3):
            for _ in range(7):
                clock.advance(17)
                await asyncio.sleep(0.02)
            assert len(discovery.paths) == count  # 119 s are not enough
            clock.advance(1.1)
            await discovery.wait_for(count + 1)


async def test_unit_name_is_part_of_the_discovery_path(clock: FakeClock) -> None:
    """C17: the path ends `-U?nofix=1`."""
    async with Discovery("127.0.0.1:1").serving() as discovery:
        options = ClientOptions(discovery_domain=discovery.domain, unit_name="U")
        async with ClientRuntime(options, clock=clock):
            assert discovery.paths == ["/rocketmq/nsaddr-U?nofix=1"]


async def test_discovery_is_left_alone_where_an_address_is_given(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C18: not at the start and not later."""
    async with Discovery("127.0.0.1:1").serving() as discovery:
        options = ClientOptions(name_servers=(peer.address,), discovery_domain=discovery.domain)
        async with ClientRuntime(options, clock=clock) as runtime:
            clock.advance(300)
            await runtime.update_route("T")
            assert not discovery.paths


async def test_discovery_that_answers_an_error_leaves_no_name_server(clock: FakeClock) -> None:
    """A start goes on without; who needs a route is told that there is no name server (C37, runtime's part)."""
    async with (
        Discovery("127.0.0.1:1", "503 Busy").serving() as discovery,
        ClientRuntime(ClientOptions(discovery_domain=discovery.domain), clock=clock) as runtime,
    ):
        with pytest.raises(NoNameServerError) as caught:
            await runtime.update_route("T")
        assert caught.value.code == 10004


async def test_one_name_server_gets_all_questions_while_it_works(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C19: two live servers, one of them is asked."""
    async with ScriptedPeer(clock=clock) as other:
        other.route("T")
        async with ClientRuntime(ClientOptions(name_servers=(peer.address, other.address)), clock=clock) as runtime:
            for _ in range(5):
                await runtime.update_route("T")
            assert sorted(asked(peer, other)) == [0, 5]


async def test_question_goes_to_the_other_when_the_first_closes_its_connection(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C20: the next route query reaches the other within the same call."""
    async with ScriptedPeer(clock=clock) as other:
        other.route("T")
        async with ClientRuntime(ClientOptions(name_servers=(peer.address, other.address)), clock=clock) as runtime:
            await runtime.update_route("T")
            first, second = (peer, other) if peer.requests(ROUTE) else (other, peer)
            first.on(ROUTE).drop()
            await runtime.update_route("T")
            assert asked(first, second) == [2, 1]


async def test_question_goes_to_the_other_when_the_first_is_gone(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C20: likewise when nobody listens there any more."""
    async with ScriptedPeer(clock=clock) as other:
        other.route("T")
        async with ClientRuntime(ClientOptions(name_servers=(peer.address, other.address)), clock=clock) as runtime:
            await runtime.update_route("T")
            first, second = (peer, other) if peer.requests(ROUTE) else (other, peer)
            await first.stop()
            await runtime.update_route("T")
            assert asked(first, second) == [1, 1]


async def test_silent_name_server_fails_the_call_after_3_s_and_is_left(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C21: the route query fails after 3 s and the following one goes to the other."""
    async with ScriptedPeer(clock=clock) as other:
        other.route("T")
        async with ClientRuntime(ClientOptions(name_servers=(peer.address, other.address)), clock=clock) as runtime:
            await runtime.update_route("T")
            first, second = (peer, other) if peer.requests(ROUTE) else (other, peer)
            first.on(ROUTE).never()
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(_failing(runtime))
                await first.wait_for(ROUTE, 2)
                clock.advance(2.9)
                await settled()
                assert not asking.done()
                clock.advance(0.2)
            assert isinstance(asking.result(), RequestTimeoutError)
            await until(lambda: not first.connections)
            await runtime.update_route("T")
            assert asked(first, second) == [2, 1]


async def _failing(runtime: ClientRuntime) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await runtime.update_route("T")
    return caught.value


async def test_name_server_that_left_the_list_loses_its_connection(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C22: later queries go to the new list."""
    async with ScriptedPeer(clock=clock) as other:
        other.route("T")
        async with ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=clock) as runtime:
            await runtime.update_route("T")
            await runtime.replace_name_servers([other.address])
            await until(lambda: not peer.connections)
            await runtime.update_route("T")
            assert asked(peer, other) == [1, 1]


async def test_start_succeeds_with_all_name_servers_down_and_a_question_fails_soon(clock: FakeClock) -> None:
    """C23 and C24 (runtime's part)."""
    addresses = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
    async with ClientRuntime(ClientOptions(name_servers=addresses), clock=clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        with pytest.raises(ConnectError, match="no name server can be reached: look whether the address") as caught:
            await runtime.update_route("T")
        assert caught.value.address in addresses
