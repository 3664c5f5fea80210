from __future__ import annotations

import asyncio
import time

import pytest

from rocketline.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from rocketline.net.remote import Remote
from rocketline.testing.fault_proxy import FaultProxy
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

BEAT = Command(RequestCode.CHECK_CLIENT_CONFIG)


async def test_requests_pass_both_ways() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        assert (await client.request(BEAT, 5)).code == 0
        assert (await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)).code == 3
        assert proxy.connections == 1


async def test_much_data_comes_through_in_order() -> None:
    body = bytes(range(256)) * 40_000
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        peer.on(BEAT.code).call(lambda received: Command(0, body=received.body))
        proxy.delay_s = 0.001
        assert (await client.request(Command(BEAT.code, body=body), 20)).body == body


async def test_a_cut_ends_the_connection_and_the_next_one_works() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        peer.on(BEAT.code).never().default()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(_problem(client))
            await peer.wait_for(BEAT.code)
            proxy.cut()
        assert isinstance(asked.result(), ConnectionLostError)
        assert (await client.request(BEAT, 5)).code == 0
        assert proxy.connections_cut == 1


async def test_bytes_are_late_by_the_delay() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        proxy.delay_s = 0.1
        begin = time.monotonic()
        await client.request(BEAT, 5)
        assert time.monotonic() - begin >= 0.2


async def test_a_black_hole_takes_connections_and_swallows_requests() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        proxy.is_black_hole = True
        await client.connect(5)
        with pytest.raises(RequestTimeoutError):
            await client.request(BEAT, 0.1)
        assert not peer.received
        proxy.pass_on()
        assert (await client.request(BEAT, 5)).code == 0
        assert len(peer.received) == 2


async def test_a_proxy_that_refuses_and_a_target_that_is_gone_end_connections() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy:
        await peer.stop()
        async with Remote(proxy.address) as client:
            assert isinstance(await _problem(client), ConnectionLostError)
        await peer.start()
        proxy.refuses = True
        async with Remote(proxy.address) as client:
            assert isinstance(await _problem(client), ConnectionLostError | ConnectError)
        proxy.refuses = False
        async with Remote(proxy.address) as client:
            assert (await client.request(BEAT, 5)).code == 0


async def test_a_peer_that_hangs_up_is_seen_on_the_other_side() -> None:
    async with ScriptedPeer() as peer, FaultProxy(peer.address) as proxy, Remote(proxy.address) as client:
        peer.on(BEAT.code).drop().default()
        assert isinstance(await _problem(client), ConnectionLostError)
        assert (await client.request(BEAT, 5)).code == 0


async def _problem(client: Remote) -> Exception | None:
    try:
        await client.request(BEAT, 5)
    except (ConnectionLostError, ConnectError) as error:
        return error
    return None
