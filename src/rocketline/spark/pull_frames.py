"""The frames of many pulls: requests that differ in a few numbers only, and answers read no further than needed.

A request is written once for each queue, with holes for the offset, the count and its number. Answers of one broker
differ in their digits only: the text between the digits of a header says which number is which, and once one header
was read in full, others with the same text between need no second look.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from rocketline.client.pull_request import PullNode, PullQuery
from rocketline.client.pulling import PullPlan
from rocketline.wire import frame, header_json, headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import RESPONSE_FLAG, Command
from rocketline.wire.headers import PullMessageResponseHeader

_HOLES: Final = {"queueOffset": "\ue000", "maxMsgNums": "\ue001"}
"""What stands in the text of a request for a number to come; no name of RocketMQ may hold it."""
_OPAQUE: Final = 2**31 - 1
_OPAQUE_TEXT: Final = b'"opaque":%d,' % _OPAQUE
_PREFIX_BYTES: Final = 8
_JSON_MARK: Final = 0
_PULL_CODES: Final = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
})  # fmt: skip
_LAYOUTS_MAX: Final = 64
_split_numbers = re.compile(rb"([0-9]{1,18})").split
_name_ends = re.compile(rb'"([A-Za-z]+)":"?$').search

Complete = Callable[[Command], None]


class PullRequests:
    """The pulls of one queue, as frames."""

    def __init__(
        self, plan: PullPlan, node: PullNode, query: PullQuery, complete: Complete, *, is_signed: bool = False
    ) -> None:
        """`query` tells all but offset and count; `complete` adds what every request carries. A signature covers the
        offset, so signed frames are made one by one."""
        self._plan, self._node, self._query, self._complete = plan, node, query, complete
        self._template = None if is_signed else self._make_template()

    def _make_template(self) -> bytes | None:
        command = self._plan.requests.command(self._query, self._node)
        self._complete(command)
        command.ext.update(_HOLES)
        command.opaque = _OPAQUE
        text = header_json.encode(command)
        holes = [*(hole.encode() for hole in _HOLES.values()), _OPAQUE_TEXT]
        if any(text.count(hole) != 1 for hole in holes):
            return None  # an expression with such a character
        text = text.replace(b"%", b"%%")
        for hole, name in zip(holes, (b"%(offset)d", b"%(count)d", b'"opaque":%(opaque)d,'), strict=True):
            text = text.replace(hole, name)
        return text

    def frame(self, offset: int, count: int, opaque: int) -> bytes:
        """The request for `count` messages from `offset` on."""
        if self._template is not None:
            header = self._template % {b"offset": offset, b"count": count, b"opaque": opaque}
            return b"".join(((len(header) + 4).to_bytes(4, "big"), len(header).to_bytes(4, "big"), header))
        query = PullQuery(self._query.queue, offset, self._query.subscription, count, with_subscription=True)
        command = self._plan.requests.command(query, self._node)
        self._complete(command)
        command.opaque = opaque
        return frame.encode(command)


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
