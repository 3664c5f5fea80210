"""The hot path: what a server does with the bytes of one read, in one call.

Everything here is whole batches: a buffer in, the replies out, no object per request that is not needed. A hot path
answers what it knows; at the first frame that it does not know it stops, and that frame takes the ordinary way through
decoder and handler. So it may be as narrow as it likes, and a compiled one may stand in for a plain one: both give the
same bytes.
"""

from __future__ import annotations

from typing import Protocol


class HotPeer(Protocol):
    """The connection that frames came from, as far as a hot path cares."""

    @property
    def peer(self) -> str:
        """The other end as `host:port`."""
        ...

    @property
    def read_s(self) -> float:
        """When the bytes came in, on the monotonic clock: the age of a request counts from here."""
        ...

    def reply_bytes(self, replies: bytes, count: int, /) -> None:
        """Send the answers to `count` requests that were to be answered later."""
        ...


class HotPath(Protocol):
    """Answers the frames at the head of what was read."""

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int, /) -> tuple[int, bytes, int]:
        """Where the first frame begins that was not taken, the replies to those before it, and how many come later.

        Frames begin at `start`; the last may be cut short, and none has been checked. Once the replies have
        `reply_bytes_max` bytes or more, no further frame is answered. What comes later goes through `peer.reply_bytes`.
        """
        ...
