"""Requests that wait for their replies. Java: RequestFutureHolder.

A request costs an entry in two tables and no timer: those whose time ends in the same fiftieth of a second share one.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from rocketline.client.replies import ReceivedReply
from rocketline.client.scheduling import Alarm
from rocketline.clock import Clock
from rocketline.errors import ClosedError, NoReplyError, OverloadedError, RemoteProtocolError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.sys_flags import COMPRESSED, compression_type
from rocketline.wire.compression import decompress
from rocketline.wire.headers import ReplyMessageRequestHeader
from rocketline.wire.properties import parse_properties

_TICKS_A_SECOND: Final = 50
_REMEMBERED_MAX: Final = 10_000
"""So many requests without a reply are remembered, to tell a late reply from one that nobody ever asked for."""


class _Timing(Protocol):
    """What a runtime has of it."""

    @property
    def clock(self) -> Clock: ...

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm: ...


class _Receipt(Protocol):
    """A `SendReceipt`."""

    @property
    def place(self) -> str: ...


class ReplyCounts(NamedTuple):
    """What became of a client's requests, beside the replies that came in time."""

    waiting: int
    """Requests that wait for their reply now."""
    late: int
    """Replies that came after the time of their request was over."""
    unknown: int
    """Replies whose request nobody here knows: answered already, or of another life of this client."""


class PendingRequest:
    """One request, from before it is sent until its reply, its error or the end of its time."""

    __slots__ = ("correlation_id", "owner", "receipt", "reply", "tick", "timeout_s", "topic")

    def __init__(self, owner: str, topic: str, timeout_s: float, tick: int) -> None:
        self.owner, self.topic, self.timeout_s, self.tick = owner, topic, timeout_s, tick
        self.correlation_id = str(uuid.uuid4())
        self.reply: asyncio.Future[ReceivedReply] = asyncio.get_running_loop().create_future()
        self.receipt: _Receipt | None = None
        """Once it is stored."""

    def fail(self, error: Exception) -> None:
        """End it with that, unless it has ended."""
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # marks it as seen: whoever waited may have been cancelled meanwhile


class PendingRequests:
    """The requests of all producers of one runtime: brokers know the runtime's client id alone. On one loop."""

    def __init__(self, timing: _Timing) -> None:
        self._timing = timing
        self._log = Throttle(timing.clock, name=__name__)
        self._by_id: dict[str, PendingRequest] = {}
        self._by_tick: dict[int, dict[str, PendingRequest]] = {}
        self._alarms: dict[int, Alarm] = {}
        self._overdue: dict[str, float] = {}
        """When the time of a request was over that got no reply."""
        self._late = self._unknown = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._by_id)

    @property
    def counts(self) -> ReplyCounts:
        return ReplyCounts(len(self._by_id), self._late, self._unknown)

    def add(self, owner: str, topic: str, timeout_s: float, *, waiting_max: int) -> PendingRequest:
        """Begin to wait for the reply to a request that `owner`, a producer's group, is about to send to `topic`.

        Raises `OverloadedError` if `waiting_max` wait already.
        """
        if len(self._by_id) >= waiting_max:
            raise OverloadedError(
                f"producer {owner!r}",
                f"{waiting_max} requests wait for their replies already (async_in_flight_max): wait for some of them",
            )
        now_s = self._timing.clock.monotonic()
        tick = math.ceil((now_s + max(timeout_s, 0.0)) * _TICKS_A_SECOND)
        pending = PendingRequest(owner, topic, timeout_s, tick)
        self._by_id[pending.correlation_id] = pending
        together = self._by_tick.get(tick)
        if together is None:
            together = self._by_tick[tick] = {}
            self._alarms[tick] = self._timing.call_later(tick / _TICKS_A_SECOND - now_s, lambda: self._expire(tick))
        together[pending.correlation_id] = pending
        return pending

    def forget(self, pending: PendingRequest) -> None:
        """Nobody waits for it any more. Again: does nothing."""
        if self._by_id.pop(pending.correlation_id, None) is None:
            return
        together = self._by_tick[pending.tick]
        del together[pending.correlation_id]
        if not together:
            del self._by_tick[pending.tick]
            self._alarms.pop(pending.tick).cancel()

    def _expire(self, tick: int) -> None:
        for pending in list(self._by_tick.get(tick, {}).values()):
            self.forget(pending)
            self._remember(pending.correlation_id)
            place = pending.receipt.place if pending.receipt is not None else ""
            pending.fail(NoReplyError(pending.topic, pending.correlation_id, pending.timeout_s, place))

    def _remember(self, correlation_id: str) -> None:
        overdue = self._overdue
        overdue[correlation_id] = self._timing.clock.monotonic()
        if len(overdue) > _REMEMBERED_MAX:
            del overdue[next(iter(overdue))]

    def end_all(self, owner: str | None = None) -> None:
        """The producer `owner`, or the whole client, closes: those that wait get an error, each its own."""
        for pending in [each for each in self._by_id.values() if owner is None or each.owner == owner]:
            self.forget(pending)
            pending.fail(
                ClosedError(
                    f"producer {pending.owner!r} was closed while a request to topic {pending.topic!r} waited for its "
                    "reply; the request may be handled all the same"
                )
            )

    def arrived(self, header: ReplyMessageRequestHeader, body: bytes) -> None:
        """PUSH_REPLY_MESSAGE_TO_CLIENT (326): give the reply to whoever waits for it; others are counted.

        Java: ClientRemotingProcessor.processReplyMessage.
        """
        properties = parse_properties(header.properties or "")
        correlation_id = properties.get(property_names.CORRELATION_ID, "")
        pending = self._by_id.get(correlation_id)
        if pending is None:
            self._count_stray(correlation_id, header)
            return
        self.forget(pending)
        properties[property_names.ARRIVE_TIME] = str(self._timing.clock.wall_ms())
        try:
            made = self._reply(header, body, properties)
        except RocketlineError as error:
            pending.fail(error)
        else:
            if not pending.reply.done():
                pending.reply.set_result(made)

    def _reply(self, header: ReplyMessageRequestHeader, body: bytes, properties: dict[str, str]) -> ReceivedReply:
        if header.sys_flag & COMPRESSED and body:
            try:
                body = decompress(body, compression_type(header.sys_flag))
            except RemoteProtocolError as error:
                # Go's client marks long replies as compressed and does not compress them. Java takes them as they are.
                self._log.warning("reply taken as it came", f"it is marked as compressed, and is not: {error}")
        return ReceivedReply(
            body,
            properties,
            header.flag,
            header.topic,
            header.born_timestamp,
            header.born_host,
            header.store_timestamp,
            header.store_host,
        )

    def _count_stray(self, correlation_id: str, header: ReplyMessageRequestHeader) -> None:
        over_s = self._overdue.pop(correlation_id, None)
        if over_s is not None:
            self._late += 1
            late_s = self._timing.clock.monotonic() - over_s
            told = f"{late_s:.3f} s after the time of its request was over: give requests more time, or answer faster"
            self._log.warning("reply came late", told, replier=header.born_host, late=self._late)
        else:
            self._unknown += 1
            told = "nobody here waits for it: it was answered before, or this client was started anew meanwhile"
            self._log.warning("reply to an unknown request", told, replier=header.born_host, unknown=self._unknown)
