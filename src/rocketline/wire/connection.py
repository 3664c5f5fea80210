"""One connection's conversation, without its socket: which bytes to send, and what received frames mean.

Both ends may ask. A response is matched to its request by the opaque number alone; whether a frame is a response is
told by its flag, because the peer numbers its own requests independently and may use the same numbers.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from rocketline.errors import OverloadedError
from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command

Waiter = TypeVar("Waiter")

_OPAQUE_MAX = 2**31 - 1


class Connection(Generic[Waiter]):
    """Numbers requests, parks a waiter for each, and hands it back with the answer.

    At most `in_flight_max` requests wait; one more is refused with `OverloadedError`.
    """

    __slots__ = ("_in_flight_max", "_opaque", "_pending", "address", "serialize_type")

    def __init__(
        self, address: str, *, in_flight_max: int = 65_535, serialize_type: SerializeType = SerializeType.JSON
    ) -> None:
        self.address = address
        self.serialize_type = serialize_type
        self._in_flight_max = in_flight_max
        self._opaque = 0
        self._pending: dict[int, Waiter] = {}

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def request(self, command: Command, waiter: Waiter) -> bytes:
        """The frame that asks `command`; its opaque is set to a number that is free on this connection."""
        self._check_room()
        data = self._encode(command)
        self._pending[command.opaque] = waiter
        return data

    def expect(self, waiter: Waiter) -> int:
        """The number for a request that the caller encodes; `waiter` is parked for its answer."""
        pending = self._pending
        if len(pending) >= self._in_flight_max:
            self._check_room()
        opaque = self._opaque + 1
        if opaque > _OPAQUE_MAX or opaque in pending:
            opaque = self._next_opaque()
        self._opaque = opaque
        pending[opaque] = waiter
        return opaque

    def _check_room(self) -> None:
        if len(self._pending) >= self._in_flight_max:
            raise OverloadedError(self.address, f"{self._in_flight_max} requests are in flight already")

    def oneway(self, command: Command) -> bytes:
        """The frame of a request that nobody answers."""
        command.flag |= ONEWAY_FLAG
        return self._encode(command)

    def _encode(self, command: Command) -> bytes:
        command.opaque, command.serialize_type = self._next_opaque(), self.serialize_type
        return frame.encode(command)

    def _next_opaque(self) -> int:
        """The next number that no waiter holds; the count starts again after 2^31 - 1."""
        while True:
            self._opaque = self._opaque + 1 if self._opaque < _OPAQUE_MAX else 0
            if self._opaque not in self._pending:
                return self._opaque

    def reply(self, request: Command, response: Command) -> bytes:
        """The frame that answers `request`, in this end's own header encoding whatever the request used."""
        response.opaque, response.serialize_type = request.opaque, self.serialize_type
        response.flag = RESPONSE_FLAG
        return frame.encode(response)

    def waiter_of(self, command: Command) -> Waiter | None:
        """Who waits for `command`, from now on no more. None for a request of the peer's, whatever its number, and for
        an answer that nobody waits for any more."""
        return self._pending.pop(command.opaque, None) if command.flag & RESPONSE_FLAG else None

    def forget(self, opaque: int) -> Waiter | None:
        """Who waited for this answer, if anybody did. Should it still come, it is dropped."""
        return self._pending.pop(opaque, None)

    def close(self) -> list[Waiter]:
        """The connection is gone: everyone who still waits."""
        waiters = list(self._pending.values())
        self._pending.clear()
        return waiters
