"""Reading the JSON bodies of requests. Whoever sends one must not keep everybody else waiting for long."""

from __future__ import annotations

from typing import Final, TypeVar

from rocketline.errors import RemoteProtocolError
from rocketline.wire.bodies import decode

BODY_BYTES_MAX: Final = 1024 * 1024
"""Room for 5,000 subscriptions or topics, or the locks of 20,000 queues: fifty milliseconds, in a turn of its own."""
_TOLERATED_MAX: Final = 64 * 1024
"""What is no standard JSON takes as long at a sixteenth of the length; clients send none."""

Body = TypeVar("Body")


def read_body(cls: type[Body], body: bytes) -> Body:
    """What a request's body says. Raises `RemoteProtocolError` if it cannot be read, or is too long to be."""
    if len(body) > BODY_BYTES_MAX:
        raise RemoteProtocolError(f"{cls.__name__} of {len(body)} bytes: at most {BODY_BYTES_MAX} are read")
    return decode(cls, body, tolerated_max=_TOLERATED_MAX)
