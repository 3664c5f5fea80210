"""What the broker does with the bytes of one read: runs of plain sends and pulls, answered in one call."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, Protocol

from rocketline.broker.admission import Admission
from rocketline.errors import RemoteProtocolError
from rocketline.hot import HotPath, HotPeer
from rocketline.wire import header_json
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG

_PREFIX: Final = struct.Struct(">II")
_PULL_START: Final = b'{"code":11,'
_PULL_BYTES_MAX: Final = 64 * 1024
"""Of a whole frame: a pull has no body."""


class Pulls(Protocol):
    """Answers a pull, or leaves it to the handler."""

    def answer(self, channel: object, ext: Mapping[str, str], opaque: int, /) -> bytes | None: ...


class BrokerHotPath:
    """Sends and pulls in whatever order they came. For a server that writes JSON headers."""

    def __init__(self, sends: HotPath, pulls: Pulls, admission: Admission) -> None:
        self._sends, self._pulls, self._admission = sends, pulls, admission

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """See `HotPath`."""
        begin = start
        start, reply, later = self._sends(peer, data, start, reply_bytes_max)
        if start == len(data):
            return start, reply, later
        replies = [reply]
        if start == begin:
            begin = -1
        while begin < start < len(data) and reply_bytes_max > 0:
            begin = start
            start, reply = self._pull(peer, data, start)
            if start == begin:
                start, reply, count = self._sends(peer, data, start, reply_bytes_max)
                later += count
            replies.append(reply)
            reply_bytes_max -= len(reply)
        return start, b"".join(replies), later

    def _pull(self, peer: HotPeer, data: bytes, start: int) -> tuple[int, bytes]:
        """Where the next frame begins and the answer, if this one is a pull that can be answered here."""
        if not data.startswith(_PULL_START, start + 8):
            return start, b""
        size, word = _PREFIX.unpack_from(data, start)
        end = start + 4 + size
        # A pull has no body; a word of more than the header's length says that the header is not JSON.
        if end > len(data) or size > _PULL_BYTES_MAX or word + 4 != size:
            return start, b""
        try:
            request = header_json.decode(data[start + 8 : end], b"")
        except RemoteProtocolError:
            return start, b""
        if request.flag & (ONEWAY_FLAG | RESPONSE_FLAG) or self._admission.is_pull_late(peer.read_s):
            return start, b""
        answer = self._pulls.answer(peer, request.ext, request.opaque)
        return (start, b"") if answer is None else (end, answer)
