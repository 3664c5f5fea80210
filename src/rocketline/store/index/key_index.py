"""Finding messages by key: the files of the `index` folder. Java: IndexService.

A message is kept under its unique key, each of its keys and its tag. Two texts may have one hash, and the index keeps
nothing else: whoever asks compares the keys of what is found.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from rocketline.clock import Clock
from rocketline.logs import Log, Throttle
from rocketline.store.filesystem import FileSystem, is_no_space
from rocketline.store.index import key_hashes
from rocketline.store.index.index_file import IndexFile
from rocketline.store.index.index_keys import Indexed, IndexKeys, effort, keys_in, weigh_stored
from rocketline.store.index.key_hashes import hash_keys

_log = Log(__name__)

_WAITING_MAX: Final = 2048
_EFFORT_MAX: Final = 32_768
"""What may wait to be added: some twenty milliseconds. Two thousand usual messages are half of it."""
_RICH: Final = 2048
"""Records with more keys than this in one go, and a hundred each, are not for those who are in a hurry."""
_RICH_EACH: Final = 100
_WALK_MAX: Final = 50_000
"""Entries that one question looks at. A slot shared by millions must not stop everybody else; Java walks on."""
_WALK_STEP: Final = 500
"""Entries that are looked at between two pauses."""
_TAG_TYPE: Final = "T"
"""Among the keys a tag is `T#tag`. Java: MessageConst.INDEX_TAG_TYPE."""


@dataclass(frozen=True, slots=True)
class SyncJob:
    """Full files to make durable, off the loop."""

    fs: FileSystem
    folder: Path
    files: tuple[IndexFile, ...]

    def run(self) -> None:
        """Raises `OSError`."""
        for file in self.files:
            file.sync()
        self.fs.sync_folder(self.folder)


IndexRecord: TypeAlias = "tuple[str, Indexed, int, int]"
"""A message of the index: topic; its keys; log offset; store time."""
_Columns: TypeAlias = "tuple[Any, Any, Any]"
"""Hash, log offset and store time of each key, as sequences or arrays."""


class KeyIndex:
    """All index files, oldest first; the last one grows.

    What is added waits in memory until there is enough to do at once, or somebody asks. How much may wait is counted in
    work, that is in keys and bytes: a message may have one key or ten thousand. What the disk does not
    take waits on, and can be found unless it needs a new file.
    """

    def __init__(self, fs: FileSystem, folder: Path, clock: Clock, *, slot_count: int, entry_count: int) -> None:
        self._fs, self._folder, self._clock = fs, folder, clock
        self._slot_count, self._entry_count = slot_count, entry_count
        self._files: list[IndexFile] = []
        self._waiting: list[IndexRecord] = []
        self._hashed: deque[_Columns] = deque()  # what came after those that wait for a new file
        self._waiting_effort = 0
        self._unsynced: list[IndexFile] = []
        self._newest_log_offset = 0
        self._questions = Throttle(clock, name=__name__)
        self.safe_until_ms = 0
        """All records stored until then are in files that are full and synced. For the checkpoint."""

    def load(self, *, is_clean: bool, safe_until_ms: int, log_end: int) -> bool:
        """Open the files; whether some had to be deleted, so that records from `end_log_offset` on are missing.

        Deleted are, after a crash, files with records later than `safe_until_ms`, because they may be torn; and always
        files with records that the log, which ends at `log_end`, has lost. Raises `OSError`.
        """
        self.safe_until_ms = safe_until_ms
        try:
            self._fs.make_folder(self._folder)
        except OSError as error:
            if not is_no_space(error):  # the first file makes it
                raise
        is_complete = True
        for name in self._fs.list(self._folder):
            if not (name.isascii() and name.isdigit()):
                continue
            file = IndexFile(self._fs, self._folder / name, self._slot_count, self._entry_count)
            is_trusted = is_clean or file.end_ms <= safe_until_ms
            if file.is_empty or not is_trusted or (file.is_sound and file.end_log_offset >= log_end):
                is_complete = False
                file.close()
                self._fs.remove(file.path)
            elif not file.is_sound:
                file.close()
                _log.warning("index file has another size than maxHashSlotNum and maxIndexNum say", path=str(file.path))
            else:
                self._files.append(file)
        self._newest_log_offset = self.end_log_offset
        return not is_complete

    @property
    def end_log_offset(self) -> int:
        """Log offset of the newest record in the files, 0 if there is none. Records before it are in the index."""
        return self._files[-1].end_log_offset if self._files else 0

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and log offset of the newest record in the index, zeros if there is none."""
        self._apply_what_can_be()
        return (self._files[-1].end_ms, self._files[-1].end_log_offset) if self._files else (0, 0)

    def add(self, records: Sequence[IndexRecord]) -> bool:
        """Add records, in log order; one that the index has already is skipped. Raises `OSError`: they wait on
        then.

        False, and nothing is added, if they have so many keys that they should be added one by one, with `add_rich`.
        """
        newest = self._newest_log_offset
        if records and records[0][2] < newest:
            records = [record for record in records if record[2] >= newest]
        if not records:
            return True
        work = effort([record[1] for record in records])
        if work > _RICH and work > _RICH_EACH * len(records):
            return False
        self._take(records, work)
        return True

    def add_rich(self, record: IndexRecord) -> int:
        """The same of one record, however many keys it has; how much work that was. Raises `OSError`."""
        if record[2] < self._newest_log_offset:
            return 0
        work = effort([record[1]])
        self._take([record], work)
        return work

    def _take(self, records: Sequence[IndexRecord], work: int) -> None:
        self._waiting += records
        self._waiting_effort += work
        self._newest_log_offset = records[-1][2]
        if len(self._waiting) >= _WAITING_MAX or self._waiting_effort >= _EFFORT_MAX or work > _RICH:
            self._apply()
            if self._files and self._files[-1].is_far_behind:
                self._files[-1].write_behind()

    def find(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> Generator[None, None, list[int]]:
        """Log offsets of records whose key has the same hash, newest first, each once. Raises `OSError`.

        `index_type` T looks for a tag. The times are compared to the second, as Java does: a record may count as stored
        up to 999 ms earlier than it was. It pauses now and then: a slot may be shared by thousands.
        """
        self._apply_what_can_be()
        [hashed] = hash_keys([topic], [f"{_TAG_TYPE}#{key}" if index_type == _TAG_TYPE else key])
        found: dict[int, None] = {}
        walk = _WALK_MAX
        for file in list(reversed(self._files)):
            if file.overlaps(begin_ms, end_ms):
                for entry_hash, log_offset, entry_ms in file.entries(hashed):
                    if entry_hash == hashed and begin_ms <= entry_ms <= end_ms:
                        found[log_offset] = None
                    walk -= 1
                    if len(found) >= max_count or entry_ms < begin_ms or not walk:
                        break
                    if walk % _WALK_STEP == 0:
                        yield
                        if file not in self._files:  # deleted meanwhile, with all that it knew
                            break
            if len(found) >= max_count or file.begin_ms < begin_ms or not walk:
                break
        if not walk:
            self._questions.warning("question to the index ended early", f"{key} in {topic}", entries_seen=_WALK_MAX)
        return list(found)

    def write_behind(self) -> None:
        """Write the entries that wait in memory. Raises `OSError`."""
        self._apply()
        if self._files:
            self._files[-1].write_behind()

    def begin_sync(self) -> SyncJob | None:
        """The files that became full since the last time, to be synced off the loop; None if there are none."""
        return SyncJob(self._fs, self._folder, tuple(self._unsynced)) if self._unsynced else None

    def finish_sync(self, job: SyncJob) -> None:
        """The job ran without an error."""
        self._unsynced = [file for file in self._unsynced if file not in job.files]
        self.safe_until_ms = max(self.safe_until_ms, *(file.end_ms for file in job.files))

    def remove_before(self, log_start: int) -> None:
        """Delete the oldest files while all their records lie before `log_start`; never the last. Raises `OSError`."""
        while len(self._files) > 1 and self._files[0].end_log_offset < log_start:
            if self._files[0] in self._unsynced:
                break  # it may be in somebody's hands
            file = self._files.pop(0)
            file.close()
            self._fs.remove(file.path)

    def close(self, *, is_clean: bool) -> None:
        """Let go of the files; of a clean close they are complete and durable. Raises `OSError`."""
        try:
            if is_clean:
                self._apply()
                for file in self._files[-1:]:
                    file.finish()
                if self._files:
                    SyncJob(self._fs, self._folder, (*self._unsynced, *self._files[-1:])).run()
        finally:
            for file in self._files:
                file.close()

    def _apply(self) -> None:
        """Bring what waits into the last file, and into new ones as they become full. Raises `OSError`; what has no
        place then waits on."""
        if self._waiting:
            waiting, self._waiting, self._waiting_effort = self._waiting, [], 0
            self._hashed.append(entries_of(waiting))
        while self._hashed:
            hashes, log_offsets, stored_ms = self._hashed[0]
            if len(hashes):
                file = self._growing()
                room = file.room
                file.put(hashes[:room], log_offsets[:room], stored_ms[:room])
                hashes = hashes[room:]
                self._hashed[0] = hashes, log_offsets[room:], stored_ms[room:]
            if not len(hashes):
                self._hashed.popleft()

    def _apply_what_can_be(self) -> None:
        """For those who ask: a file that cannot be made is the concern of those who write."""
        with contextlib.suppress(OSError):
            self._apply()

    def _growing(self) -> IndexFile:
        """The last file, or a new one if it is full."""
        last = self._files[-1] if self._files else None
        if last is not None and last.room > 0:
            return last
        if last is not None and last not in self._unsynced:
            last.finish()
            self._unsynced.append(last)
        self._fs.make_folder(self._folder)
        file = IndexFile(self._fs, self._folder / self._new_name(last), self._slot_count, self._entry_count)
        if last is not None:
            try:
                file.follow(last)
            except BaseException:
                file.close()
                with contextlib.suppress(OSError):
                    self._fs.remove(file.path)  # the next attempt has another name
                raise
        self._files.append(file)
        return file

    def _new_name(self, last: IndexFile | None) -> str:
        """The local time to the millisecond, or, if the clock stood still or went back, the next number."""
        now_ms = self._clock.wall_ms()
        name = f"{time.strftime('%Y%m%d%H%M%S', time.localtime(now_ms // 1000))}{now_ms % 1000:03}"
        return name if last is None or name > last.path.name else f"{int(last.path.name) + 1:017}"


def _by_columns(records: list[IndexRecord]) -> _Columns | None:
    """With numpy: hash, log offset and store time of each key of each record; None if one is unusual."""
    if key_hashes.np is None or len(records) < key_hashes.MANY:
        return None
    topics, keys, log_offsets, stored_ms = zip(*records, strict=True)
    found = _by_properties(topics, keys) if set(map(type, keys)) == {bytes} else None
    if found is None:
        found = _by_texts(topics, [keys_in(one) if isinstance(one, bytes) else one for one in keys])
    if found is None:
        return None
    hashes, is_there = found
    repeats = is_there.sum(axis=1)
    offsets, times = (key_hashes.np.array(numbers, "int64").repeat(repeats) for numbers in (log_offsets, stored_ms))
    return hashes[is_there], offsets, times


def _by_properties(topics: Sequence[str], stored: Sequence[Any]) -> tuple[Any, Any] | None:
    weighed = weigh_stored(stored)
    if weighed is None:
        return None
    unique_keys, more_keys, tags = weighed
    columns = unique_keys, more_keys, tags and key_hashes.behind(f"{_TAG_TYPE}#", *tags)
    return key_hashes.join_columns(topics, columns, (True,) * len(columns))


def _by_texts(topics: Sequence[str], keys: Sequence[IndexKeys]) -> tuple[Any, Any] | None:
    unique_keys, more_keys, tags = zip(*keys, strict=True)
    if " " in "".join(filter(None, more_keys)):
        return None
    tagged = {tag: f"{_TAG_TYPE}#{tag}" if tag else None for tag in set(tags)}
    return key_hashes.by_columns(topics, (unique_keys, more_keys, [tagged[tag] for tag in tags]))


def _one_by_one(records: list[IndexRecord]) -> _Columns:
    """The same without numpy, and for whatever records there are."""
    topics: list[str] = []
    keys: list[str] = []
    log_offsets: list[int] = []
    stored_ms: list[int] = []
    for topic, found, log_offset, store_ms in records:
        unique_key, more_keys, tag = keys_in(found) if isinstance(found, bytes) else found
        before = len(keys)
        if unique_key:
            keys.append(unique_key)
        if more_keys:
            keys += [key for key in more_keys.split(" ") if key]
        if tag:
            keys.append(f"{_TAG_TYPE}#{tag}")
        count = len(keys) - before
        topics += (topic,) * count
        log_offsets += (log_offset,) * count
        stored_ms += (store_ms,) * count
    return hash_keys(topics, keys), log_offsets, stored_ms


def entries_of(records: list[IndexRecord]) -> tuple[Any, Any, Any]:
    """Hash, log offset and store time of each entry that these records have in the index, in its order."""
    return _by_columns(records) or _one_by_one(records)
