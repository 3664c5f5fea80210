"""A whole server for tests: a name server and brokers, on free loopback ports, in memory, in a fraction of a second.

It lives in a thread of this process. With `Server(process=True)` it is a child process, to be paused and killed.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rocketline.errors import ConfigError
from rocketline.testing import setting_up
from rocketline.testing.faults import Faults
from rocketline.testing.server_child import ServerChild
from rocketline.testing.server_process import ServerProcess
from rocketline.testing.server_thread import ServerThread
from rocketline.testing.virtual_time import VirtualClock


class Server:
    """A name server and `brokers` masters, from `start` to `close`, or for as long as its `with` block.

    `settings` are lines of Apache's `broker.conf`. `folder` keeps what brokers store, where a next `Server` finds it;
    without it everything is in memory.

    >>> from rocketline import Message, LitePullConsumer, Producer
    >>> with Server() as server:
    ...     server.create_topic("orders")
    ...     with Producer(server.address, group="shop") as producer:
    ...         _ = producer.send(Message("orders", b"42", delay_level=18))
    ...     server.advance(2 * 3600)  # two hours pass: what was delayed is delivered, retries are due
    ...     with LitePullConsumer(server.address, group="audit") as consumer:
    ...         consumer.subscribe("orders")
    ...         print(next(iter(consumer)).body)
    b'42'
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
        self._running: ServerThread | ServerChild | None = None

    def start(self) -> Self:
        """Return once clients can connect and find the brokers."""
        if self._running is not None:
            raise ConfigError(["this server runs already: each Server is one"])
        self._running = (ServerChild if self._is_process else ServerThread)(self._brokers, self._settings, self._folder)
        atexit.register(self.close)  # should nobody else close it
        return self

    def close(self) -> None:
        """End it. Does nothing the second time."""
        if self._running is not None:
            self._running.close()
            self._running = None
            atexit.unregister(self.close)

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
        are delivered, popped messages that nobody acknowledged come again, expired files are deleted. Clients stay
        connected."""
        self._thread.call(self._thread.advance(seconds))

    # --- as a child process only

    @property
    def process(self) -> ServerProcess:
        """The child: to pause, resume or kill."""
        if not isinstance(self._started, ServerChild):
            raise ConfigError(["this server has no process of its own: make it with Server(process=True)"])
        return self._started.process

    @property
    def _started(self) -> ServerThread | ServerChild:
        if self._running is None:
            raise ConfigError(["this server does not run: use it in a `with` block, or call start()"])
        return self._running

    @property
    def _thread(self) -> ServerThread:
        if not isinstance(self._started, ServerThread):
            raise ConfigError(["only a server in this process has a clock and faults: leave out process=True"])
        return self._started

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
