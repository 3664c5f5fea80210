"""Where trace records wait until they leave: bounded, and never waited for."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

COUNT_MAX: Final = 65_536
BYTES_MAX: Final = 32 * 1024 * 1024
"""Records that may wait, and their characters. What comes beyond that is dropped and counted."""
MESSAGE_CHARACTERS_MAX: Final = 64_000
"""Of the records in one trace message, about 250 of them; one record may go beyond it. Java: 128,000."""
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
    may not count its bytes. Taking all there is makes that good.
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
        texts: list[str] = []
        keys: list[str] = []
        text_room, keys_room = MESSAGE_CHARACTERS_MAX, KEYS_BYTES_MAX
        while records:
            text, key = records[0]
            text_room -= len(text)
            keys_room -= 1 + len(key) * (1 if key.isascii() else _CHARACTER_BYTES_MAX)
            if texts and (text_room < 0 or keys_room < 0):
                break
            records.popleft()
            self._bytes -= len(text)
            texts.append(text)
            keys.append(key)
        if not records:
            self._bytes = 0
        if not texts:
            return None
        return TraceBatch("".join(texts), " ".join(dict.fromkeys(" ".join(keys).split(" "))), len(texts))
