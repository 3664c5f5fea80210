"""Faults on demand, for a test server: what a broker or the network does to a client on a bad day.

    server.faults.refuse(RequestCode.SEND_MESSAGE_V2, 2, nth=3)      # the third send from now on: busy
    server.faults.drop_after(RequestCode.SEND_MESSAGE_V2)            # stored, and the connection is gone

Each fault waits for requests of one code, lets `nth - 1` of them pass, happens to the next `times`, and is over.
Servers know nothing of it: their dispatch is wrapped from outside, and while a fault waits their hot paths are off.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rocketline.hot import HotPath
from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Dispatcher
from rocketline.net.server import Server
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import ONEWAY_FLAG, Command, response

SEND_CODES: Final = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})

_Handle: TypeAlias = Callable[[Channel, Command], Outcome]
_Effect: TypeAlias = Callable[[Channel, Command, _Handle], Outcome]
_Applies: TypeAlias = Callable[[Command], bool]


@dataclass(slots=True, eq=False)
class Fault:
    """One fault that waits or happens; `happened` counts how often it did."""

    applies: _Applies
    effect: _Effect
    passes: int
    left: int
    happened: int = 0

    @property
    def is_over(self) -> bool:
        return not self.left


class Faults:
    """All faults of a server. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._watched: list[tuple[Server, HotPath | None]] = []
        self._later: set[asyncio.TimerHandle] = set()

    # --- what a test asks for

    def refuse(self, code: int, with_code: int, remark: str = "injected", *, nth: int = 1, times: int = 1) -> Fault:
        """The request is not handled, and answered with this response code."""
        return self._add(_is(code), lambda channel, request, handle: response(with_code, remark), nth, times)

    def delay(self, code: int, seconds: float, *, nth: int = 1, times: int = 1) -> Fault:
        """The request is handled, and answered, so much later."""

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            self._handle_later(channel, request, handle, seconds)
            return LATER

        return self._add(_is(code), effect, nth, times)

    def ignore(self, code: int, *, nth: int = 1, times: int = 1) -> Fault:
        """The request is not handled and never answered; the connection stays."""
        return self._add(_is(code), lambda channel, request, handle: None, nth, times)

    def drop_before(self, code: int, *, nth: int = 1, times: int = 1) -> Fault:
        """The connection closes, and the request is not handled."""

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            channel.abort()
            return None

        return self._add(_is(code), effect, nth, times)

    def drop_after(self, code: int, *, nth: int = 1, times: int = 1) -> Fault:
        """The request is handled, a message stored, and the connection closes instead of the answer."""

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            handle(channel, request)
            channel.abort()
            return None

        return self._add(_is(code), effect, nth, times)

    def flush_timeout(self, *, nth: int = 1, times: int = 1) -> Fault:
        """A message is stored, and its sender told that the disk was not in time (code 10)."""

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            outcome = handle(channel, request)
            if isinstance(outcome, Command) and outcome.code == ResponseCode.SUCCESS:
                return replace(outcome, code=ResponseCode.FLUSH_DISK_TIMEOUT, remark="injected")
            return outcome

        return self._add(_is_send, effect, nth, times)

    def duplicate(self, *, nth: int = 1, times: int = 1) -> Fault:
        """A message is stored twice, as after a retry whose first attempt had arrived: consumers get it twice."""

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            handle(channel, replace(request, ext=dict(request.ext), flag=request.flag | ONEWAY_FLAG))
            return handle(channel, request)

        return self._add(_is_send, effect, nth, times)

    def stale_route(self, topic: str) -> Fault:
        """The name server goes on giving the topic's route as it is when next asked for, until `clear`."""
        first: list[Command] = []

        def effect(channel: Channel, request: Command, handle: _Handle) -> Outcome:
            if not first:
                outcome = handle(channel, request)
                assert isinstance(outcome, Command)
                first.append(outcome)
            return replace(first[0])

        return self._add(lambda request: _asks_route(request, topic), effect, 1, -1)

    def clear(self) -> None:
        """Forget all faults that have not happened yet. What is delayed still comes."""
        with self._lock:
            self._faults.clear()
        self._set_hot_paths()

    @property
    def waiting(self) -> int:
        """How many faults have not happened yet, or not for the last time."""
        return len(self._faults)

    # --- what a server does with it

    def watch(self, server: Server) -> None:
        """Put these faults between a server and its handlers."""
        server.dispatch = _FaultyDispatcher(self, server.dispatch, Throttle(server.clock))
        self._watched.append((server, server.hot_path))
        self._set_hot_paths()

    def close(self) -> None:
        """Drop what is delayed. Called on the server's loop when it ends."""
        for timer in self._later:
            timer.cancel()
        self._later.clear()

    def handle(self, channel: Channel, request: Command, handle: _Handle) -> Outcome:
        fault = self._next(request)
        return handle(channel, request) if fault is None else fault.effect(channel, request, handle)

    def _add(self, applies: _Applies, effect: _Effect, nth: int, times: int) -> Fault:
        if nth < 1 or not times:
            raise ValueError(f"nth={nth}, times={times}: the first request is number 1, and it happens at least once")
        fault = Fault(applies, effect, nth - 1, times)
        with self._lock:
            self._faults.append(fault)
        self._set_hot_paths()
        return fault

    def _next(self, request: Command) -> Fault | None:
        """The fault for this request, if it is some fault's turn. Every fault that waits for its code counts it."""
        with self._lock:
            waiting = [fault for fault in self._faults if fault.applies(request)]
            due = next((fault for fault in waiting if not fault.passes), None)
            for fault in waiting:
                fault.passes = max(fault.passes - 1, 0)
            if due is None:
                return None
            due.left, due.happened = due.left - 1, due.happened + 1
            if due.is_over:
                self._faults.remove(due)
        self._set_hot_paths()
        return due

    def _set_hot_paths(self) -> None:
        # A plain assignment, read by the loop before each read: that another thread makes it does no harm.
        for server, hot_path in self._watched:
            server.hot_path = None if self._faults else hot_path

    def _handle_later(self, channel: Channel, request: Command, handle: _Handle, seconds: float) -> None:
        def now() -> None:
            self._later.discard(timer)
            outcome = handle(channel, request)
            if isinstance(outcome, Command):
                channel.reply(request, outcome)

        timer = asyncio.get_running_loop().call_later(seconds, now)
        self._later.add(timer)


class _FaultyDispatcher(Dispatcher):
    """Asks the faults first."""

    def __init__(self, faults: Faults, inner: Dispatcher, log: Throttle) -> None:
        super().__init__({}, log)
        self._faults, self._inner = faults, inner

    def __call__(self, channel: Channel, request: Command) -> Outcome:
        return self._faults.handle(channel, request, self._inner)


def _is(code: int) -> _Applies:
    return lambda request: request.code == code


def _is_send(request: Command) -> bool:
    return request.code in SEND_CODES


def _asks_route(request: Command, topic: str) -> bool:
    return request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and request.ext.get("topic") == topic
