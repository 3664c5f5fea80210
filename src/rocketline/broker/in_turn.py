"""Things that wait for their turn by connection: one of each after the other, however many wait of one."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

from rocketline.net.channel import Channel


class OfConnection(Protocol):
    """What waits."""

    @property
    def channel(self) -> Channel: ...


T = TypeVar("T", bound=OfConnection)


class InTurn(Generic[T]):
    """The lines of all connections; the first goes to the end with every thing that is taken."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Channel, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, thing: T) -> None:
        line = self._lines.get(thing.channel)
        if line is None:
            line = self._lines[thing.channel] = deque()
        line.append(thing)
        self._count += 1

    def next(self) -> T:
        """The next; there must be one."""
        channel, line = next(iter(self._lines.items()))
        thing = line.popleft()
        if line:
            self._lines.move_to_end(channel)
        else:
            del self._lines[channel]
        self._count -= 1
        return thing
