"""A client's runtime without a network: it answers what a test says, notes what it was asked, and has its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.requests import command_of
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import response_error
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import bodies, headers
from rocketline.wire.command import Command, response
from rocketline.wire.headers import Header

Answer = Callable[[Command], Command]
ADDRESS = "127.0.0.1:20911"


def queues(count: int, *, topic: str = "T", broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for number in range(count)]


def a_route(count: int, brokers: dict[str, dict[int, str]] | None = None) -> TopicRouteData:
    """A route with so many queues on each broker."""
    brokers = brokers if brokers is not None else {"b": {0: ADDRESS}}
    return TopicRouteData(
        [QueueData(name, count, count, 6) for name in brokers],
        [BrokerData("c", name, addresses) for name, addresses in brokers.items()],
    )


def answered(header: Header | None = None, body: object = b"", *, code: int = 0) -> Answer:
    """Always this answer."""
    ext = headers.encode(header) if header else {}
    data = body if isinstance(body, bytes) else bodies.encode(body)
    return lambda request: response(code, "as the test says", ext=dict(ext), body=data)


@dataclass(slots=True)
class Alarm:
    due_s: float
    action: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class RuntimeDouble:
    """Use `runtime` where a `ClientRuntime` is wanted."""

    client_id: str = "me"
    clock: FakeClock = field(default_factory=FakeClock)
    routes: ClientRoutes = field(default_factory=ClientRoutes)
    options: ClientOptions = field(default_factory=ClientOptions)
    answers: dict[type[Header], Answer] = field(default_factory=dict)
    known_routes: dict[str, TopicRouteData] = field(default_factory=dict)
    """What the name server would say."""
    asked: list[tuple[str, Command]] = field(default_factory=list)
    """Address and request, also of oneway ones."""
    alarms: list[Alarm] = field(default_factory=list)
    route_updates: list[str] = field(default_factory=list)
    wakes: int = 0
    heartbeats: int = 0

    @property
    def runtime(self) -> ClientRuntime:
        return cast(ClientRuntime, self)

    def requests(self, kind: type[Header]) -> list[Any]:
        """The headers of all requests of a kind."""
        return [headers.decode(kind, one.ext) for one in self.commands(kind)]

    def commands(self, kind: type[Header]) -> list[Command]:
        return [command for _, command in self.asked if command.code == command_of_kind(kind)]

    def answer(self, kind: type[Header], header: Header | None = None, body: object = b"", *, code: int = 0) -> None:
        self.answers[kind] = answered(header, body, code=code)

    async def ask_ok(
        self, address: str, header: Header, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> Command:
        request = command_of(header, body)
        self.asked.append((address, request))
        reply = self.answers[type(header)](request)
        if reply.code:
            raise response_error(reply.code, reply.remark)
        return reply

    async def send_oneway(
        self, address: str, header: Header, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> None:
        self.asked.append((address, command_of(header, body)))

    async def update_route(self, topic: str) -> bool:
        self.route_updates.append(topic)
        route = self.known_routes.get(topic)
        return route is not None and self.routes.apply(topic, route)

    async def heartbeat_all(self, *, even_if_running: bool = False) -> bool:
        self.heartbeats += 1
        return True

    def wake_rebalance(self) -> None:
        self.wakes += 1

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        alarm = Alarm(self.clock.monotonic() + delay_s, action)
        self.alarms.append(alarm)
        return alarm

    def advance(self, seconds: float) -> None:
        """Let time pass: what becomes due is called."""
        self.clock.advance(seconds)
        due = [alarm for alarm in self.alarms if alarm.due_s <= self.clock.monotonic()]
        self.alarms = [alarm for alarm in self.alarms if alarm not in due]
        for alarm in due:
            if not alarm.is_cancelled:
                alarm.action()

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """A wait that is not over at once takes all its time."""
        if not event.is_set():
            self.clock.advance(timeout_s)
        return event.is_set()


def command_of_kind(kind: type[Header]) -> int:
    return next(code for code, header in headers.REQUEST_HEADERS.items() if header is kind)
