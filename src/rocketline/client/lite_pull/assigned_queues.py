"""`AssignedQueues`: the queues of a lite pull consumer, what was pulled of each, and what was handed on.

The loop's thread pulls and puts; `poll` takes, in the application's thread if the consumer is a blocking one. So every
call here holds one lock, for a few instructions. Java: AssignedMessageQueue and the consume request cache.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.pulls import PullResult, PullStatus
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import ClientError
from rocketline.model.queue import MessageQueue

PAUSED_S: Final = 1.0
"""How long a paused queue is left alone before somebody looks again. Java: PULL_TIME_DELAY_MILLS_WHEN_PAUSE."""
FLOW_CONTROL_S: Final = 0.05
"""How long a queue waits whose cache is full. Java: PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL."""
NOWHERE: Final = -1
Result = TypeVar("Result")
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much is pulled ahead of the application; each may be passed by one pull."""

    all_count: int = 10_000
    """Messages of all queues. Java: pullThresholdForAll."""
    queue_count: int = 1_000
    """Messages of one queue. Java: pullThresholdForQueue."""
    queue_mib: int = 100
    """Bodies of one queue. Java: pullThresholdSizeForQueue."""
    queue_span: int = 2_000
    """From the first to the last offset of one queue. Java: consumeMaxSpan."""


@dataclass(slots=True, eq=False)
class AssignedQueue:
    """One queue and how far it is. Java: MessageQueueState."""

    queue: MessageQueue
    cache: ProcessQueue[ReceivedMessage]
    is_paused: bool = False
    pull_offset: int = NOWHERE
    """Where the next pull begins; -1: where the group is."""
    position: int = NOWHERE
    """The offset after the last one that was handed on: what a commit commits. Java: consumeOffset."""
    seeks: int = 0
    """How often the application went elsewhere: what was pulled before the last time does not count."""


class Batch(NamedTuple):
    """What one pull brought, waiting for `poll`. Java: ConsumeRequest."""

    assigned: AssignedQueue
    messages: list[ReceivedMessage]


class Changes(NamedTuple):
    """What a new assignment changed."""

    added: list[AssignedQueue]
    removed: list[AssignedQueue]


class AssignedQueues:
    """All queues of one consumer. Bounded by `CacheLimits`: who pulls asks `pause_s` first."""

    def __init__(self, limits: CacheLimits | None = None, *, on_arrival: Callable[[], object] | None = None) -> None:
        """`on_arrival` is called, in the thread that pulls, when there is something to take."""
        self._limits = limits or CacheLimits()
        self._on_arrival = on_arrival or (lambda: None)
        self._queues: dict[MessageQueue, AssignedQueue] = {}
        self._batches: deque[Batch] = deque()
        self._waiting_count = 0
        self._rest: deque[ReceivedMessage] = deque()
        """Of a batch that is being handed on one by one; it belongs to `_rest_of`."""
        self._rest_of: AssignedQueue | None = None
        self._changed = threading.Condition()
        self._is_closed = False

    # --- which queues

    def assign(self, caches: Mapping[MessageQueue, ProcessQueue[ReceivedMessage]]) -> Changes:
        """From now on these queues. One that has another cache than before begins anew."""
        with self._changed:
            removed = [known for known in self._queues.values() if caches.get(known.queue) is not known.cache]
            for assigned in removed:
                del self._queues[assigned.queue]
                assigned.cache.is_dropped = True
                self._discard(assigned)
            added = [AssignedQueue(queue, cache) for queue, cache in caches.items() if queue not in self._queues]
            self._queues.update((assigned.queue, assigned) for assigned in added)
        return Changes(added, removed)

    def queues(self) -> set[MessageQueue]:
        with self._changed:
            return set(self._queues)

    def caches(self) -> dict[MessageQueue, ProcessQueue[ReceivedMessage]]:
        with self._changed:
            return {queue: assigned.cache for queue, assigned in self._queues.items()}

    def look(self, read: Callable[[Mapping[MessageQueue, ProcessQueue[ReceivedMessage]]], Result]) -> Result:
        """What `read` makes of the caches, none of which changes meanwhile."""
        with self._changed:
            return read({queue: assigned.cache for queue, assigned in self._queues.items()})

    def find(self, queue: MessageQueue) -> AssignedQueue:
        """Raises `ClientError` for a queue that is not assigned."""
        assigned = self._queues.get(queue)
        if assigned is None:
            raise ClientError(f"{queue} is not assigned to this consumer now: look at assignment()")
        return assigned

    def set_paused(self, queues: Collection[MessageQueue], is_paused: bool) -> None:
        """Queues that are not assigned are passed over, as in Java."""
        with self._changed:
            for queue in queues:
                if queue in self._queues:
                    self._queues[queue].is_paused = is_paused

    def is_paused(self, queue: MessageQueue) -> bool:
        return queue in self._queues and self._queues[queue].is_paused

    # --- pulling

    def pause_s(self, assigned: AssignedQueue) -> float:
        """How long to wait before a look at the queue is worthwhile again; 0: pull now."""
        limits, cache = self._limits, assigned.cache
        if assigned.is_paused:
            return PAUSED_S
        with self._changed:
            is_full = (
                self._waiting_count > limits.all_count
                or cache.message_count > limits.queue_count
                or cache.body_bytes // _MIB > limits.queue_mib
                or cache.span > limits.queue_span
            )
        return FLOW_CONTROL_S if is_full else 0.0

    def put(self, assigned: AssignedQueue, seeks: int, result: PullResult) -> None:
        """What a pull brought that began when `assigned.seeks` was `seeks`. It is forgotten if the application has gone
        elsewhere since, or has the queue no longer."""
        with self._changed:
            if assigned.cache.is_dropped or assigned.seeks != seeks:
                return
            assigned.pull_offset = result.next_offset
            if not result.messages:
                # Nothing waits and nothing was wanted: the group need not read this again.
                if result.status is not PullStatus.OFFSET_ILLEGAL and not assigned.cache.has_waiting:
                    assigned.position = max(assigned.position, result.next_offset)
                return
            assigned.cache.put(result.messages, result.max_offset)
            self._batches.append(Batch(assigned, result.messages))
            self._waiting_count += len(result.messages)
            self._changed.notify()
        self._on_arrival()

    def seek(self, queue: MessageQueue, offset: int) -> AssignedQueue:
        """The next message taken from the queue is the one at `offset`, whatever was pulled. Raises `ClientError`."""
        with self._changed:
            assigned = self.find(queue)
            assigned.seeks += 1
            assigned.cache.clear()
            assigned.pull_offset = assigned.position = offset
            self._discard(assigned)
        return assigned

    # --- handing on

    def take(self, now_s: float) -> Batch | None:
        """All messages of one pull, in order, or what `take_one` has left of one; None: there is nothing."""
        with self._changed:
            if self._rest_of is None:
                return self._next_batch(now_s)
            batch = Batch(self._rest_of, list(self._rest))
            self._forget_rest()
            return batch

    def take_one(self, now_s: float) -> tuple[ReceivedMessage | None, Batch | None]:
        """One message, and the batch that it is the first of, if it is."""
        with self._changed:
            batch = None
            if self._rest_of is None:
                batch = self._next_batch(now_s)
                if batch is None:
                    return None, None
                self._rest_of = batch.assigned
                self._rest.extend(batch.messages)
            message = self._rest.popleft()
            if not self._rest:
                self._rest_of = None
            return message, batch

    def wait(self, timeout_s: float) -> bool:
        """Block until there is something to take, or this is closed; False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._batches or self._rest) or self._is_closed, timeout_s)

    def positions(self, queues: Iterable[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """How far the application is in all queues, or in those of `queues` that are assigned, as far as it began."""
        with self._changed:
            wanted = self._queues.keys() if queues is None else self._queues.keys() & set(queues)
            positions = {queue: self._position(self._queues[queue]) for queue in wanted}
        return {queue: position for queue, position in positions.items() if position != NOWHERE}

    def close(self) -> None:
        """All queues are dropped, and whoever waits is woken."""
        self.assign({})
        self.wake()

    def wake(self) -> None:
        """Nothing will come any more: wake whoever waits, for good."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._on_arrival()

    def _position(self, assigned: AssignedQueue) -> int:
        """What the application has not been handed yet is not read, though its batch was taken."""
        return self._rest[0].queue_offset if self._rest_of is assigned else assigned.position

    def _next_batch(self, now_s: float) -> Batch | None:
        while self._batches:
            batch = self._batches.popleft()
            self._waiting_count -= len(batch.messages)
            if not batch.assigned.cache.is_dropped:  # else another member may have the queue before we are told
                batch.assigned.position = batch.assigned.cache.remove(batch.messages, now_s)
                return batch
        return None

    def _discard(self, assigned: AssignedQueue) -> None:
        self._batches = deque(batch for batch in self._batches if batch.assigned is not assigned)
        self._waiting_count = sum(len(batch.messages) for batch in self._batches)
        if self._rest_of is assigned:
            self._forget_rest()

    def _forget_rest(self) -> None:
        self._rest.clear()
        self._rest_of = None
