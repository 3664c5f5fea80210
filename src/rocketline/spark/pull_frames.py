"""The frames of many pulls: requests that differ in a few numbers only, and answers read no further than needed.

A request is written once for each queue, with holes for the offset, the count and its number. Answers of one broker
differ in their digits only: the text between the digits of a header says which number is which, and once one header
was read in full, others with the same text between need no second look.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from rocketline.wire import frame, header_json, headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import RESPONSE_FLAG, Command
from rocketline.wire.headers import PullMessageResponseHeader

_PREFIX_BYTES: Final = 8
_JSON_MARK: Final = 0
_PULL_CODES: Final = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
})  # fmt: skip
_LAYOUTS_MAX: Final = 64
_split_numbers = re.compile(rb"([0-9]{1,18})").split
_name_ends = re.compile(rb'"([A-Za-z]+)":"?$').search


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


class PullAnswer(NamedTuple):
    """What a broker answered to a pull. The offsets are -1 in a refusal."""

    opaque: int
    code: int
    next_offset: int = -1
    min_offset: int = -1
    max_offset: int = -1
    offset_delta: int = 0
    remark: str | None = None
    body: bytes = b""


class _Layout(NamedTuple):
    """Which of a header's numbers is which."""

    code: int
    flag: int
    opaque: int
    next_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None
    remark: str | None


class AnswerReader:
    """Reads the answers of one broker."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[bytes, ...], _Layout] = {}

    def read(self, whole: bytes) -> PullAnswer | None:
        """The answer in a frame; None if it is a request. Raises `RemoteProtocolError`."""
        header_end = _PREFIX_BYTES + int.from_bytes(whole[5:8], "big")
        if whole[4] != _JSON_MARK:
            return _in_full(whole)
        parts = _split_numbers(whole[_PREFIX_BYTES:header_end])
        skeleton = tuple(parts[::2])
        layout = self._layouts.get(skeleton)
        if layout is None:
            answer = _in_full(whole)
            found = None if answer is None else _layout(answer, parts)
            if found is not None and len(self._layouts) < _LAYOUTS_MAX:
                self._layouts[skeleton] = found
            return answer
        numbers = parts[1::2]
        if not int(numbers[layout.flag]) & RESPONSE_FLAG or int(numbers[layout.code]) not in _PULL_CODES:
            return _in_full(whole)
        return PullAnswer(
            int(numbers[layout.opaque]),
            int(numbers[layout.code]),
            int(numbers[layout.next_offset]),
            int(numbers[layout.min_offset]),
            int(numbers[layout.max_offset]),
            0 if layout.offset_delta is None else int(numbers[layout.offset_delta]),
            layout.remark,
            whole[header_end:],
        )


def _in_full(whole: bytes) -> PullAnswer | None:
    command = frame.decode(whole)
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
        command.remark,
        command.body,
    )


def _layout(answer: PullAnswer, parts: list[bytes]) -> _Layout | None:
    """Where the numbers of this header stand, if it is one of the simple kind: each field written once, in digits."""
    places: dict[bytes, int] = {}
    for place, before in enumerate(parts[:-1:2]):
        found = _name_ends(before)
        if found is not None:
            if found[1] in places or parts[2 * place + 2][:1] not in (b'"', b",", b"}"):
                return None
            places[found[1]] = place
    expected = {
        b"code": answer.code,
        b"flag": RESPONSE_FLAG,
        b"opaque": answer.opaque,
        b"nextBeginOffset": answer.next_offset,
        b"minOffset": answer.min_offset,
        b"maxOffset": answer.max_offset,
        b"offsetDelta": answer.offset_delta,
    }
    if b"offsetDelta" not in places and not answer.offset_delta:
        del expected[b"offsetDelta"]
    if any(name not in places or int(parts[2 * places[name] + 1]) != number for name, number in expected.items()):
        return None
    code, flag, opaque, next_offset, low, high = (places[name] for name in list(expected)[:6])
    return _Layout(code, flag, opaque, next_offset, low, high, places.get(b"offsetDelta"), answer.remark)
