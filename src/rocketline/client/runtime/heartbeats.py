"""Heartbeats: telling brokers who is here, and farewells."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from rocketline.client.runtime.connections import Connections
from rocketline.client.runtime.members import Members
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.names import INNER_PRODUCER_GROUP
from rocketline.model.route import MASTER_ID
from rocketline.net.channel import Channel
from rocketline.wire import bodies, headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

DIALS_AT_ONCE: Final = 64
DIALS_A_ROUND: Final = 512
"""So many that a round ends before the next one is due, if nobody answers at any of the addresses."""
FAREWELLS_DIALLED_MAX: Final = DIALS_AT_ONCE
"""A client that closes waits for one lot, and no longer. Brokers forget clients whose connections have ended."""


def heartbeat_targets(brokers: Mapping[str, Mapping[int, str]], *, has_consumers: bool) -> list[str]:
    """The addresses that get heartbeats: slaves only where somebody may read from them.

    >>> heartbeat_targets({"b": {0: "master:1", 1: "slave:1"}}, has_consumers=False)
    ['master:1']
    """
    return [
        address
        for addresses in brokers.values()
        for broker_id, address in addresses.items()
        if has_consumers or broker_id == MASTER_ID
    ]


class Heartbeats:
    """Sends them, to all brokers at once that there is a connection to: one that is down holds up none of the others.

    Strangers may have put any number of addresses into a route, so only some are dialled at once, and in one round.
    Those dialled least lately come first; a connection that somebody else makes meanwhile begins with a heartbeat.
    """

    def __init__(
        self, members: Members, routes: ClientRoutes, connections: Connections, clock: Clock, *, timeout_s: float
    ) -> None:
        self._members, self._routes, self._connections = members, routes, connections
        self._timeout_s = timeout_s
        self._log = Throttle(clock, name=__name__, period_s=30.0)
        self._under_way: set[str] = set()
        self._told: dict[str, Channel] = {}
        """By address: the connection on which a heartbeat was last taken."""
        self._dials = asyncio.Semaphore(DIALS_AT_ONCE)
        self._dialled: dict[str, int] = {}
        """Of addresses without a connection: how many rounds there had been when each was dialled last."""
        self._rounds_begun = 0
        self._rounds = 0

    async def send_all(self, *, is_forced: bool = False) -> bool:
        """Tell every broker. False if there is nobody to tell or nothing to say, or a round is under way already.

        `is_forced`: what there is to say has changed since that round began, so it does not do.
        """
        targets = heartbeat_targets(self._routes.brokers(), has_consumers=bool(self._members.consumers))
        if (self._rounds and not is_forced) or not self._members or not targets:
            return False
        self._rounds += 1
        try:
            connected, others = self._parted(targets)
            command, dialled = self._command(), self._next_dialled(others)
            await asyncio.gather(
                *(self._send(address, command) for address in connected),
                *(self._dial(self._send(address, command)) for address in dialled),
            )
        finally:
            self._rounds -= 1
        return True

    def _parted(self, targets: Sequence[str]) -> tuple[list[str], list[str]]:
        """The addresses that there is a connection to, and the others; each once."""
        connected = {address: self._connections.channel(address) is not None for address in targets}
        return [each for each in connected if connected[each]], [each for each in connected if not connected[each]]

    def _next_dialled(self, addresses: Sequence[str]) -> list[str]:
        self._rounds_begun += 1
        known = self._dialled
        chosen = sorted(addresses, key=lambda address: known.get(address, 0))[:DIALS_A_ROUND]
        self._dialled = {address: known[address] for address in addresses if address in known}
        self._told = {each: told for each, told in self._told.items() if self._connections.channel(each) is told}
        self._dialled |= dict.fromkeys(chosen, self._rounds_begun)
        return chosen

    async def _dial(self, work: Coroutine[Any, Any, object]) -> None:
        async with self._dials:
            await work

    def _command(self) -> Command:
        """What brokers are told, encoded once for all of them."""
        return Command(RequestCode.HEART_BEAT, body=bodies.encode(self._members.heartbeat()))

    async def send(self, address: str) -> bool:
        """Tell one broker; whether it took it. A failure is logged."""
        return bool(self._members) and await self._send(address, self._command())

    async def _send(self, address: str, command: Command) -> bool:
        self._under_way.add(address)
        try:
            answer = await self._connections.ask(address, command, self._timeout_s)
        except RocketlineError as error:
            self._log.warning("heartbeat failed", str(error), broker=address)
            return False
        finally:
            self._under_way.discard(address)
        if answer.code != ResponseCode.SUCCESS:
            self._log.warning("heartbeat refused", f"code {answer.code}: {answer.remark}", broker=address)
            return False
        self._routes.learn_version(address, answer.version)
        channel = self._connections.channel(address)
        if channel is not None:
            self._told[address] = channel
        return True

    def is_told(self, address: str) -> bool:
        """The broker knows on the present connection who is here: what it has for us can reach us."""
        channel = self._connections.channel(address)
        return channel is not None and self._told.get(address) is channel

    def is_wanted(self, address: str) -> bool:
        """A new connection to `address` should begin with a heartbeat: it is a broker's, and none is on its way."""
        return bool(self._members) and address not in self._under_way and self._routes.is_known(address)

    async def say_farewells(self, client_id: str) -> None:
        """For every member that is still here and, at last, for the inner producer."""
        await asyncio.gather(
            *(self.say_farewell(client_id, producer=group) for group in self._members.producers),
            *(self.say_farewell(client_id, consumer=group) for group in self._members.consumers),
        )
        await self.say_farewell(client_id, producer=INNER_PRODUCER_GROUP)

    async def say_farewell(self, client_id: str, *, producer: str | None = None, consumer: str | None = None) -> None:
        """UNREGISTER_CLIENT for one group, to every broker that is known, master or slave; of those without a
        connection only to some, if there are too many. A failure is logged."""
        header = headers.UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer, consumer_group=consumer
        )
        command = Command(RequestCode.UNREGISTER_CLIENT, headers.encode(header))
        targets = heartbeat_targets(self._routes.brokers(), has_consumers=True)
        connected, others = self._parted(targets)
        await asyncio.gather(
            *(self._unregister(address, command) for address in connected),
            *(self._dial(self._unregister(address, command)) for address in others[:FAREWELLS_DIALLED_MAX]),
        )

    async def _unregister(self, address: str, command: Command) -> None:
        try:
            await self._connections.ask(address, command, self._timeout_s)
        except RocketlineError as error:
            self._log.warning("farewell failed", str(error), broker=address)
