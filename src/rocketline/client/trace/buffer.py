"""Where trace records wait until they leave: bounded, and never waited for."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

COUNT_MAX: Final = 65_536
BYTES_MAX: Final = 32 * 1024 * 1024
"""Records that may wait, and their characters. What comes beyond that is dropped and counted."""
RECORDS_MAX: Final = 500
"""In one trace message. Java: 10."""
MESSAGE_CHARACTERS_MAX: Final = 128_000
"""Of the records in one trace message; a single one may go beyond it. As Java."""
KEYS_BYTES_MAX: Final = 24_000
"""Of the keys of one trace message, which are among its properties: those have 32,767 bytes at most."""
_CHARACTER_BYTES_MAX: Final = 4


class TraceBatch(NamedTuple):
    """What one trace message holds."""

    text: str
    keys: str
    """By which each record can be found: ids and keys of messages, with blanks between."""
    records: int
    """How many they are."""


class TraceBuffer:
    """The records of one client. Any thread may add to it, one takes from it.

    There is no lock, as in a signal's handler nobody could wait for one: of two threads that add at the same moment one
    may not count its bytes. Taking until nothing is left makes that good.
    """

    def __init__(self, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._records: deque[tuple[str, str]] = deque()
        self._count_max, self._bytes_max = count_max, bytes_max
        self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, text: str, keys: str) -> None:
        """Keep a record that can be found by `keys`, or drop it if there is no room."""
        size = len(text)
        if len(self._records) >= self._count_max or self._bytes + size > self._bytes_max:
            self.dropped += 1
            return
        self._bytes += size
        self._records.append((text, keys))

    def take(self) -> TraceBatch | None:
        """The oldest records, as many as one message holds; None if there is none."""
        records = self._records
        count = min(len(records), RECORDS_MAX)
        if not count:
            self._bytes = 0
            return None
        taken = [records.popleft() for _ in range(count)]
        while count > 1 and not _fits(taken):
            count //= 2
            records.extendleft(reversed(taken[count:]))
            del taken[count:]
        text = "".join([text for text, _ in taken])
        self._bytes -= len(text)
        keys = " ".join([keys for _, keys in taken]).split(" ")
        return TraceBatch(text, " ".join(dict.fromkeys(keys)), count)


def _fits(records: list[tuple[str, str]]) -> bool:
    characters = sum([len(text) for text, _ in records])
    keys = "".join([keys for _, keys in records])
    keys_bytes = len(records) + len(keys) * (1 if keys.isascii() else _CHARACTER_BYTES_MAX)
    return characters <= MESSAGE_CHARACTERS_MAX and keys_bytes <= KEYS_BYTES_MAX
