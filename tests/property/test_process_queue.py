"""A process queue against a plain model of what Java's does: a sorted map, another for what was taken, two counters."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketline.client.consumer.process_queue import ProcessQueue

OFFSETS = st.lists(st.integers(0, 30), max_size=6)


@dataclass(frozen=True, slots=True)
class Stub:
    queue_offset: int

    @property
    def body_bytes(self) -> int:
        return self.queue_offset + 1


class ProcessQueueAgainstMaps(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue: ProcessQueue[Stub] = ProcessQueue(0.0)
        self.waiting: dict[int, Stub] = {}
        self.taken: dict[int, Stub] = {}
        self.count = self.size = self.offset_max = 0
        self.next_offset = 0

    @rule(steps=st.lists(st.integers(1, 3), max_size=6))
    def put_in_order(self, steps: list[int]) -> None:
        """As pulls bring them: rising offsets, sometimes with gaps."""
        offsets = []
        for step in steps:
            self.next_offset += step
            offsets.append(self.next_offset)
        self.put(offsets)

    @rule(offsets=OFFSETS)
    def put(self, offsets: list[int]) -> None:
        self.queue.put([Stub(offset) for offset in offsets])
        for offset in offsets:
            if offset not in self.waiting:
                self.count += 1
                self.size += offset + 1
                self.offset_max = offset
            self.waiting[offset] = Stub(offset)

    @rule(offsets=OFFSETS)
    def remove(self, offsets: list[int]) -> None:
        expected = -1
        if self.waiting:
            for offset in offsets:
                if self.waiting.pop(offset, None) is not None:
                    self.count -= 1
                    self.size -= offset + 1
            if not self.count:
                self.size = 0
            expected = min(self.waiting, default=self.offset_max + 1)
        assert self.queue.remove([Stub(offset) for offset in offsets], 1.0) == expected

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        expected = sorted(self.waiting)[:count]
        assert [message.queue_offset for message in self.queue.take(count, 1.0)] == expected
        self.taken |= {offset: self.waiting.pop(offset) for offset in expected}

    @rule()
    def commit(self) -> None:
        expected = max(self.taken, default=-2) + 1
        assert self.queue.commit() == expected
        self.count -= len(self.taken)
        self.size = self.size - sum(offset + 1 for offset in self.taken) if self.count else 0
        self.taken.clear()

    @rule()
    def rollback(self) -> None:
        self.queue.rollback()
        self.waiting |= self.taken
        self.taken.clear()

    @rule(data=st.data())
    def consume_again(self, data: st.DataObject) -> None:
        again = data.draw(st.lists(st.sampled_from(sorted(self.taken)), unique=True)) if self.taken else []
        self.queue.consume_again([Stub(offset) for offset in again])
        self.waiting |= {offset: self.taken.pop(offset) for offset in again}

    @invariant()
    def tells_the_same(self) -> None:
        queue = self.queue
        assert queue.span == (max(self.waiting) - min(self.waiting) if self.waiting else 0)
        assert (queue.first.queue_offset if queue.first else None) == min(self.waiting, default=None)
        assert (queue.message_count, queue.body_bytes) == (self.count, self.size)
        assert queue.has_waiting == bool(self.waiting)


TestProcessQueue = ProcessQueueAgainstMaps.TestCase
