"""Delayed messages: each level has a queue, in the order of their times; what is due moves to its real topic.

A message with a delay level is stored in SCHEDULE_TOPIC_XXXX, in the queue of its level, whose unit holds the time that
it is due. How far each queue was delivered is kept in `delayOffset.json`. Java: ScheduleMessageService.

What is saved never runs ahead of the disk: an offset is written once the messages delivered before it are safe in the
log. So after a crash a message may come twice, and none is lost.

Differs: a message that can never be delivered is logged and left behind; in Apache its level stands still for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.saving import SavedFile
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.real_place import real_place
from rocketline.clock import Clock
from rocketline.errors import IllegalMessageError, LocalProtocolError, StoreError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.delay_levels import DelayLevels
from rocketline.model.ids import LogOffset
from rocketline.model.message import StoredMessage
from rocketline.model.topic_config import DataVersion
from rocketline.settings import Settings
from rocketline.store.files.json_files import FileSave, load_json, pretty
from rocketline.store.filesystem import FileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import NO_SIZE
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.offsets import DelayOffsetTable

_FIRST_S: Final = 1.0
_IDLE_S: Final = 0.1
_AFTER_ERROR_S: Final = 10.0
_TURN_MESSAGES: Final = 16
"""So many of one level are delivered in one turn, which takes a millisecond or two; then everybody else has theirs."""
_TURN_BYTES: Final = 256 * 1024
"""And so many bytes of all levels together, or the first message: properties may take ten times as long as bodies."""
_MESSAGE_BYTES: Final = 4 * 1024
"""As what the smallest one counts."""
_GROUP: Final = "SCHEDULE_CONSUMER"
"""As which deliveries are counted. Java: MixAll.SCHEDULE_CONSUMER_GROUP."""


class DelayedDelivery(SavedFile):
    """Delivers delayed messages, never before they are due. `run` does so for as long as it is left to."""

    def __init__(
        self,
        store: MessageStore,
        files: FileSystem,
        path: Path,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
    ) -> None:
        """Raises `CorruptStoreError` if the file at `path` cannot be read."""
        self._store, self._files, self._path = store, files, path
        self._stats, self._settings, self._clock, self._log = stats, settings, clock, log
        self._levels: DelayLevels = store.levels
        saved = load_json(files, path, DelayOffsetTable) or DelayOffsetTable()
        self._data_version = saved.data_version or DataVersion(timestamp=clock.wall_ms())
        self._offsets = dict(saved.offset_table)
        self._deliveries = 0
        self._next_level, self._left = 1, 0  # whose turn it is, and how many bytes more this turn of the loop may take
        self._unsafe: tuple[DelayOffsetTable, int] | None = None  # to be saved once the log is flushed up to there
        self._saved = self._being_saved = saved

    # --- what others ask

    @property
    def table(self) -> DelayOffsetTable:
        """How far each level is, as it is saved and as replicas ask for it."""
        return DelayOffsetTable(self._data_version, dict(self._offsets))

    def progress(self) -> Mapping[int, tuple[int, int]]:
        """For each level that was ever used: the next offset to deliver, and the end of its queue."""
        topic = names.SCHEDULE_TOPIC
        return {level: (at, self._store.max_offset(topic, level - 1)) for level, at in sorted(self._offsets.items())}

    # --- delivery

    async def run(self) -> None:
        """Deliver whatever comes due, until cancelled."""
        self._correct()
        wait_s = _FIRST_S
        while True:
            await asyncio.sleep(wait_s)
            try:
                wait_s = self.deliver()
            except OSError as error:
                self._log.error("delayed messages not delivered", str(error), error=error)
                wait_s = _AFTER_ERROR_S

    def _correct(self) -> None:
        """Offsets count as far as the queues went at the start: Apache's broker saves them ahead of the log, and after
        a power cut the places behind are given out again."""
        for level, offset in list(self._offsets.items()):
            with suppress(OSError):  # what cannot be read now is delivered later, too
                self._offsets[level] = min(offset, self._store.max_offset(names.SCHEDULE_TOPIC, level - 1))

    def deliver(self) -> float:
        """Deliver some of what is due. Returns after how many seconds there may be more to do."""
        now_ms, wait_s, self._left = self._store.store_clock.now_ms(), _IDLE_S, _TURN_BYTES
        for _ in range(self._levels.max_level):
            wait_ms = self._deliver_level(self._next_level, now_ms)
            self._next_level = self._next_level % self._levels.max_level + 1
            if self._left <= 0:
                return 0
            if wait_ms is not None:
                wait_s = min(wait_s, wait_ms / 1000)
        return wait_s

    def _deliver_level(self, level: int, now_ms: int) -> int | None:
        """The same for one level: milliseconds until its next message is due, None if it is to be looked at idly."""
        queue = self._store.queue(names.SCHEDULE_TOPIC, level - 1)
        if queue is None or not queue.max_offset:
            return None
        at = min(max(self._offsets.get(level, 0), queue.min_offset), queue.max_offset)
        wait_ms = None
        try:
            for log_offset, size, due_ms in self._store.units(names.SCHEDULE_TOPIC, level - 1, at, _TURN_MESSAGES):
                wait_ms = due_ms - now_ms
                # More than a whole delay ahead: the level was longer when it was stored, or by a broker of Apache whose
                # clock was set back since. Java: correctDeliverTimestamp.
                if 0 < wait_ms <= self._levels.delay_ms(level):
                    break
                if not self._deliver_one(level, log_offset):
                    wait_ms = None
                    break
                at, wait_ms, self._left = at + 1, 0, self._left - max(0 if size == NO_SIZE else size, _MESSAGE_BYTES)
                if self._left <= 0:
                    break
        finally:
            self._move(level, at)  # what was delivered before a failure must not come again
        return wait_ms

    def _deliver_one(self, level: int, log_offset: int) -> bool:
        """False if the store does not take the message now: it is to be tried again."""
        parked = self._store.message_at(log_offset)
        if parked is not None and parked.topic != names.SCHEDULE_TOPIC:
            parked = None  # in place of one that the log has lost, a unit leads to its beginning
        message = None if parked is None else _released(parked)
        if message is None:
            self._log.warning("delayed message left behind", "it cannot be read", level=level, log_offset=log_offset)
            return True
        size = len(message.body)
        try:
            self._store.append(message)
        except (IllegalMessageError, LocalProtocolError) as error:
            self._log.error("delayed message left behind", str(error), level=level, log_offset=log_offset)
            return True
        except StoreError as error:
            self._log.warning("delayed message not delivered", str(error), level=level)
            return False
        if self._settings.value.store.enable_schedule_message_stats:
            self._stats.get(_GROUP, names.SCHEDULE_TOPIC, level - 1, 1, size)
            self._stats.put(message.topic, message.queue_id, 1, size)
        return True

    def _move(self, level: int, offset: int) -> None:
        moved = offset - self._offsets.get(level, 0)
        if not moved and level in self._offsets:
            return
        self._offsets[level] = offset
        step = max(1, self._settings.value.delay_offset_update_version_step)
        before, self._deliveries = self._deliveries, self._deliveries + max(moved, 0)
        if self._deliveries // step != before // step:
            counter, now_ms = self._data_version.counter + 1, self._clock.wall_ms()
            self._data_version = replace(self._data_version, counter=counter, timestamp=now_ms)

    # --- saving

    def begin_save(self) -> FileSave | None:
        """How far delivery is, or was when the log ended where it is flushed to by now; None if the file says so."""
        flushed = self._store.flushed_log_offset
        if self._unsafe is None or flushed >= self._store.max_log_offset:
            self._unsafe = self.table, self._store.max_log_offset
        if flushed < self._unsafe[1]:
            return None
        self._being_saved, self._unsafe = self._unsafe[0], None
        if self._being_saved.offset_table == self._saved.offset_table:
            return None
        return FileSave(self._files, self._path, iter([pretty(to_value(self._being_saved))]))

    def save_done(self) -> None:
        """The file was written."""
        self._saved = self._being_saved


def _released(parked: StoredMessage) -> StoredMessage | None:
    """The message as it goes to its real topic, None if it does not say where that is.

    It keeps the properties that tell of its delay.
    """
    if (place := real_place(parked)) is None:
        return None
    topic, queue_id = place
    return replace(parked, topic=topic, queue_id=queue_id, prepared_log_offset=LogOffset(0), version=1)
