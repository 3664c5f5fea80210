"""Frames: a length, a header in one of two encodings, a body. Bytes become commands here, and commands bytes.

    length (4) = 4 + header + body  |  type (1), header length (3)  |  header  |  body

Every length is checked before a byte is kept for it.
"""

from __future__ import annotations

import struct

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import header_binary, header_json
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""The most that a frame may have, its length field included. Java: com.rocketmq.remoting.frameMaxLength."""

_PREFIX = struct.Struct(">II")
_JSON, _BINARY = SerializeType.JSON.value, SerializeType.ROCKETMQ.value


def encode(command: Command) -> bytes:
    """The whole frame of `command`. Raises `LocalProtocolError` if a peer would refuse it for its size."""
    kind = command.serialize_type
    header = header_json.encode(command) if kind == _JSON else header_binary.encode(command)
    size = 4 + len(header) + len(command.body)
    if size + 4 > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame of {size + 4} bytes: peers accept at most {FRAME_BYTES_MAX}")
    return b"".join((_PREFIX.pack(size, kind << 24 | len(header)), header, command.body))


def decode(frame: bytes) -> Command:
    """The command in exactly one whole frame, whose prefix need not be checked yet. Raises `RemoteProtocolError`."""
    size, word = _PREFIX.unpack_from(frame) if len(frame) >= 8 else (0, 0)
    header_end = 8 + (word & 0xFFFFFF)
    if size + 4 != len(frame) or header_end > len(frame) or word >> 24 > _BINARY:
        raise RemoteProtocolError(f"{len(frame)} bytes are not one whole frame")
    decode_header = header_binary.decode if word >> 24 else header_json.decode
    return decode_header(frame[8:header_end], frame[header_end:])


def next_frame_end(data: bytes, start: int, frame_bytes_max: int, header_bytes_max: int) -> int:
    """Where the frame that begins at `start` ends, which may lie beyond `data`; 0 if even its prefix is cut short.

    Raises `RemoteProtocolError` as soon as the eight bytes of the prefix break a rule.
    """
    if len(data) - start < 8:
        # Four bytes already tell a frame that is too long: do not wait for more of it.
        if len(data) - start >= 4:
            _check_size(int.from_bytes(data[start : start + 4], "big"), frame_bytes_max)
        return 0
    size, word = _PREFIX.unpack_from(data, start)
    header_bytes = word & 0xFFFFFF
    if size + 4 > frame_bytes_max or header_bytes + 4 > size or header_bytes > header_bytes_max or word >> 24 > _BINARY:
        _check_size(size, frame_bytes_max)
        if word >> 24 > _BINARY:
            raise RemoteProtocolError(f"header type {word >> 24}: 0 (JSON) and 1 (ROCKETMQ) are known")
        if header_bytes + 4 > size:
            raise RemoteProtocolError(f"header of {header_bytes} bytes in a frame of {size + 4}")
        raise RemoteProtocolError(f"header of {header_bytes} bytes announced, at most {header_bytes_max} are accepted")
    return start + 4 + int(size)


def _check_size(size: int, frame_bytes_max: int) -> None:
    if size + 4 > frame_bytes_max:
        raise RemoteProtocolError(f"frame of {size + 4} bytes announced, at most {frame_bytes_max} are accepted")
    if size < 4:
        raise RemoteProtocolError(f"frame length {size} leaves no room for a header")


class FrameReader:
    """Cuts a stream of bytes into whole frames, however it arrived.

    >>> reader = FrameReader()
    >>> stream = encode(Command(105, {"topic": "T"}, opaque=1)) + encode(Command(106, opaque=2))
    >>> reader.feed(stream[:50])
    >>> reader.take() is None
    True
    >>> reader.feed(stream[50:])
    >>> [decode(reader.take()).opaque for _ in range(2)], reader.take()
    ([1, 2], None)
    """

    __slots__ = ("_end", "_frame_bytes_max", "_header_bytes_max", "_partial", "at", "data")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, header_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max, self._header_bytes_max = frame_bytes_max, header_bytes_max
        self.data = b""
        """What is being cut; frames before `at` are taken. Whoever answers frames right here moves `at` on."""
        self.at = 0
        self._partial = bytearray()  # the head of a frame whose rest is still to come
        self._end = 0  # how long _partial must be before another look pays

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were fed and not yet taken."""
        return len(self.data) - self.at + len(self._partial)

    def is_next_longer(self, size: int) -> bool:
        """Whether a frame of more than so many bytes comes next, and is whole."""
        left = len(self.data) - self.at
        return left > size and left > int.from_bytes(self.data[self.at : self.at + 4], "big") > size

    def feed(self, data: bytes) -> None:
        """Append what came in. Memory grows with the bytes that came, never with a length that a peer announces."""
        if self.at < len(self.data):
            data = self.data[self.at :] + data
        elif self._partial:
            self._partial += data
            if len(self._partial) < self._end:
                return
            data, self._partial = bytes(self._partial), bytearray()
        self.data, self.at = data, 0

    def take(self) -> bytes | None:
        """The next whole frame, or None until more is fed. Raises `RemoteProtocolError`, and again if called again."""
        start, data = self.at, self.data
        if start == len(data):
            self.data, self.at = b"", 0  # an idle connection holds nothing
            return None
        end = next_frame_end(data, start, self._frame_bytes_max, self._header_bytes_max)
        if 0 < end <= len(data):
            self.at = end
            return data[start:end]
        self._partial, self._end = bytearray(data[start:]), end - start if end else 4
        self.data, self.at = b"", 0
        return None

    def put_back(self, whole: bytes) -> None:
        """Undo the `take` that just gave `whole`: the next one gives it again."""
        self.at -= len(whole)
