"""A connection that the client itself drops, because its broker left all routes, is a lost one to whoever waits."""

from __future__ import annotations

import asyncio

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.connections import Connections, RequestDecorator
from rocketline.clock import SystemClock
from rocketline.errors import ConnectionLostError
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command, response


async def test_requests_that_wait_for_a_dropped_connection_may_be_tried_again() -> None:
    options = ClientOptions(name_servers=("127.0.0.1:1",))
    connections = Connections(
        options,
        RequestDecorator(options),
        SystemClock(),
        tls=None,
        dispatch=lambda channel, request: response(0),
        on_connect=lambda address: None,
        on_lost=lambda address: None,
    )
    async with ScriptedPeer() as peer:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_problem(connections, peer.address)) for _ in range(3)]
            await asyncio.sleep(0)
            await connections.drop([peer.address])
        assert {type(task.result()) for task in asked} == {ConnectionLostError}
        answer = await connections.ask(peer.address, Command(RequestCode.CHECK_CLIENT_CONFIG), 5)
        assert answer.code == 0
        await connections.close()


async def _problem(connections: Connections, address: str) -> Exception | None:
    with pytest.raises(ConnectionLostError) as caught:
        await connections.ask(address, Command(RequestCode.CHECK_CLIENT_CONFIG), 5)
    return caught.value
