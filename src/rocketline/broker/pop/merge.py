"""Checkpoints that stay in memory for a while: what is acknowledged meanwhile is never stored. Java:
PopBufferMergeService, with `enablePopBufferMerge`.

A checkpoint is stored, with what was acknowledged of it by then, before it is due or when it has stayed long enough.
The group's offset waits for that: so what a crash takes away is popped anew at once, also what was acknowledged of it.

Differs: an acknowledgement counts here for as long as its checkpoint is here, for both are stored together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.pop.positions import PopPositions, Taken
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.logs import Throttle
from rocketline.model.message import StoredMessage
from rocketline.settings import Settings
from rocketline.wire.bodies.pop import AckMsg, CheckpointKey, PopCheckPoint

_SPARE_MS: Final = 1500
"""By which a checkpoint must have more time than it takes to be stored, or it is stored at once."""
_STORED_A_TURN: Final = 64
_AGAIN_MS: Final = 1000
"""After which one is tried again that the store did not take."""


@dataclass(slots=True, eq=False)
class _Buffered:
    """A checkpoint, and what was acknowledged of it."""

    point: PopCheckPoint
    revive_queue_id: int
    taken: Taken
    left: dict[int, None]
    """Offsets that were not acknowledged."""
    acked: list[int]


class MergeBuffer:
    """The checkpoints of pops that are young. At most `popCkMaxBufferSize`; what is more is stored at once."""

    def __init__(
        self,
        revive: ReviveTopic,
        positions: PopPositions,
        settings: Settings[BrokerConfig],
        now_ms: Callable[[], int],
        log: Throttle,
        on_first: Callable[[], None],
    ) -> None:
        """`on_first` is called before the first checkpoint is kept here."""
        self._on_first: Callable[[], None] | None = on_first
        self._revive, self._positions, self._settings = revive, positions, settings
        self._now_ms, self._log = now_ms, log
        self._buffered: dict[CheckpointKey, _Buffered] = {}
        self._due: list[tuple[int, int, CheckpointKey]] = []
        """A heap: by when they are to be stored, at the latest."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._buffered)

    def takes(self, point: PopCheckPoint) -> bool:
        """Whether such a checkpoint may stay in memory."""
        config = self._settings.value
        if not config.enable_pop_buffer_merge or len(self) >= config.pop_ck_max_buffer_size:
            return False
        if point.revive_ms - self._now_ms() < config.pop_ck_stay_buffer_time_out + _SPARE_MS:
            return False
        waiting = self._positions.waiting(point.consumer_group or "", point.topic or "", point.queue_id)
        return waiting < config.pop_ck_offset_max_queue_size and self._revive.key(point) not in self._buffered

    def add(self, point: PopCheckPoint, revive_queue_id: int, taken: Taken) -> None:
        """Keep it; `takes` has said that it may be."""
        if self._on_first is not None:
            self._on_first()
            self._on_first = None
        config, key = self._settings.value, self._revive.key(point)
        left = dict.fromkeys(point.offsets())
        self._buffered[key] = _Buffered(point, revive_queue_id, taken, left, [])
        stay_ms = min(
            point.pop_time + config.pop_ck_stay_buffer_time, point.revive_ms - config.pop_ck_stay_buffer_time_out
        )
        self._wait(stay_ms, key)

    def _wait(self, until_ms: int, key: CheckpointKey) -> None:
        self._number += 1
        heapq.heappush(self._due, (until_ms, self._number, key))

    def has(self, ack: AckMsg) -> bool:
        """Whether what is acknowledged has its checkpoint here."""
        return self._revive.key(ack) in self._buffered

    def ack(self, ack: AckMsg) -> bool:
        """Cross off what is acknowledged, if its checkpoint is here; False: it must be stored."""
        key = self._revive.key(ack)
        buffered = self._buffered.get(key)
        if buffered is None:
            return False
        for offset in ack.offsets():
            if offset in buffered.left:
                del buffered.left[offset]
                buffered.acked.append(offset)
        if not buffered.left:
            del self._buffered[key]
            self._positions.safe(buffered.taken)
        return True

    # --- storing

    def store_due(self) -> bool:
        """Store some of those that have stayed long enough; whether more are due."""
        now_ms, keys = self._now_ms(), list[CheckpointKey]()
        while self._due and self._due[0][0] <= now_ms and len(keys) < _STORED_A_TURN:
            key = heapq.heappop(self._due)[2]
            if key in self._buffered:
                keys.append(key)
        self._store(keys)
        self._forget_settled()
        return bool(self._due) and self._due[0][0] <= now_ms

    def store_all(self) -> None:
        """Store what is here, before a stop. What the store does not take is popped anew."""
        self._store(list(self._buffered))

    def _store(self, keys: list[CheckpointKey]) -> None:
        if not keys:
            return
        stored = [self._buffered[key] for key in keys]
        problem = self._revive.put([message for each in stored for message in self._messages(each)])
        if problem is not None:
            self._log.warning("checkpoints of pops not stored yet", problem, waiting=len(self))
            for key in keys:
                self._wait(self._now_ms() + _AGAIN_MS, key)
            return
        for key in keys:
            del self._buffered[key]
        self._revive.wait(lambda problem: self._are_safe(stored, problem))

    def _are_safe(self, stored: list[_Buffered], problem: str | None) -> None:
        for each in stored:
            if problem is None:
                self._positions.safe(each.taken)
            else:
                self._positions.lost(each.taken)

    def _messages(self, buffered: _Buffered) -> list[StoredMessage]:
        """The checkpoint, and what was acknowledged of it: each by itself, or together."""
        point, queue_id = buffered.point, buffered.revive_queue_id
        messages = [self._revive.checkpoint(point, queue_id)]
        if buffered.acked and self._settings.value.enable_pop_batch_ack:
            acks = [_ack(point, -1, buffered.acked)]
        else:
            acks = [_ack(point, offset, None) for offset in buffered.acked]
        return [*messages, *(self._revive.ack(ack, queue_id, point.revive_ms) for ack in acks)]

    def _forget_settled(self) -> None:
        """Those that are acknowledged stay in the heap until they come up, or are too many."""
        if len(self._due) > 2 * len(self._buffered) + _STORED_A_TURN:
            self._due = [entry for entry in self._due if entry[2] in self._buffered]
            heapq.heapify(self._due)


def _ack(point: PopCheckPoint, offset: int, offsets: list[int] | None) -> AckMsg:
    return AckMsg(
        point.topic,
        point.consumer_group,
        point.queue_id,
        point.start_offset,
        point.pop_time,
        offset,
        point.broker_name,
        offsets,
    )
