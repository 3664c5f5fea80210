"""How much a round of heartbeats costs, whatever addresses strangers have put into routes."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from rocketline.client.runtime.connections import Connections
from rocketline.client.runtime.heartbeats import DIALS_A_ROUND, DIALS_AT_ONCE, FAREWELLS_DIALLED_MAX, Heartbeats
from rocketline.client.runtime.members import Members
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.errors import ConnectError
from rocketline.model.heartbeat import HeartbeatData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command, response
from support.clients.members import ConsumerDouble, settled
from support.clients.runtime_double import a_route

LIVE = "live:1"
DEAD = [f"dead-{number}:1" for number in range(2000)]


class Network:
    """Answers at LIVE, where there is a connection. All others hang until `hang_up`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.dialling = self.dialling_most = 0
        self._over = asyncio.Event()

    def channel(self, address: str) -> object | None:
        return self if address == LIVE else None

    async def ask(self, address: str, command: Command, timeout_s: float) -> Command:
        self.told.append(address)
        if address == LIVE:
            return response(0)
        self.dialling += 1
        self.dialling_most = max(self.dialling, self.dialling_most)
        await self._over.wait()
        self.dialling -= 1
        raise ConnectError(address, "nobody is there")

    def hang_up(self) -> None:
        self._over.set()


class CountingMembers(Members):
    said = 0

    def heartbeat(self) -> HeartbeatData:
        self.said += 1
        return super().heartbeat()


class Scene:
    def __init__(self) -> None:
        self.network, self.members, routes = Network(), CountingMembers("me"), ClientRoutes()
        self.members.add_consumer("C", ConsumerDouble("C", "T"))
        routes.apply("T", a_route(1, {"lies": dict(enumerate(DEAD)), "true": {0: LIVE}}))
        connections = cast(Connections, self.network)
        self.heartbeats = Heartbeats(self.members, routes, connections, FakeClock(), timeout_s=3)


async def test_round_dials_some_at_once_and_encodes_once() -> None:
    scene = Scene()
    async with asyncio.TaskGroup() as group:
        group.create_task(scene.heartbeats.send_all())
        await settled()
        assert LIVE in scene.network.told, "whoever is connected hears of us at once"
        assert scene.network.dialling == DIALS_AT_ONCE
        scene.network.hang_up()
    assert len(scene.network.told) == 1 + DIALS_A_ROUND
    assert scene.network.dialling_most == DIALS_AT_ONCE
    assert scene.members.said == 1


async def test_every_address_has_its_turn_and_connections_have_each() -> None:
    scene = Scene()
    scene.network.hang_up()
    rounds = -(-len(DEAD) // DIALS_A_ROUND)
    for _ in range(rounds):
        await scene.heartbeats.send_all()
    assert set(scene.network.told) == {LIVE, *DEAD}
    assert scene.network.told.count(LIVE) == rounds


@pytest.mark.parametrize("count", [1, 3])
async def test_farewell_waits_for_one_lot_of_dials(count: int) -> None:
    scene = Scene()
    scene.network.hang_up()
    for _ in range(count):
        await scene.heartbeats.say_farewell("me", consumer="C")
    assert len(scene.network.told) == count * (1 + FAREWELLS_DIALLED_MAX)
