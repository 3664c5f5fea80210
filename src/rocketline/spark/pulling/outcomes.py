"""What a broker's answer means for the offsets that were asked for: progress, loss, or try again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketline.errors import ResponseError, response_error
from rocketline.spark.planning.data_loss import BEYOND_THE_END, EXPIRED, QUEUE_GONE
from rocketline.spark.pulling.frames import PullAnswer
from rocketline.wire.codes import RequestCode, ResponseCode

_BUSY: Final = frozenset({
    ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL,
    ResponseCode.NOT_LEADER_FOR_QUEUE,
})  # fmt: skip
"""The broker will take the same request later, or another one will."""
_BAD_QUEUE_REMARK: Final = "queueId["
"""How the remark of a refused queue begins where its code, up to 5.3.1, was that of any error."""


@dataclass(frozen=True, slots=True)
class Advance:
    """All messages from the offset asked for to before `next_offset` are in the answer, or are not wanted."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The messages from the offset asked for to before `until` are not there."""

    until: int
    cause: str


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Nothing came of it this time."""

    problem: str


Meaning: TypeAlias = Advance | Loss | TryAgain


def classify(answer: PullAnswer, low: int, high: int, *, address: str, is_slave: bool) -> Meaning:
    """What the answer to a pull at `low` means for the offsets up to before `high`. Raises `ResponseError`."""
    code, next_offset = answer.code, answer.next_offset
    if code == ResponseCode.SUCCESS:
        if next_offset > low:
            return Advance(next_offset)
        return TryAgain(f"messages came, and the next offset is {next_offset}")
    if code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED):
        return _without_messages(answer, low, high, is_slave=is_slave)
    refusal = response_error(code, answer.remark, request=RequestCode.PULL_MESSAGE.name, address=address)
    if code in _BUSY:
        return TryAgain(str(refusal))
    if code == ResponseCode.TOPIC_NOT_EXIST or _is_bad_queue(refusal):
        return Loss(high, QUEUE_GONE)
    raise refusal


def _without_messages(answer: PullAnswer, low: int, high: int, *, is_slave: bool) -> Meaning:
    if low < answer.min_offset:
        return Loss(min(answer.min_offset, high), EXPIRED)
    if low >= answer.max_offset:
        # A replica may be behind; what a master does not have is nowhere.
        if is_slave:
            return TryAgain(f"the replica has messages up to offset {answer.max_offset} only")
        return Loss(high, BEYOND_THE_END)
    # An answer that moves the offset of a group is not for us: the group does not decide what is read.
    if answer.code != ResponseCode.PULL_OFFSET_MOVED and answer.next_offset > low:
        return Advance(answer.next_offset)
    return TryAgain(f"code {answer.code}, {answer.remark or 'no remark'}, next offset {answer.next_offset}")


def _is_bad_queue(refusal: ResponseError) -> bool:
    is_said_in_words = (refusal.remark or "").startswith(_BAD_QUEUE_REMARK)
    return refusal.code == ResponseCode.INVALID_PARAMETER or (
        refusal.code == ResponseCode.SYSTEM_ERROR and is_said_in_words
    )
