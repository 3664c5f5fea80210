"""Locks of queues: an orderly consumer reads a queue only while it holds the queue's lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue

LOCK_LIFE_S = 60.0
LOCKS_MAX = 262_144
"""In all; each takes some 300 bytes and its names. What is beyond that is not locked."""
LOCKS_OF_ONE_MAX = LOCKS_MAX // 4
"""Locks that one connection was the last to take or to renew."""
_NAME_MAX = 255
"""Characters of a topic's or broker's name; no real one is longer."""
_LOCKS_A_STEP = 2_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    taken_s: float
    owner: Hashable


class LockTable:
    """Who holds which queue, by group. Java: RebalanceLockManager.

    A lock lives 60 s from its last renewal; clients renew theirs every 20 s. Locks are in memory only, so a broker
    starts with all queues free. Neither topic nor queue nor client need exist, so their number is bounded, and no
    connection can take all of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0
        self._count_of: Counter[Hashable] = Counter()

    def lock(self, owner: Hashable, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Take or renew what is free, expired or the client's own; answers the queues that it holds now.

        `owner` is the connection that they count for."""
        now_s = self._clock.monotonic()
        locks = self._locks.get(group) or {}
        held = []
        for queue in dict.fromkeys(queues):
            lock = locks.get(queue)
            if not self._has_room_for(queue, lock, owner):
                continue
            if lock is None:
                locks[queue] = _Lock(client_id, now_s, owner)
                self._add(owner, 1)
            elif lock.client_id == client_id or _is_expired(lock, now_s):
                self._add(lock.owner, -1)
                self._add(owner, 1)
                lock.client_id, lock.taken_s, lock.owner = client_id, now_s, owner
            else:
                continue
            held.append(queue)
        if locks:
            self._locks[group] = locks
        return held

    def _has_room_for(self, queue: MessageQueue, lock: _Lock | None, owner: Hashable) -> bool:
        if lock is not None and lock.owner == owner:
            return True
        if self._count_of[owner] >= LOCKS_OF_ONE_MAX or (lock is None and self._count >= LOCKS_MAX):
            return False
        return len(queue.topic) <= _NAME_MAX and len(queue.broker_name) <= _NAME_MAX

    def _add(self, owner: Hashable, more: int) -> None:
        self._count += more
        count = self._count_of[owner] + more
        if count:
            self._count_of[owner] = count
        else:
            del self._count_of[owner]

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Let go of those that are the client's own."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                self._forget(group, queue)

    def _forget(self, group: str, queue: MessageQueue) -> None:
        locks = self._locks[group]
        self._add(locks.pop(queue).owner, -1)
        if not locks:
            del self._locks[group]

    def holds_any(self, group: str) -> bool:
        """Somebody of the group holds a lock. Java: not isLockAllExpired."""
        now_s = self._clock.monotonic()
        return any(not _is_expired(lock, now_s) for lock in self._locks.get(group, {}).values())

    def scan(self) -> Steps[None]:
        """Forget what has expired, so that groups which are gone do not stay in memory for ever."""
        now_s = self._clock.monotonic()
        known = ((group, queue) for group in list(self._locks) for queue in list(self._locks.get(group, ())))
        for (group, queue), is_step in each_with_pause(known, _LOCKS_A_STEP):
            lock = self._locks.get(group, {}).get(queue)
            if lock is not None and _is_expired(lock, now_s):
                self._forget(group, queue)
            if is_step:
                yield


def _is_expired(lock: _Lock, now_s: float) -> bool:
    return now_s - lock.taken_s > LOCK_LIFE_S
