"""Replies that handlers returned, on their way to those who asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rocketline.client.push.send_back import InnerProducer
from rocketline.client.replies import Reply
from rocketline.errors import (
    ConnectError,
    ConnectionLostError,
    RequestTimeoutError,
    ResponseError,
    RocketlineError,
    SendFailedError,
)
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.queue import MessageQueue
from rocketline.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_PAUSES_S: Final = (0.2, 0.8, 2.0)
"""How long after a broker said that the requester is not there it is asked again: a lost connection comes back."""
_TIMEOUT_S: Final = 12.0
"""A broker answers when the requester has, for which it gives it 10 s. To send a reply again before would double it."""
_TTL_DIGITS_MAX: Final = 18
_NOT_THERE: Final = frozenset({ResponseCode.SYSTEM_ERROR.value, ResponseCode.SYSTEM_BUSY.value})


class Replies:
    """Sends them. A reply that cannot be delivered, whatever the reason, is logged and counted: its message is consumed
    all the same."""

    def __init__(self, runtime: ClientRuntime, group: str, throttle: Throttle) -> None:
        self._runtime, self._group, self._throttle = runtime, group, throttle
        # The cluster's reply topic is in no namespace.
        self._producer = InnerProducer(runtime, namespace="", send_timeout_s=_TIMEOUT_S)
        self.undelivered = 0

    async def send(self, replies: Sequence[Reply]) -> None:
        """Return once each is delivered, or will not be. Raises nothing."""
        if len(replies) == 1:
            await self._send(replies[0])
        else:
            await asyncio.gather(*(self._send(each) for each in replies))

    async def _send(self, reply: Reply) -> None:
        requester = None
        try:
            requester = reply.properties.get(property_names.REPLY_TO_CLIENT)
            await self._deliver(reply)
        except Exception as error:  # noqa: BLE001  # the application made it, and its queue must not stand still for that
            self.undelivered += 1
            self._throttle.warning(
                "reply not delivered",
                "whoever asked may be gone, or have given up",
                group=self._group,
                requester=requester,
                problem=error,
                undelivered=self.undelivered,
            )

    async def _deliver(self, reply: Reply) -> None:
        """Whoever is not there is asked for again while it waits, and no longer: behind old requests, of those who gave
        up or died, others stand in line.
        """
        for pause_s in _PAUSES_S:
            try:
                return await self._send_once(reply)
            except RocketlineError as error:
                over_ms = self._runtime.clock.wall_ms() + 1000 * pause_s
                if not _may_come_back(error) or _over_ms(reply) < over_ms:
                    raise
            await self._runtime.sleep(pause_s)
        return await self._send_once(reply)

    async def _send_once(self, reply: Reply) -> None:
        """By the broker that had the request, to which the requester is surely connected; or else by any other."""
        try:
            await self._producer.send(reply, MessageQueue(reply.topic, reply.request.queue.broker_name, 0))
        except RequestTimeoutError:
            raise
        except RocketlineError as error:
            if isinstance(error, ResponseError) and error.code in _NOT_THERE:
                raise
            await self._producer.send(reply)


def _may_come_back(error: RocketlineError) -> bool:
    """Whether requester or broker were not there, of which nobody knows for how long."""
    if isinstance(error, SendFailedError):
        failures = [failure for _, failure in error.attempts]
        return not any(isinstance(each, RequestTimeoutError) for each in failures) and any(map(_is_away, failures))
    return _is_away(error)


def _is_away(error: Exception) -> bool:
    if isinstance(error, ResponseError):
        return error.code in _NOT_THERE
    return isinstance(error, (ConnectError, ConnectionLostError))


def _over_ms(reply: Reply) -> float:
    """When whoever asked gives up, by its own clock; never, if it does not say. Java and we write milliseconds, Go
    writes seconds."""
    ttl = reply.properties.get(property_names.TTL, "")
    if not (ttl.isdecimal() and len(ttl) <= _TTL_DIGITS_MAX):
        return math.inf
    return reply.request.born_ms + (int(ttl) if int(ttl) >= 1000 else 1000 * int(ttl))
