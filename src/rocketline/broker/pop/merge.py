"""Checkpoints that stay in memory for a while: what is acknowledged meanwhile is never stored. Java:
PopBufferMergeService, with `enablePopBufferMerge`.

A checkpoint is stored, with what was acknowledged of it by then, before it is due or when it has stayed long enough.
The group's offset waits for that: so what a crash takes away is popped anew at once, also what was acknowledged of it.

Differs: an acknowledgement counts here for as long as its checkpoint is here, for both are stored together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.due import Due
from rocketline.broker.pop.positions import PopPositions, Taken
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.logs import Throttle
from rocketline.model.message import StoredMessage
from rocketline.settings import Settings
from rocketline.wire.bodies.pop import AckMsg, CheckpointKey, PopCheckPoint

_SPARE_MS: Final = 1500
"""By which a checkpoint must have more time than it takes to be stored, or it is stored at once."""
_MESSAGES_A_TURN: Final = 128
"""That are stored in one turn of the loop, which takes some milliseconds; a checkpoint and its acknowledgements stay
together."""
_TICK_MS: Final = 10
"""Those that are to be stored within the same are found together."""
POINT_BYTES: Final = 1024
"""What a checkpoint takes here, but for its names and messages."""
_MESSAGE_BYTES: Final = 8
BUFFERED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all: what is more is stored at once."""
_AGAIN_MS: Final = 1000
"""After which one is tried again that the store did not take."""


@dataclass(slots=True, eq=False)
class _Buffered:
    """A checkpoint, and what was acknowledged of it."""

    point: PopCheckPoint
    revive_queue_id: int
    taken: Taken
    left: int
    """Bit i: message i was not acknowledged."""
    bytes: int
    tick: int = 0
    """When it is to be stored, at the latest."""

    @property
    def acked(self) -> list[int]:
        """The offsets that were acknowledged."""
        return [offset for index, offset in enumerate(self.point.offsets()) if not self.left >> index & 1]

    def cross_off(self, offsets: Sequence[int]) -> None:
        for index, offset in enumerate(self.point.offsets()):
            if offset in offsets:
                self.left &= ~(1 << index)


class MergeBuffer:
    """The checkpoints of pops that are young: at most `popCkMaxBufferSize`, and so many bytes; what is more is stored
    at once."""

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
        self._due: Due[CheckpointKey] = Due()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._buffered)

    def takes(self, point: PopCheckPoint) -> bool:
        """Whether such a checkpoint may stay in memory."""
        config = self._settings.value
        if not config.enable_pop_buffer_merge or len(self) >= config.pop_ck_max_buffer_size:
            return False
        if self.bytes + _bytes_of(point) > BUFFERED_BYTES_MAX:
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
        size, all_left = _bytes_of(point), (1 << len(point.offsets())) - 1
        self._buffered[key] = buffered = _Buffered(point, revive_queue_id, taken, all_left, size)
        self.bytes += size
        stay_ms = min(
            point.pop_time + config.pop_ck_stay_buffer_time, point.revive_ms - config.pop_ck_stay_buffer_time_out
        )
        self._wait(stay_ms, key, buffered)

    def _wait(self, until_ms: int, key: CheckpointKey, buffered: _Buffered) -> None:
        buffered.tick = -(-until_ms // _TICK_MS)
        self._due.add(buffered.tick, key)

    def _remove(self, key: CheckpointKey) -> _Buffered:
        buffered = self._buffered.pop(key)
        self._due.discard(buffered.tick, key)
        self.bytes -= buffered.bytes
        return buffered

    def has(self, ack: AckMsg) -> bool:
        """Whether what is acknowledged has its checkpoint here."""
        return self._revive.key(ack) in self._buffered

    def ack(self, ack: AckMsg) -> bool:
        """Cross off what is acknowledged, if its checkpoint is here; False: it must be stored."""
        key = self._revive.key(ack)
        buffered = self._buffered.get(key)
        if buffered is None:
            return False
        buffered.cross_off(ack.offsets())
        if not buffered.left:
            self._remove(key)
            self._positions.safe(buffered.taken)
        return True

    # --- storing

    def store_due(self) -> bool:
        """Store some of those that have stayed long enough; whether more are due."""
        now, keys, left = self._now_ms() // _TICK_MS, list[CheckpointKey](), _MESSAGES_A_TURN
        while left > 0 and (key := self._due.next(now)) is not None:
            keys.append(key)
            left -= self._message_count(self._buffered[key])
        self._store(keys)
        return self._due.has_any(now)

    def store_all(self) -> None:
        """Store what is here, before a stop. What the store does not take is popped anew."""
        keys, messages = list[CheckpointKey](), 0
        for key in list(self._buffered):
            keys.append(key)
            messages += self._message_count(self._buffered[key])
            if messages >= _MESSAGES_A_TURN:
                self._store(keys)
                keys, messages = [], 0
        self._store(keys)

    def _store(self, keys: list[CheckpointKey]) -> None:
        if not keys:
            return
        problem = self._revive.put([message for key in keys for message in self._messages(self._buffered[key])])
        if problem is not None:
            self._log.warning("checkpoints of pops not stored yet", problem, waiting=len(self))
            for key in keys:
                self._due.discard(self._buffered[key].tick, key)
                self._wait(self._now_ms() + _AGAIN_MS, key, self._buffered[key])
            return
        stored = [self._remove(key) for key in keys]
        self._revive.wait(lambda problem: self._are_safe(stored, problem))

    def _are_safe(self, stored: list[_Buffered], problem: str | None) -> None:
        for each in stored:
            if problem is None:
                self._positions.safe(each.taken)
            else:
                self._positions.lost(each.taken)

    def _message_count(self, buffered: _Buffered) -> int:
        acked = len(buffered.acked)
        return 1 + (min(acked, 1) if self._settings.value.enable_pop_batch_ack else acked)

    def _messages(self, buffered: _Buffered) -> list[StoredMessage]:
        """The checkpoint, and what was acknowledged of it: each by itself, or together."""
        point, queue_id, acked = buffered.point, buffered.revive_queue_id, buffered.acked
        messages = [self._revive.checkpoint(point, queue_id)]
        if acked and self._settings.value.enable_pop_batch_ack:
            acks = [_ack(point, -1, acked)]
        else:
            acks = [_ack(point, offset, None) for offset in acked]
        return [*messages, *(self._revive.ack(ack, queue_id, point.revive_ms) for ack in acks)]


def _bytes_of(point: PopCheckPoint) -> int:
    names = sys.getsizeof(point.topic) + sys.getsizeof(point.consumer_group)
    return POINT_BYTES + names + _MESSAGE_BYTES * len(point.offsets())


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
