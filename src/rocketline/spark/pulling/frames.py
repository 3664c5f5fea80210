"""The frames of many pulls: requests that differ in a few numbers only, and answers read no further than needed.

Both are as a client would write and read them, in a fraction of the time: a pull of 32 small messages is little work,
and soon most of it would be headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Final, NamedTuple

from rocketline.wire import frame, header_json, headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import RESPONSE_FLAG, Command
from rocketline.wire.headers import PullMessageResponseHeader

_PREFIX_BYTES: Final = 8
_FRAME_BYTES_MAX: Final = frame.FRAME_BYTES_MAX
_JSON_MARK: Final = 0
_PULL_CODES: Final = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
})  # fmt: skip
_FOUND: Final = int(ResponseCode.SUCCESS)
_OFFSETS: Final = (b"nextBeginOffset", b"minOffset", b"maxOffset")


class PreparedPull:
    """The pulls of one queue as frames that differ in three numbers."""

    def __init__(self, command: Command) -> None:
        """`command` is one of them, complete, at offset 0 and for one message."""
        # Within a value a quotation mark has a backslash before it, so what is looked for cannot be part of one.
        text = header_json.encode(command).replace(b"%", b"%%")
        text = text.replace(b'"queueOffset":"0"', b'"queueOffset":"%(offset)d"', 1)
        text = text.replace(b'"maxMsgNums":"1"', b'"maxMsgNums":"%(count)d"', 1)
        self._header = text.replace(b'"opaque":0,', b'"opaque":%(opaque)d,', 1)

    def frame(self, offset: int, count: int, opaque: int) -> bytes:
        """The request for `count` messages from `offset` on."""
        header = self._header % {b"offset": offset, b"count": count, b"opaque": opaque}
        size = len(header)
        return b"".join(((size + 4).to_bytes(4, "big"), size.to_bytes(4, "big"), header))


class SignedPull:
    """The same for requests that are signed: each signature covers the offset, so each frame is made anew."""

    def __init__(self, make: Callable[[int, int], Command]) -> None:
        """`make` gives the complete command for an offset and a count."""
        self._make = make

    def frame(self, offset: int, count: int, opaque: int) -> bytes:
        """The request for `count` messages from `offset` on."""
        return frame.encode(replace(self._make(offset, count), opaque=opaque))


class FrameCutter:
    """Cuts what a connection brings into whole frames, and copies each byte once at most.

    >>> cutter = FrameCutter()
    >>> [bytes(whole) for whole in cutter.cut(bytes.fromhex("0000000400000000 00000005"))]
    [b'\\x00\\x00\\x00\\x04\\x00\\x00\\x00\\x00']
    >>> [len(whole) for whole in cutter.cut(bytes(5))]
    [9]
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _PREFIX_BYTES
        """How many bytes there must be before another look pays."""

    def cut(self, data: bytes) -> list[memoryview]:
        """The frames that are whole now. Raises `RemoteProtocolError` for a length that no frame has."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        frames: list[memoryview] = []
        view, at = memoryview(whole), 0
        while 0 < (end := frame.next_frame_end(whole, at, _FRAME_BYTES_MAX, _FRAME_BYTES_MAX)) <= len(whole):
            frames.append(view[at:end])
            at = end
        self._pieces, self._size = [whole[at:]] if at < len(whole) else [], len(whole) - at
        self._wanted = end - at if end else _PREFIX_BYTES
        return frames


class PullAnswer(NamedTuple):
    """What a broker answered to a pull. The offsets are -1 in a refusal; there is no remark with messages."""

    opaque: int
    code: int
    next_offset: int = -1
    min_offset: int = -1
    max_offset: int = -1
    offset_delta: int = 0
    remark: str | None = None
    body: bytes | memoryview = b""


class AnswerReader:
    """Reads the answers of one broker.

    Most say "found", and differ in four numbers. Cut at its quotation marks, such a header has each number in the place
    where the last one had it, and the names of the fields beside them.
    """

    def __init__(self) -> None:
        self._parts = 0
        self._fixed: Callable[[list[bytes]], tuple[bytes, ...]] = tuple
        self._expected: tuple[bytes, ...] = ()
        self._numbers: Callable[[list[bytes]], tuple[bytes, ...]] = tuple

    def read(self, whole: memoryview) -> PullAnswer | None:
        """The answer in a frame; None if it is a request. Raises `RemoteProtocolError`."""
        header_end = _PREFIX_BYTES + int.from_bytes(whole[5:8], "big")
        parts = bytes(whole[_PREFIX_BYTES:header_end]).split(b'"')
        if len(parts) == self._parts and whole[4] == _JSON_MARK and self._fixed(parts) == self._expected:
            next_offset, low, high, opaque = self._numbers(parts)
            try:
                return PullAnswer(
                    int(opaque[1:-1]), _FOUND, int(next_offset), int(low), int(high), 0, None, whole[header_end:]
                )
            except ValueError:
                pass  # what is wrong with it is told by whoever reads it in full
        answer = _in_full(whole)
        if answer is not None and answer.code == _FOUND and not answer.offset_delta and whole[4] == _JSON_MARK:
            self._learn(parts)
        return answer

    def _learn(self, parts: list[bytes]) -> None:
        """Remember where things are in a header that was read in full."""
        if any(parts.count(name) != 1 for name in (*_OFFSETS, b"opaque", b"code", b"flag")) or b"offsetDelta" in parts:
            return
        names = [parts.index(name) for name in _OFFSETS]
        opaque, code, flag = (parts.index(name) for name in (b"opaque", b"code", b"flag"))
        numbers = [*(place + 2 for place in names), opaque + 1]  # "name":"5" has a colon in between, "name":5, has not
        fixed = [*names, *(place + 1 for place in names), opaque, code, code + 1, flag, flag + 1]
        expected = (
            *_OFFSETS,
            *[b":"] * len(names),
            b"opaque",
            b"code",
            b":%d," % _FOUND,
            b"flag",
            b":%d," % RESPONSE_FLAG,
        )
        if max(numbers) < len(parts) and tuple(parts[place] for place in fixed) == expected:
            self._parts, self._expected = len(parts), expected
            self._fixed, self._numbers = itemgetter(*fixed), itemgetter(*numbers)


def _in_full(whole: memoryview) -> PullAnswer | None:
    command = frame.decode(bytes(whole))
    if not command.flag & RESPONSE_FLAG:
        return None
    if command.code not in _PULL_CODES:
        return PullAnswer(command.opaque, command.code, remark=command.remark)
    found = headers.decode(PullMessageResponseHeader, command.ext)
    return PullAnswer(
        command.opaque,
        command.code,
        found.next_begin_offset,
        found.min_offset,
        found.max_offset,
        found.offset_delta or 0,
        None if command.code == _FOUND else command.remark,
        command.body,
    )
