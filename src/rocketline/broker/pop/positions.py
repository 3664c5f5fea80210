"""Where pops of a queue go on, while what they took is not safe yet. Java: the commit offsets of PopBufferMergeService.

A group's offset moves past messages once their checkpoint is stored: never before, and in the order of pops. The next
pop goes on behind all of them, safe or not.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rocketline.broker.metadata.offsets import ConsumerOffsets


class Taken:
    """Messages that one pop took of a queue, up to `next_offset`."""

    __slots__ = ("is_safe", "next_offset", "queue")

    def __init__(self, queue: tuple[str, str, int], next_offset: int) -> None:
        self.queue, self.next_offset = queue, next_offset
        self.is_safe = False


_NONE: Final[deque[Taken]] = deque()


class PopPositions:
    """Of all queues where something is not safe. How many these are, those who take messages bound."""

    def __init__(self, offsets: ConsumerOffsets) -> None:
        self._offsets = offsets
        self._taken: dict[tuple[str, str, int], deque[Taken]] = {}

    def next_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the next pop goes on; -1 if the group has never been at the queue."""
        committed = self._offsets.query(group, topic, queue_id)
        taken = self._taken.get((group, topic, queue_id))
        return max(committed, taken[-1].next_offset) if taken else committed

    def waiting(self, group: str, topic: str, queue_id: int) -> int:
        """How many pops of the queue are not committed."""
        return len(self._taken.get((group, topic, queue_id), _NONE))

    def take(self, group: str, topic: str, queue_id: int, next_offset: int) -> Taken:
        """A pop has taken the messages before `next_offset`. Call `safe` once they cannot be lost."""
        queue = group, topic, queue_id
        taken = Taken(queue, next_offset)
        self._taken.setdefault(queue, deque()).append(taken)
        return taken

    def safe(self, taken: Taken) -> None:
        """Commit the offset behind it, and behind those after it that were safe before, if none before it is not."""
        taken.is_safe = True
        line = self._taken.get(taken.queue, _NONE)
        last = None
        while line and line[0].is_safe:
            last = line.popleft()
        if not line:
            self._taken.pop(taken.queue, None)
        if last is not None:
            self._offsets.commit(*last.queue, last.next_offset)

    def lost(self, taken: Taken) -> None:
        """What it took was not noted: the next pop begins there again, unless others have gone on behind it."""
        line = self._taken.get(taken.queue, _NONE)
        if line and line[-1] is taken:
            line.pop()
            if not line:
                del self._taken[taken.queue]
        elif taken in line:
            self.forget(*taken.queue)

    def move(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """There is nothing for the group before `next_offset`."""
        if (group, topic, queue_id) in self._taken:
            self.safe(self.take(group, topic, queue_id, next_offset))
        else:
            self._offsets.commit(group, topic, queue_id, next_offset)

    def forget(self, group: str, topic: str, queue_id: int) -> None:
        """The group was sent elsewhere: what was taken before is not committed any more."""
        self._taken.pop((group, topic, queue_id), None)
