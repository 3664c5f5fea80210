"""Locks of queues: an orderly consumer reads a queue only while it holds the queue's lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue

LOCK_LIFE_S = 60.0
LOCKS_MAX = 262_144
"""In all; each takes some 300 bytes. What is beyond that is not locked."""
_NAME_MAX = 512
"""Characters of a topic's or broker's name; no real one is longer."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    taken_s: float


class QueueLocks:
    """Who holds which queue, by group. Java: RebalanceLockManager.

    A lock lives 60 s from its last renewal; clients renew theirs every 20 s. Locks are in memory only, so a broker
    starts with all queues free. Neither topic nor queue nor client need exist, so their number is bounded.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Take or renew what is free, expired or the client's own; answers the queues that it holds now."""
        now_s = self._clock.monotonic()
        locks = self._locks.get(group) or {}
        held = []
        for queue in dict.fromkeys(queues):
            lock = locks.get(queue)
            if lock is None and not self._has_room_for(queue):
                continue
            if lock is None or lock.client_id == client_id or _is_expired(lock, now_s):
                self._count += lock is None
                locks[queue] = _Lock(client_id, now_s)
                held.append(queue)
        if locks:
            self._locks[group] = locks
        return held

    def _has_room_for(self, queue: MessageQueue) -> bool:
        return self._count < LOCKS_MAX and len(queue.topic) <= _NAME_MAX and len(queue.broker_name) <= _NAME_MAX

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Let go of those that are the client's own."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def holds_any(self, group: str) -> bool:
        """Somebody of the group holds a lock. Java: not isLockAllExpired."""
        now_s = self._clock.monotonic()
        return any(not _is_expired(lock, now_s) for lock in self._locks.get(group, {}).values())

    def scan(self) -> None:
        """Forget what has expired, so that groups which are gone do not stay in memory for ever."""
        now_s = self._clock.monotonic()
        for group, locks in list(self._locks.items()):
            alive = {queue: lock for queue, lock in locks.items() if not _is_expired(lock, now_s)}
            self._count -= len(locks) - len(alive)
            if alive:
                self._locks[group] = alive
            else:
                del self._locks[group]


def _is_expired(lock: _Lock, now_s: float) -> bool:
    return now_s - lock.taken_s > LOCK_LIFE_S
