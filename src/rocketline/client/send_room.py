"""Back-pressure: how many messages, and bytes of them, may be on their way at once. Pure."""

from __future__ import annotations


class SendRoom:
    """Counts what is on its way. A message that is bigger than all the room may go alone.

    >>> room = SendRoom(count_max=2, bytes_max=100)
    >>> room.take(90), room.take(20), room.take(10), room.take(0)
    (True, False, True, False)
    >>> room.give(90)
    >>> room.take(20)
    True
    """

    __slots__ = ("_bytes", "_bytes_max", "_count", "_count_max")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max, self._bytes_max = count_max, bytes_max
        self._count = self._bytes = 0

    @property
    def count(self) -> int:
        return self._count

    def take(self, size: int) -> bool:
        """Take room for a message of `size` bytes, if there is any."""
        if self._count and (self._count >= self._count_max or self._bytes + size > self._bytes_max):
            return False
        self._count += 1
        self._bytes += size
        return True

    def give(self, size: int) -> None:
        """A message of `size` bytes has arrived, or never will."""
        self._count -= 1
        self._bytes -= size
