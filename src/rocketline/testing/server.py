"""A whole server for tests: a name server and brokers, on free loopback ports, in memory, in a fraction of a second.

    with Server() as server:
        server.create_topic("orders")
        with Producer(server.address, group="shop") as producer: ...
        server.advance(3600)                       # an hour passes: delayed messages and retries are delivered
        server.faults.drop_after(RequestCode.SEND_MESSAGE_V2)

It lives in a thread of this process. With `Server(process=True)` it is a child process, to be paused and killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from rocketline.broker.config import load_settings as load_broker
from rocketline.broker.server import Broker
from rocketline.errors import ConfigError
from rocketline.hot import HotPath
from rocketline.nameserver.config import load_settings as load_name_server
from rocketline.nameserver.server import NameServer
from rocketline.net import server as net
from rocketline.net.dispatch import Handler
from rocketline.net.loop import loop_factory
from rocketline.settings import Flag
from rocketline.store.filesystem import DiskFileSystem, FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing import setting_up
from rocketline.testing.faults import Faults
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port
from rocketline.testing.virtual_time import VirtualClock

Result = TypeVar("Result")

_MEMORY_BYTES: Final = 2**30
_SETTINGS: Final = {
    "bindAddress": LOOPBACK,
    "brokerIP1": LOOPBACK,
    "brokerIP2": LOOPBACK,
    "mappedFileSizeCommitLog": str(16 * 1024**2),
    "brokerFastFailureEnable": "false",  # a machine that is busy with tests must not fail them
}
_OPTIONS: Final = "ROCKETLINE_TEST_SERVER"


class Server:
    """A name server and `brokers` masters, from `start` to `close`, or for as long as its `with` block.

    `settings` are lines of Apache's `broker.conf`. `folder` keeps what brokers store, where a next `Server` finds it;
    without it everything is in memory.
    """

    def __init__(
        self,
        *,
        process: bool = False,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        if not 1 <= brokers <= 26:
            raise ConfigError([f"brokers={brokers}: there are names for 1 to 26"])
        self._is_process, self._brokers = process, brokers
        self._settings, self._folder = dict(settings or {}), folder
        self._running: _Thread | _Child | None = None

    def start(self) -> Self:
        """Return once clients can connect and find the brokers."""
        self._running = (_Child if self._is_process else _Thread)(self._brokers, self._settings, self._folder)
        return self

    def close(self) -> None:
        """End it. Does nothing the second time."""
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def address(self) -> str:
        """Of the name server: all that a client needs to know."""
        return self._started.address

    @property
    def broker_addresses(self) -> tuple[str, ...]:
        return self._started.broker_addresses

    def create_topic(self, topic: str, *, queues: int = 4, perm: int = 6, attributes: str | None = None) -> None:
        """Make, or change, a topic on every broker; clients find it when this returns."""
        setting_up.create_topic(
            self.address, self.broker_addresses, topic, queues=queues, perm=perm, attributes=attributes
        )

    def create_group(self, group: str, *, retry_max_times: int = 16) -> None:
        """Make, or change, a consumer group on every broker, with the topic for its retries.

        Groups that are not made come with their first use, but for the first half minute without retries.
        """
        setting_up.create_group(self.address, self.broker_addresses, group, retry_max_times=retry_max_times)

    # --- in this process only

    @property
    def faults(self) -> Faults:
        """What goes wrong on demand."""
        return self._thread.faults

    @property
    def clock(self) -> VirtualClock:
        """The brokers' clock; turn it with `advance`."""
        return self._thread.clock

    def advance(self, seconds: float) -> None:
        """Let so much time pass for the brokers. What came due is done when this returns: delayed messages and retries
        are delivered, expired files deleted. Clients stay connected."""
        self._thread.call(self._thread.advance(seconds))

    # --- as a child process only

    @property
    def process(self) -> ServerProcess:
        """The child: to pause, resume or kill."""
        if not isinstance(self._started, _Child):
            raise ConfigError(["this server has no process of its own: make it with Server(process=True)"])
        return self._started.process

    @property
    def _started(self) -> _Thread | _Child:
        if self._running is None:
            raise ConfigError(["this server does not run: use it in a `with` block, or call start()"])
        return self._running

    @property
    def _thread(self) -> _Thread:
        if not isinstance(self._started, _Thread):
            raise ConfigError(["only a server in this process has a clock and faults: leave out process=True"])
        return self._started

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Thread:
    """The servers on a loop of their own, in a thread of their own."""

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
            store, schedule = broker.kept.store, broker.kept.schedule
            store.delete_expired()
            store.unlink(store.clean())
            while schedule.deliver() <= 0:
                continue

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


class _Child:
    """The same in a child process, which ends with this one."""

    def __init__(self, brokers: int, settings: Mapping[str, str], folder: Path | None) -> None:
        ports = [free_port() for _ in range(brokers + 1)]
        self._folder = tempfile.TemporaryDirectory(prefix="rocketline-")
        options = {"settings": dict(settings), "folder": folder and str(folder.absolute()), "ports": ports}
        self.process = ServerProcess(
            f"Rocketline's test server on {ports[0]}",
            [sys.executable, "-m", __name__],
            port=ports[0],
            output=Path(self._folder.name) / "output.txt",
            environment={_OPTIONS: json.dumps(options)},
        )
        self.address = self.process.address
        self.broker_addresses = tuple(f"{LOOPBACK}:{port}" for port in ports[1:])
        try:
            self.process.wait_until_ready()
            for address in self.broker_addresses:
                is_found = partial(setting_up.is_registered, self.address, address)
                self.process.wait_until(is_found, f"registered with its broker {address}")
        except BaseException:
            self.process.kill()
            self._folder.cleanup()
            raise

    def close(self) -> None:
        self.process.close()
        self._folder.cleanup()


def _flags(settings: Mapping[str, str]) -> list[Flag]:
    return [Flag("Server", key, value) for key, value in settings.items()]


def _serve_child() -> None:
    """What the child does: serve until its parent closes the pipe, is gone, or says SIGTERM."""
    options = json.loads(os.environ[_OPTIONS])
    folder = options["folder"] and Path(options["folder"])
    # Blocked in every thread, for the main one to wait for: no other is to be interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    servers = _Thread(len(options["ports"]) - 1, options["settings"], folder, options["ports"])
    threading.Thread(target=_watch_parent, name="watch-parent", daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    servers.close()


def _watch_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _serve_child()
