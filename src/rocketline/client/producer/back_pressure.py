"""How many messages may be on their way at once; and with back-pressure, how many bytes of them. Pure."""

from __future__ import annotations

from collections import deque


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


class Permits:
    """So many things at once and no more, whichever threads take them: each step is one of C, so no lock is needed.

    >>> permits = Permits(2)
    >>> permits.take(), permits.take(), permits.take()
    (True, True, False)
    >>> permits.give()
    >>> permits.take(), permits.take()
    (True, False)
    """

    __slots__ = ("_fresh", "_returned", "count_max")

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._fresh = iter(range(count_max))
        """Permits that nobody has had yet: they take no room."""
        self._returned: deque[None] = deque()

    def take(self) -> bool:
        """Take one, if there is one."""
        if self._returned:
            try:
                self._returned.pop()
            except IndexError:  # another thread was quicker
                pass
            else:
                return True
        if next(self._fresh, None) is not None:
            return True
        try:
            self._returned.pop()  # one may have come back meanwhile
        except IndexError:
            return False
        return True

    def give(self) -> None:
        """Give one back."""
        self._returned.append(None)
