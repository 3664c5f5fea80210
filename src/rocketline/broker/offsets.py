"""Consumers' offsets: how far each group is in each queue, kept in `consumerOffset.json`. Java: ConsumerOffsetManager.

Three tables: committed offsets; resets, each of which waits for the next pull of its queue to take it; and the
positions of the last pulls, which are for people to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import QUEUES_A_STEP, Steps, each_with_pause
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.model.topic_config import DataVersion
from rocketline.settings import Settings
from rocketline.store.filesystem import FileSystem
from rocketline.store.json_files import FileSave, load_json, pretty, pretty_pieces
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.offsets import ConsumerOffsetTable
from rocketline.wire.frame import FRAME_BYTES_MAX

_Table: TypeAlias = defaultdict[str, dict[str, dict[int, int]]]
"""Offsets by group, topic and queue id."""
_NONE: dict[int, int] = {}
_LINE: Final = "\n\t"

_MAPS_A_STEP: Final = 1_000
_OFFSETS_A_STEP: Final = 500
_GROUPS_A_STEP: Final = 1_000
_REMOVED_A_STEP: Final = 10_000
_OFFSET_BYTES_MIN: Final = len("0:0,")

OFFSETS_MAX: Final = 4_000_000
"""Of all groups, resets and pulls together: half a gigabyte of memory, and 80 MB of file. What is more is not kept."""


class ConsumerOffsets:
    """The offsets of all groups. A commit overwrites what was there, be it higher or not, and checks no range."""

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        settings: Settings[BrokerConfig],
        clock: Clock,
        saved: ConsumerOffsetTable | None = None,
    ) -> None:
        self._files, self._path, self._settings, self._clock = files, path, settings, clock
        self._committed = _parted(saved.offset_table if saved else {})
        self._resets: _Table = defaultdict(dict)
        self._pulled: _Table = defaultdict(dict)
        self._count = sum([len(offsets) for topics in self._committed.values() for offsets in topics.values()])
        self._commits = 0
        self._is_changed = False
        self.data_version = (saved and saved.data_version) or DataVersion(timestamp=clock.wall_ms())

    @classmethod
    def load(cls, files: FileSystem, path: Path, settings: Settings[BrokerConfig], clock: Clock) -> ConsumerOffsets:
        """What the file holds; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, settings, clock, load_json(files, path, ConsumerOffsetTable))

    def begin_save(self) -> FileSave | None:
        """The file, to be written piece by piece, if anything changed since the last time.

        What is committed meanwhile may be in it or not; it comes with the next one."""
        if not self._is_changed:
            return None
        self._is_changed = False
        return FileSave(self._files, self._path, self._pieces())

    def save_failed(self) -> None:
        """The next save must not be left out."""
        self._is_changed = True

    def save_done(self) -> None:
        """There is nothing to remember."""

    def save(self) -> None:
        """Write the file now, if anything changed. Raises `OSError`."""
        if (job := self.begin_save()) is not None:
            try:
                job.run()
            except OSError:
                self.save_failed()
                raise

    def _pieces(self) -> Iterator[str]:
        """What `table` says, in the layout of files."""
        yield f'{{\n\t"dataVersion":{pretty(to_value(self.data_version), _LINE)},\n\t"groupTopicMap":'
        groups = ((group, pretty(list(topics), _LINE + "\t")) for group, topics in _each(self._committed) if topics)
        yield from pretty_pieces(groups, _LINE)
        for name, table in (("offsetTable", self._committed), ("pullOffsetTable", self._pulled)):
            yield f',\n\t"{name}":'
            yield from pretty_pieces(_offset_texts(table), _LINE)
        yield "\n}"

    def table(self) -> Steps[ConsumerOffsetTable]:
        """All of it, as it is saved and as slaves ask for it. Raises `LocalProtocolError` if no frame can carry it."""
        least = _OFFSET_BYTES_MIN * self._count
        if least > FRAME_BYTES_MAX:
            raise LocalProtocolError(f"{self._count} offsets have more than the {FRAME_BYTES_MAX} bytes of a frame")
        version, groups = self.data_version, {}
        for (group, topics), is_step in each_with_pause(_each(self._committed)):
            if topics:
                groups[group] = list(topics)
            if is_step:
                yield
        committed = yield from _joined(self._committed)
        pulled = yield from _joined(self._pulled)
        return ConsumerOffsetTable(version, groups, committed, pulled)

    # --- committed offsets

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep the offset; every so many commits make a new version of the table."""
        self._put(self._committed, group, topic, queue_id, offset)
        self._commits += 1
        step = self._settings.value.consumer_offset_update_version_step
        if step <= 1 or self._commits % step == 0:
            now_ms, counter = self._clock.wall_ms(), self.data_version.counter + 1
            self.data_version = replace(self.data_version, counter=counter, timestamp=now_ms)

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """An offset of this queue is kept; there are too many for a new one otherwise."""
        return self._count < OFFSETS_MAX or queue_id in self.offsets_of(group, topic)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group goes on: a waiting reset's target, else what was committed, else -1."""
        reset = self.pending_reset(group, topic, queue_id)
        return self.offsets_of(group, topic).get(queue_id, -1) if reset is None else reset

    def offsets_of(self, group: str, topic: str) -> Mapping[int, int]:
        """The committed offsets by queue id."""
        return _find(self._committed, group, topic)

    def topics_of(self, group: str) -> list[str]:
        """The topics that the group has committed offsets of. Java: whichTopicByConsumer."""
        return list(self._committed.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have committed offsets of the topic. Java: whichGroupByTopic."""
        return [group for group, topics in self._committed.items() if topic in topics]

    def smallest(
        self, topic: str, min_offset: Callable[[int], int], without: AbstractSet[str] = frozenset()
    ) -> Steps[dict[int, int]]:
        """The smallest offset of all groups but those, by queue id; offsets of messages that are gone do not count.

        `min_offset` tells the first offset of a queue, once for each. Java: queryMinOffsetInAllGroup.
        """
        found: dict[int, int] = {}
        firsts: dict[int, int] = {}
        groups = (group for group in self.groups_of(topic) if group not in without)
        offsets = (pair for group in groups for pair in list(self.offsets_of(group, topic).items()))
        for (queue_id, offset), is_step in each_with_pause(offsets, _OFFSETS_A_STEP):
            is_new = queue_id not in firsts
            if is_new:
                firsts[queue_id] = min_offset(queue_id)
            if offset >= firsts[queue_id]:
                found[queue_id] = min(offset, found.get(queue_id, offset))
            if is_step or (is_new and len(firsts) % QUEUES_A_STEP == 0):
                yield
        return found

    def clone(self, source: str, target: str, topic: str) -> bool:
        """Let `target` be where `source` is in the topic; nothing happens if `source` has no offsets there.

        False if there are too many offsets for that."""
        offsets, known = self.offsets_of(source, topic), self.offsets_of(target, topic)
        more = len(offsets) - len(known)
        if offsets and self._count + max(more, 0) > OFFSETS_MAX:
            return False
        if offsets:
            self._committed[target][topic] = dict(offsets)
            self._count += more
            self._is_changed = True
        return True

    # --- resets

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send the group to `offset`: its next pull of the queue is told so, and until then commits do not count."""
        self._put(self._resets, group, topic, queue_id, offset)
        self._put(self._committed, group, topic, queue_id, offset)

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The target of a reset that no pull has taken yet."""
        if not self._resets or not self._settings.value.use_server_side_reset_offset:
            return None
        return _find(self._resets, group, topic).get(queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The same for the pull that takes it: the reset is done."""
        target = self.pending_reset(group, topic, queue_id)
        if target is not None:
            _remove(self._resets, group, topic, queue_id)
            self._count -= 1
        return target

    # --- positions of pulls

    def set_pull_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._put(self._pulled, group, topic, queue_id, offset)

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the last pull of the queue was; where the group goes on, if there was none."""
        offset = _find(self._pulled, group, topic).get(queue_id)
        return self.query(group, topic, queue_id) if offset is None else offset

    # --- removal

    def remove_topics(self, topics: AbstractSet[str]) -> Steps[None]:
        """Forget topics that were deleted: one pass over all groups, however many topics."""
        removed = 0
        for table in self._tables():
            for (group, of_group), is_step in each_with_pause(_each(table), _GROUPS_A_STEP):
                for topic in _common(topics, of_group):
                    removed += self._remove(table, group, topic)
                    if removed >= _REMOVED_A_STEP:
                        removed = 0
                        yield
                if is_step:
                    yield

    def remove_group(self, group: str) -> Steps[None]:
        """Forget where a group was: at once, though its tables may take a while to take apart."""
        tables = [table.pop(group, {}) for table in self._tables()]
        self._count -= sum([sum(map(len, topics.values())) for topics in tables])
        self._is_changed = True
        removed = 0
        for topics in tables:
            while topics:
                removed += len(topics.popitem()[1])
                if removed >= _REMOVED_A_STEP:
                    removed = 0
                    yield

    def _remove(self, table: _Table, group: str, topic: str) -> int:
        """Forget a group's offsets of a topic, if it has some by now; how many these are."""
        of_group = table.get(group, {})
        offsets = of_group.pop(topic, _NONE)
        if not of_group:
            table.pop(group, None)
        self._count -= len(offsets)
        self._is_changed = True
        return len(offsets)

    def _tables(self) -> Iterator[_Table]:
        yield from (self._committed, self._resets, self._pulled)

    def _put(self, table: _Table, group: str, topic: str, queue_id: int, offset: int) -> None:
        offsets = _find(table, group, topic)
        if queue_id not in offsets:
            if self._count >= OFFSETS_MAX:
                return
            self._count += 1
            offsets = table[group].setdefault(topic, {})
        offsets[queue_id] = offset
        self._is_changed = True


def _find(table: _Table, group: str, topic: str) -> dict[int, int]:
    topics = table.get(group)
    return _NONE if topics is None else topics.get(topic, _NONE)


def _remove(table: _Table, group: str, topic: str, queue_id: int) -> None:
    """Empty tables go with their last entry: `pending_reset` is asked for every pull, and mostly of an empty table."""
    del table[group][topic][queue_id]
    if not table[group][topic]:
        del table[group][topic]
    if not table[group]:
        del table[group]


def _common(topics: AbstractSet[str], of_group: Mapping[str, object]) -> list[str]:
    """The topics that are in both, found in the smaller."""
    if len(topics) < len(of_group):
        return [topic for topic in topics if topic in of_group]
    return [topic for topic in of_group if topic in topics]


def _each(table: _Table) -> Iterator[tuple[str, dict[str, dict[int, int]]]]:
    """Every group there is by now, for who takes a rest in between, while groups come and go."""
    for group in list(table):
        if (topics := table.get(group)) is not None:
            yield group, topics


def _offset_texts(table: _Table) -> Iterator[tuple[str, str]]:
    """As `pretty` writes them, without asking each number what it is: there may be hundreds of thousands."""
    for group, topics in _each(table):
        for topic, offsets in list(topics.items()):
            lines = ",".join([f"\n\t\t\t{queue_id}:{offset}" for queue_id, offset in sorted(offsets.items())])
            yield f"{topic}@{group}", f"{{{lines}\n\t\t}}"


def _joined(table: _Table) -> Steps[dict[str, dict[int, int]]]:
    joined: dict[str, dict[int, int]] = {}
    each = ((f"{topic}@{group}", offsets) for group, topics in _each(table) for topic, offsets in list(topics.items()))
    for (key, offsets), is_step in each_with_pause(each, _MAPS_A_STEP):
        joined[key] = offsets
        if is_step:
            yield
    return joined


def _parted(offsets: Mapping[str, dict[int, int]]) -> _Table:
    table: _Table = defaultdict(dict)
    for key, by_queue in offsets.items():
        topic, at, group = key.partition("@")
        if at:
            table[group][topic] = by_queue
    return table
