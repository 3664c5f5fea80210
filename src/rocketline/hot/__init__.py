"""The hot path: what a server does with the bytes of one read, in one call.

Everything here is whole batches: a buffer in, the replies out, no object per request that is not needed. A hot path
answers what it knows; at the first frame that it does not know it stops, and that frame takes the ordinary way through
decoder and handler. So it may be as narrow as it likes, and a compiled one may stand in for a plain one: both give the
same bytes.
"""

from __future__ import annotations

from typing import Protocol


class HotPath(Protocol):
    """Answers the frames at the head of what was read."""

    def __call__(self, data: bytes, start: int, reply_bytes_max: int, /) -> tuple[int, bytes]:
        """Where the first frame begins that was not answered, and the replies to those before it.

        Frames begin at `start`; the last may be cut short, and none has been checked. Once the replies have
        `reply_bytes_max` bytes or more, no further frame is answered.
        """
        ...
