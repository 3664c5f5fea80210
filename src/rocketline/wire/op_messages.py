"""Op messages, by which a broker notes that half messages have ended: their queue offsets, each with a comma."""

from __future__ import annotations

from typing import Final

REMOVED_TAG: Final = "d"
"""The half messages that it names have ended. Java: TransactionalMessageUtil.REMOVE_TAG."""
_DIGITS_MAX: Final = 19


def ended_in(tag: str | None, body: bytes) -> list[int]:
    """The queue offsets that an op message names, each once. Brokers before 5.1 wrote one, without a comma.

    >>> ended_in("d", b"12,15,15,"), ended_in("d", b"7"), ended_in("other", b"7,")
    ([12, 15], [7], [])
    """
    if tag != REMOVED_TAG:
        return []
    texts = body.decode("ascii", "replace").split(",")
    return list(dict.fromkeys(int(text) for text in texts if text.isdecimal() and len(text) <= _DIGITS_MAX))
