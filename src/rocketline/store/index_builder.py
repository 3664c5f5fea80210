"""Keeps the key index in step with the log, also when it has to catch up after a crash.

The index takes records in log order and no other. Normally each is added as it is dispatched. After a crash the index
is rebuilt from the log behind the back of the running broker; until that has reached the newest record, new ones are
not added here but found by it. The same happens when records come with thousands of keys: they lie in the log anyway,
and nothing of them is kept in memory until their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Final

from rocketline.clock import Clock
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketline.store.config import StoreConfig
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.filesystem import FileSystem
from rocketline.store.index.index_keys import indexed, pieces
from rocketline.store.index.key_index import KeyIndex, SyncJob
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, scan
from rocketline.store.log_writer import DispatchEntry

_KEYS_AT_ONCE: Final = 2048
"""Of a record that has more, so many are added in one go: a few milliseconds."""
_RECORD_EFFORT: Final = 16
"""To find a record in the log takes as long as so many keys."""


class IndexBuilder:
    """The index of one store, or nothing at all if `messageIndexEnable` is off."""

    def __init__(self, config: StoreConfig, fs: FileSystem, clock: Clock, log: CommitLog, folder: Path) -> None:
        self._log = log
        self._index = (
            KeyIndex(fs, folder, clock, slot_count=config.max_hash_slot_num, entry_count=config.max_index_num)
            if config.message_index_enable
            else None
        )
        self._behind_at: int | None = None  # where the rebuilding goes on, None if the index is complete
        self._parts_done = 0  # how much of the record there was added already
        self.on_behind: Callable[[], object] = lambda: None
        """Told when `catch_up` has something to do that it had not before."""

    def load(self, checkpoint: Checkpoint, derived_from: int, *, is_clean: bool) -> None:
        """Open the files that can be trusted; the records from `derived_from` on may have to be added again.

        If files were lost, and after a crash even their names may be, so do those between the last one that is left and
        `derived_from`; Java leaves them out.
        """
        if self._index is not None:
            safe_until_ms, log = checkpoint.index_msg_timestamp, self._log
            if self._index.load(is_clean=is_clean, safe_until_ms=safe_until_ms, log_end=log.end) or not is_clean:
                derived_from = min(derived_from, max(self._index.end_log_offset, log.start))
            self._behind_at = derived_from if derived_from < log.end else None

    @property
    def is_behind(self) -> bool:
        """Records that can be read already may be missing from the index."""
        return self._behind_at is not None

    @property
    def behind_bytes(self) -> int:
        """How much of the log is still to be indexed."""
        return 0 if self._behind_at is None else self._log.end - self._behind_at

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and log offset of the newest record in the index."""
        return self._index.last_update if self._index is not None else (0, 0)

    def add(self, entries: Iterable[DispatchEntry]) -> None:
        """Records were dispatched. Raises `OSError`; they wait in memory then."""
        if self._index is not None and self._behind_at is None:
            records = [
                (queue.topic, keys, log_offset, store_ms)
                for queue, log_offset, _, _, store_ms, keys, _ in entries
                if keys
            ]
            if not self._index.add(records):
                self._behind_at = records[0][2]
                self.on_behind()

    def begin_sync(self) -> SyncJob | None:
        """What to sync, off the loop, of files that are full."""
        return self._index.begin_sync() if self._index is not None else None

    def finish_sync(self, job: SyncJob) -> int:
        """The job ran; up to which store time the index is durable now."""
        assert self._index is not None
        self._index.finish_sync(job)
        return self._index.safe_until_ms

    def catch_up(self, effort_max: int, confirmed: int) -> bool:
        """Add the next records, up to the log offset `confirmed`; whether more are left. Raises `OSError`;
        the last of them waits in memory then.

        A step is over with the record that makes up `effort_max`: each counts, and each of its keys; one with thousands
        of them takes several.
        """
        if self._index is None or self._behind_at is None:
            return False
        position, done = max(self._behind_at, self._log.start), 0
        for record in scan(self._log, position, confirmed, check_crc=False):
            if done >= effort_max:
                self._behind_at = record.log_offset
                return True
            done += _RECORD_EFFORT
            if record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
                done += self._add_some(self._index, record, effort_max - done)
            if self._parts_done:
                return True
            self._behind_at = record.log_offset + record.size
        self._behind_at = None
        return False

    def _add_some(self, index: KeyIndex, record: Record, effort_max: int) -> int:
        """Go on with the keys of one record, until they are all added or it was enough; how much work that was."""
        topic = record.topic.decode("utf-8", "replace")
        parts, done = pieces(indexed(record.properties), _KEYS_AT_ONCE), 0
        for part in parts[self._parts_done :]:
            if done and done >= effort_max:
                self._behind_at = record.log_offset
                return done
            self._parts_done += 1
            if self._parts_done == len(parts):
                self._parts_done, self._behind_at = 0, record.log_offset + record.size
            done += index.add_rich((topic, part, record.log_offset, record.store_ms))
        return done

    def find(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None
    ) -> Generator[None, None, list[int]]:
        """Log offsets of records with that key, newest first; hashes may collide. It pauses now and then."""
        if self._index is None:
            return []
        return (yield from self._index.find(topic, key, max_count, begin_ms, end_ms, index_type))

    def write_behind(self) -> None:
        """Raises `OSError`."""
        if self._index is not None:
            self._index.write_behind()

    def remove_before(self, log_start: int) -> None:
        """Delete the files whose records are all gone from the log. Raises `OSError`."""
        if self._index is not None:
            self._index.remove_before(log_start)

    def close(self, *, is_clean: bool) -> None:
        """Let go; of a clean close the files are complete. Raises `OSError`."""
        if self._index is not None:
            self._index.close(is_clean=is_clean)
