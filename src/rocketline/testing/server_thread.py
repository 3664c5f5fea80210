"""A name server and brokers on a loop of their own, in a thread of this process."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from rocketline.broker.config import load_settings as load_broker
from rocketline.broker.server import Broker
from rocketline.hot import HotPath
from rocketline.nameserver.config import load_settings as load_name_server
from rocketline.nameserver.server import NameServer
from rocketline.net import server as net
from rocketline.net.dispatch import Handler
from rocketline.net.loop import loop_factory
from rocketline.settings import Flag
from rocketline.store.filesystem import DiskFileSystem, FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.broker import PATIENCE
from rocketline.testing.faults import Faults
from rocketline.testing.server_process import LOOPBACK
from rocketline.testing.virtual_time import VirtualClock

Result = TypeVar("Result")

_MEMORY_BYTES: Final = 2**30
_SETTINGS: Final = {
    "bindAddress": LOOPBACK,
    "brokerIP1": LOOPBACK,
    "brokerIP2": LOOPBACK,
    "mappedFileSizeCommitLog": str(16 * 1024**2),
    **PATIENCE,
}


class ServerThread:
    """The servers, from the end of its making to `close`. `ports` are the name server's and one for each broker."""

    def __init__(
        self, brokers: int, settings: Mapping[str, str], folder: Path | None, ports: list[int] | None = None
    ) -> None:
        self.clock, self.faults = VirtualClock(), Faults()
        self._settings, self._folder = settings, folder
        self._ports = ports or [0] * (brokers + 1)
        self._brokers: list[Broker] = []
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="rocketline-test-server", daemon=True)
        self._thread.start()
        self._ready.result()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` on the servers' loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def advance(self, seconds: float) -> None:
        self.clock.turn(seconds)
        for broker in self._brokers:
            store, schedule = broker.storage.store, broker.storage.schedule
            while schedule.deliver() <= 0:
                continue
            while broker.services.merge.store_due():  # before the timers: checkpoints may be due already
                continue
            while broker.storage.timers is not None and broker.storage.timers.step() == 0:
                continue
            while broker.services.revival is not None and broker.services.revival.look() == 0:
                continue
            store.delete_expired()
            store.unlink(store.clean())

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
                runner.run(self._live())
        except BaseException as error:  # whoever waits in __init__ gets it
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _live(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        with tempfile.TemporaryDirectory(prefix="rocketline-") as passing:
            async with AsyncExitStack() as stack:
                stack.callback(self.faults.close)
                folder = self._folder or Path(passing)
                name_server = await stack.enter_async_context(self._name_server(folder))
                self.address = name_server.address
                for number, port in enumerate(self._ports[1:]):
                    broker = self._broker(folder, f"broker-{chr(ord('a') + number)}", port)
                    self._brokers.append(await stack.enter_async_context(broker))
                self.broker_addresses = tuple(broker.address for broker in self._brokers)
                self._ready.set_result(None)
                await self._stop.wait()

    def _name_server(self, folder: Path) -> NameServer:
        own = {
            "bindAddress": LOOPBACK,
            "listenPort": str(self._ports[0]),
            "kvConfigPath": str(folder / "kvConfig.json"),
            "configStorePath": str(folder / "namesrv.properties"),
        }
        return _WatchedNameServer(load_name_server(environ={}, flags=_flags(own)), faults=self.faults)

    def _broker(self, folder: Path, name: str, port: int) -> Broker:
        own = _SETTINGS | {
            "brokerName": name,
            "listenPort": str(port),
            "namesrvAddr": self.address,
            "storePathRootDir": str(folder / name / "store"),
            "brokerConfigPath": str(folder / name / "broker.properties"),
        }
        files: FileSystem = DiskFileSystem()
        if self._folder is None:
            files = MemoryFileSystem(self.clock, capacity=_MEMORY_BYTES)
        settings = load_broker(environ={}, flags=_flags(own | dict(self._settings)))
        return _WatchedBroker(settings, files=files, clock=self.clock, faults=self.faults)


class _WatchedNameServer(NameServer):
    def __init__(self, *arguments: Any, faults: Faults) -> None:
        super().__init__(*arguments)
        self._faults = faults

    def _make_server(self) -> net.Server:
        server = super()._make_server()
        self._faults.watch(server)
        return server


class _WatchedBroker(Broker):
    def __init__(self, *arguments: Any, faults: Faults, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._faults = faults

    def _server(self, port: int, handlers: dict[int, Handler], hot_path: HotPath | None) -> net.Server:
        server = super()._server(port, handlers, hot_path)
        self._faults.watch(server)
        return server


def _flags(settings: Mapping[str, str]) -> list[Flag]:
    return [Flag("Server", key, value) for key, value in settings.items()]
