"""`ProcessQueue`: the messages of one queue that were pulled and are not done with, and how far the queue is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import lt
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from rocketline.client.received_message import ReceivedMessage
from rocketline.wire.bodies.running import ProcessQueueInfo

LOCK_LIFE_S: Final = 30.0
"""How long after its last renewal the client trusts a lock; the broker keeps it 60 s. Java: lockMaxLiveTime."""
PULL_IDLE_MAX_S: Final = 120.0
"""A queue that was not pulled for so long is dropped and taken anew. Java: pullMaxIdleTime."""
_MIB: Final = 1024 * 1024


class QueuedMessage(Protocol):
    """What a message must tell to be kept here."""

    @property
    def queue_offset(self) -> int: ...

    @property
    def body_bytes(self) -> int:
        """As stored: what a compressed body takes before somebody touches it."""
        ...


Queued = TypeVar("Queued", bound=QueuedMessage)


class ProcessQueue(Generic[Queued]):
    """The cache of one queue that a consumer owns. Java: ProcessQueue.

    Pulled messages are `put`. A concurrent consumer calls `remove` with those that are done, in any order, and commits
    the offset it answers, which never passes a message that is still here. An orderly consumer calls `take`, and then
    `commit`, `rollback` or `consume_again`; while its callback runs, `idle` is cleared.

    One thread owns it, that of the event loop: other threads hand over what they have done. Times are seconds of the
    monotonic clock; the caller, who has just looked at it anyway, passes them in.

    Messages arrive in order of their offsets, and a dict keeps the order of arrival: its ends are the queue's ends.
    """

    __slots__ = (
        "_consuming", "_messages", "_queue_offset_max", "backlog_count", "body_bytes", "idle", "is_consuming",
        "is_dropped", "is_locked", "last_consume_s", "last_lock_s", "last_pull_s", "message_count", "unlock_attempts",
    )  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self._messages: dict[int, Queued] = {}
        """Messages that wait, by offset and in order of their offsets."""
        self._consuming: dict[int, Queued] = {}
        self._queue_offset_max = 0
        self.message_count = 0
        """Messages that wait and messages that were taken. Java: msgCount."""
        self.body_bytes = 0
        """Their bodies, as stored. Java: msgSize."""
        self.backlog_count = 0
        """How many messages the broker has beyond the last one put. Java: msgAccCnt."""
        self.is_consuming = False
        """An orderly consumer works on it, and need not be told of new messages. Java: consuming."""
        self.is_dropped = False
        """No longer ours: no result counts, no offset is stored, no pull is made. Java: dropped."""
        self.is_locked = False
        self.last_lock_s = self.last_pull_s = self.last_consume_s = now_s
        self.idle = asyncio.Event()
        """Not set: an orderly consumer's callback runs, so that the queue must not be unlocked. Java: consumeLock."""
        self.idle.set()
        self.unlock_attempts = 0
        """How often an orderly queue could not be given away because of a running callback. Java: tryUnlockTimes."""

    def put(self, messages: Sequence[Queued], max_offset: int = 0) -> bool:
        """Add what a pull brought; what is here already counts once.

        `max_offset` is the end of the queue as the pull was told it. True: an orderly consumer must be started.
        """
        if messages:
            offsets = [message.queue_offset for message in messages]
            count = len(self._messages)
            if offsets[0] > next(reversed(self._messages), -1) and all(map(lt, offsets, offsets[1:])):
                self._messages.update(zip(offsets, messages, strict=True))
                self.body_bytes += sum([message.body_bytes for message in messages])
                self._queue_offset_max = offsets[-1]
            else:
                self._put_out_of_order(messages)
            self.message_count += len(self._messages) - count
            if max_offset > offsets[-1]:
                self.backlog_count = max_offset - offsets[-1]
        if self.is_consuming or not self._messages:
            return False
        self.is_consuming = True
        return True

    def _put_out_of_order(self, messages: Sequence[Queued]) -> None:
        for message in messages:
            if message.queue_offset not in self._messages:
                self._queue_offset_max = message.queue_offset
                self.body_bytes += message.body_bytes
            self._messages[message.queue_offset] = message
        self._messages = dict(sorted(self._messages.items()))

    def remove(self, messages: Sequence[Queued], now_s: float) -> int:
        """Messages are done with. Answers the offset that may be committed now, or -1 if nothing was here."""
        self.last_consume_s = now_s
        cached = self._messages
        if not cached:
            return -1
        pop = cached.pop
        removed = [message.body_bytes for message in messages if pop(message.queue_offset, None) is not None]
        self._discount(len(removed), sum(removed))
        first = self._first_offset()
        return self._queue_offset_max + 1 if first is None else first

    def take(self, count: int, now_s: float) -> list[Queued]:
        """The `count` lowest, which now count as being consumed. None left: the orderly consumer has ended."""
        self.last_consume_s = now_s
        taken: list[Queued] = []
        while len(taken) < count and (first := self._first_offset()) is not None:
            message = self._messages.pop(first)
            self._consuming[first] = message
            taken.append(message)
        if not taken:
            self.is_consuming = False
        return taken

    def commit(self) -> int:
        """All that was taken is done with. Answers the offset to commit, or -1 if nothing was taken."""
        if not self._consuming:
            return -1
        done, self._consuming = self._consuming, {}
        self._discount(len(done), sum([message.body_bytes for message in done.values()]))
        return max(done) + 1

    def rollback(self) -> None:
        """Everything that was taken waits again."""
        back, self._consuming = self._consuming, {}
        self._put_back(back)

    def consume_again(self, messages: Sequence[Queued]) -> None:
        """Let messages that were taken wait again. Java: makeMessageToConsumeAgain."""
        for message in messages:
            self._consuming.pop(message.queue_offset, None)
        self._put_back({message.queue_offset: message for message in messages})

    def _put_back(self, messages: dict[int, Queued]) -> None:
        self._messages = dict(sorted((self._messages | messages).items()))

    def clear(self) -> None:
        """Forget all messages, as a seek or a reset of offsets does."""
        self._messages.clear()
        self._consuming.clear()
        self.message_count = self.body_bytes = self._queue_offset_max = 0

    def __contains__(self, message: Queued) -> bool:
        """The message waits here: it was neither removed nor taken."""
        return message.queue_offset in self._messages

    def __bool__(self) -> bool:
        """A queue without messages is a queue all the same."""
        return True

    @property
    def has_waiting(self) -> bool:
        """Messages wait here. Those that were taken do not count. Java: hasTempMessage."""
        return bool(self._messages)

    @property
    def first(self) -> Queued | None:
        """The waiting message with the lowest offset."""
        offset = self._first_offset()
        return None if offset is None else self._messages[offset]

    @property
    def span(self) -> int:
        """From the first to the last waiting offset; 0 if there is none. Java: getMaxSpan."""
        first, last = self._first_offset(), self._last_offset()
        return 0 if first is None or last is None else last - first

    def is_lock_valid(self, now_s: float) -> bool:
        """The broker's lock is ours, as far as we may trust what we last heard."""
        return self.is_locked and now_s - self.last_lock_s <= LOCK_LIFE_S

    def is_pull_expired(self, now_s: float) -> bool:
        return now_s - self.last_pull_s > PULL_IDLE_MAX_S

    def info(self, commit_offset: int, *, now_s: float, now_ms: int) -> ProcessQueueInfo:
        """As `mqadmin consumerStatus` shows it. Java: fillProcessQueueInfo."""

        def stamp(moment_s: float) -> int:
            return now_ms - round((now_s - moment_s) * 1000)

        return ProcessQueueInfo(
            commit_offset=commit_offset,
            cached_msg_min_offset=self._first_offset() or 0,
            cached_msg_max_offset=self._last_offset() or 0,
            cached_msg_count=len(self._messages),
            cached_msg_size_in_mib=self.body_bytes // _MIB,
            transaction_msg_min_offset=min(self._consuming, default=0),
            transaction_msg_max_offset=max(self._consuming, default=0),
            transaction_msg_count=len(self._consuming),
            locked=self.is_locked,
            try_unlock_times=self.unlock_attempts,
            last_lock_timestamp=stamp(self.last_lock_s),
            dropped=self.is_dropped,
            last_pull_timestamp=stamp(self.last_pull_s),
            last_consume_timestamp=stamp(self.last_consume_s),
        )

    def _discount(self, count: int, size_bytes: int) -> None:
        self.message_count -= count
        # A message may be removed under another object than it was put, whose body has another length.
        self.body_bytes = self.body_bytes - size_bytes if self.message_count else 0

    def _first_offset(self) -> int | None:
        return next(iter(self._messages), None)

    def _last_offset(self) -> int | None:
        return next(reversed(self._messages), None)


Queue: TypeAlias = ProcessQueue[ReceivedMessage]
"""The process queue of every real consumer."""
