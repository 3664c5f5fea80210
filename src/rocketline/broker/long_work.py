"""What the broker's work in steps is made of: things that are looked at some at a time, answers written piece by piece.

`LongWork`, which has it done, is of the network's layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rocketline.errors import LocalProtocolError
from rocketline.net.long_work import LARGE_BODY_BYTES, LongWork, Steps, T, at_once, put_off
from rocketline.wire.bodies import encode_in_parts
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.frame import FRAME_BYTES_MAX

__all__ = [
    "LARGE_BODY_BYTES", "LARGE_TABLE", "QUEUES_A_STEP", "LongWork", "Steps", "answered", "answered_with", "at_once",
    "each_with_pause", "encoded", "put_off",
]  # fmt: skip

QUEUES_A_STEP: Final = 32
"""Of a topic, where each costs some ten microseconds."""
LARGE_TABLE: Final = 1_000
"""Entries. Whoever is to copy as many waits for his turn first: hundreds may wait, each with what he has found."""
_STEP_BYTES: Final = 16 * 1024
"""Bytes of an answer that are written in one step: it takes as long as to look at so many queues."""


def each_with_pause(things: Iterable[T], pause_after: int = QUEUES_A_STEP) -> Iterator[tuple[T, bool]]:
    """Each of the things, and whether a step ends with it."""
    for number, thing in enumerate(things, 1):
        yield thing, number % pause_after == 0


def encoded(body: object) -> Steps[bytes]:
    """A body that may be large, written in steps. Raises `LocalProtocolError` once it is more than a frame carries."""
    pieces, size, pause_at = [], 0, _STEP_BYTES
    for piece in encode_in_parts(body):
        pieces.append(piece)
        size += len(piece)
        if size > FRAME_BYTES_MAX:
            raise LocalProtocolError(f"{type(body).__name__} has more than the {FRAME_BYTES_MAX} bytes of a frame")
        if size >= pause_at:
            pause_at = size + _STEP_BYTES
            yield
    return b"".join(pieces)


def answered(body: object, ext: dict[str, str] | None = None) -> Steps[Command]:
    """Success, with such a body."""
    return response(ResponseCode.SUCCESS, ext=ext, body=(yield from encoded(body)))


def answered_with(body: Steps[object]) -> Steps[Command]:
    """Success, with a body that is made and written in steps."""
    return (yield from answered((yield from body)))
