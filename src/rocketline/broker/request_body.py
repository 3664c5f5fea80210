"""Reading the JSON bodies of requests. Whoever sends one must not keep everybody else waiting for long."""

from __future__ import annotations

from typing import Final, TypeVar

from rocketline.broker.long_work import Steps
from rocketline.errors import RemoteProtocolError
from rocketline.wire.bodies import decode, decode_in_steps

BODY_BYTES_MAX: Final = 1024 * 1024
"""Room for 18,000 subscriptions or the locks of 20,000 queues. The text is parsed in one go, at ten milliseconds or
some more."""
_TOLERATED_MAX: Final = 64 * 1024
"""What is no standard JSON takes as long at a sixteenth of the length; clients send none."""
_SHORT_BYTES: Final = 8 * 1024
"""Read in one go, at a millisecond or two."""
LISTED_MAX: Final = 1_000
"""Topics or groups of one list: all of them are made in one go, or none, and each is a file entry of 200 bytes."""

_CONTAINERS_MAX: Final = 64 * 1024
"""Lists and objects in a body: each takes ten times as long as a number. Real bodies have a third of that."""

Body = TypeVar("Body")


def read_body(cls: type[Body], body: bytes) -> Body:
    """What a request's body says. Raises `RemoteProtocolError` if it cannot be read, or is too long to be."""
    _check_size(cls, body)
    return decode(cls, body, tolerated_max=_TOLERATED_MAX)


def read_body_in_steps(cls: type[Body], body: bytes) -> Steps[Body]:
    """The same for what may have thousands of entries: in a long body they are made some at a time."""
    if len(body) < _SHORT_BYTES:
        return read_body(cls, body)
    _check_size(cls, body)
    return (yield from decode_in_steps(cls, body, tolerated_max=_TOLERATED_MAX))


def _check_size(cls: type[object], body: bytes) -> None:
    if len(body) > BODY_BYTES_MAX:
        raise RemoteProtocolError(f"{cls.__name__} of {len(body)} bytes: at most {BODY_BYTES_MAX} are read")
    containers = body.count(b"[") + body.count(b"{")
    if containers > _CONTAINERS_MAX:
        raise RemoteProtocolError(
            f"{cls.__name__} of {containers} lists and objects: at most {_CONTAINERS_MAX} are read"
        )
