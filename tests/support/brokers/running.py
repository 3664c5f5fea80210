"""A broker of our own on free loopback ports, in memory, and peers that talk to it as clients and administrators do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from rocketline.broker.server import Broker
from rocketline.clock import Clock, SystemClock
from rocketline.net.channel import Channel, Outcome
from rocketline.net.remote import Remote
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings

SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "64", "maxIndexNum": "4096"}


@asynccontextmanager
async def broker(
    *, clock: Clock | None = None, files: FileSystem | None = None, **settings: str
) -> AsyncIterator[Broker]:
    """`settings` are Apache's keys. Entered again with the same `files` it is the broker's next start."""
    given = {
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": "0",
        "storePathRootDir": "/store",
        "brokerFastFailureEnable": "false",  # a busy machine must not fail tests of something else
        **SMALL,
        **settings,
    }
    clock = clock or SystemClock()
    files = files or MemoryFileSystem(clock, capacity=2**30)
    async with Broker(broker_settings(**given), files=files, clock=clock) as running:
        yield running


class Peer(Protocol):
    """Who asks a broker, over a real connection or none."""

    async def request(self, command: Command, timeout_s: float) -> Command: ...

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command: ...


class BrokerPeer(Remote):
    """One connection to a broker, and what the broker said over it of its own accord."""

    def __init__(self, address: str) -> None:
        super().__init__(address, dispatch=self._receive)
        self.answers: dict[int, Command] = {}
        """How this peer answers the broker, by request code; without one it does not."""
        self._told: asyncio.Queue[Command] = asyncio.Queue()

    async def __aenter__(self) -> BrokerPeer:
        return self

    def _receive(self, channel: Channel, request: Command) -> Outcome:
        self._told.put_nowait(request)
        return self.answers.get(request.code)

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self.request(Command(code, ext or {}, body), 20)

    async def told(self) -> Command:
        """The next that the broker says; the test's timeout is the bound."""
        return await self._told.get()

    async def told_meanwhile(self) -> list[Command]:
        """All that the broker has said by now: whatever it meant to say before this question came before its answer."""
        await self.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        return [self._told.get_nowait() for _ in range(self._told.qsize())]
