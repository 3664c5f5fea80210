"""What the broker does with the bytes of one read: runs of plain sends, pulls, pops and acknowledgements,
answered in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from rocketline.broker.storing.admission import Admission
from rocketline.hot import HotPath, HotPeer
from rocketline.hot.pure.ack_request import ACK_START
from rocketline.hot.pure.pull_request import PULL_START, PullHeader, parse_pull

_START_BYTES: Final = len(ACK_START)
_POOR_BYTES: Final = 512
"""An answer as short as this brings no message; but thousands may have been looked at that were not wanted."""
_POOR_MAX: Final = 8
"""Answers without messages in one call: a read brings hundreds of pulls."""


class PlainPulls(Protocol):
    """Answers a pull, or leaves it to the handler."""

    def answer(self, channel: object, asked: PullHeader, /) -> bytes | None: ...


class BrokerHotPath:
    """Requests in whatever order they came. For a server that writes JSON headers."""

    def __init__(
        self, sends: HotPath, pulls: PlainPulls, others: Mapping[bytes, HotPath], admission: Admission
    ) -> None:
        """`others`, of pops, are asked for what begins so: all with the same number of bytes."""
        self._sends, self._pulls, self._others, self._admission = sends, pulls, others, admission

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """See `HotPath`."""
        size, later, poor = len(data), 0, 0
        replies: list[bytes] = []
        while start < size and reply_bytes_max > 0:
            if data.startswith(PULL_START, start + 8):
                if poor == _POOR_MAX:  # the channel looks at the clock, and perhaps lets others have their turn
                    break
                end, reply = self._pull(peer, data, start)
                poor += len(reply) < _POOR_BYTES
            else:
                end, reply, count = self._sends(peer, data, start, reply_bytes_max)
                if end == start and (path := self._others.get(data[start + 8 : start + 8 + _START_BYTES])):
                    end, reply, count = path(peer, data, start, reply_bytes_max)
                later += count
            if end == start:
                break
            start = end
            if reply:
                replies.append(reply)
                reply_bytes_max -= len(reply)
        return start, replies[0] if len(replies) == 1 else b"".join(replies), later

    def _pull(self, peer: HotPeer, data: bytes, start: int) -> tuple[int, bytes]:
        """Where the next frame begins and the answer, if this one is a pull that can be answered here."""
        parsed = parse_pull(data, start)
        if parsed is None or self._admission.is_pull_late(peer.read_s):
            return start, b""
        end, asked = parsed
        answer = self._pulls.answer(peer, asked)
        return (start, b"") if answer is None else (end, answer)
