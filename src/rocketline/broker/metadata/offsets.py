"""Consumers' offsets: how far each group is in each queue, kept in `consumerOffset.json`. Java: ConsumerOffsetManager.

Three tables: committed offsets; resets, each of which waits for the next pull of its queue to take it; and the
positions of the last pulls, which are for people to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import QUEUES_A_STEP, Steps, each_with_pause
from rocketline.broker.metadata.saving import SavedFile
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.model.topic_config import DataVersion
from rocketline.settings import Settings
from rocketline.store.files.json_files import FileSave, load_json, pretty, pretty_list_parts, pretty_pieces
from rocketline.store.filesystem import FileSystem
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
_OFFSET_BYTES: Final = 125
"""What an offset takes in memory."""
_MAP_BYTES: Final = 250
"""And the first one of a group in a topic besides, with names that count by their length."""

OFFSETS_MAX: Final = 4_000_000
"""Of all groups, resets and pulls together. What is more is not kept."""
OFFSETS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of memory that they take, names included: 4,000,000 offsets of wide topics, or 1,300,000 of topics with one queue."""


class ConsumerOffsets(SavedFile):
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
        self._count = self._bytes = 0
        for group, topics in self._committed.items():
            for topic, offsets in topics.items():
                self._count_in(group, topic, offsets)
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

    def _pieces(self) -> Iterator[str]:
        """What `table` says, in the layout of files."""
        yield f'{{\n\t"dataVersion":{pretty(to_value(self.data_version), _LINE)},\n\t"groupTopicMap":'
        groups = (
            (group, pretty_list_parts(list(topics), _LINE + "\t")) for group, topics in _each(self._committed) if topics
        )
        yield from pretty_pieces(groups, _LINE)
        for name, table in (("offsetTable", self._committed), ("pullOffsetTable", self._pulled)):
            yield f',\n\t"{name}":'
            yield from pretty_pieces(_offset_texts(table), _LINE)
        yield "\n}"

    def table(self) -> Steps[ConsumerOffsetTable]:
        """All of it, as it is saved and as slaves ask for it. Raises `LocalProtocolError` if no frame can carry it."""
        version, groups = self.data_version, {}
        for (group, topics), is_step in each_with_pause(_each(self._committed)):
            if topics:
                groups[group] = list(topics)
            if is_step:
                yield
        committed, size = yield from _joined(self._committed, 0)
        pulled, _ = yield from _joined(self._pulled, size)
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
        known = self.offsets_of(group, topic)
        return queue_id in known or self._has_room(0 if known else _map_bytes(group, topic), 1)

    def _has_room(self, map_bytes: int, more: int) -> bool:
        """For so many offsets, which need maps of so many bytes."""
        is_small = self._bytes + map_bytes + more * _OFFSET_BYTES <= OFFSETS_BYTES_MAX
        return is_small and self._count + more <= OFFSETS_MAX

    def _count_in(self, group: str, topic: str, offsets: Collection[int]) -> None:
        self._count += len(offsets)
        self._bytes += _map_bytes(group, topic) + len(offsets) * _OFFSET_BYTES

    def _count_out(self, group: str, topic: str, offsets: Collection[int]) -> None:
        self._count -= len(offsets)
        self._bytes -= _map_bytes(group, topic) + len(offsets) * _OFFSET_BYTES

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
        if offsets and not self._has_room(0 if known else _map_bytes(target, topic), max(more, 0)):
            return False
        if offsets:
            if known:
                self._count_out(target, topic, known)
            self._committed[target][topic] = dict(offsets)
            self._count_in(target, topic, offsets)
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
            self._count -= 1
            self._bytes -= _OFFSET_BYTES
            if _remove(self._resets, group, topic, queue_id):
                self._bytes -= _map_bytes(group, topic)
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
        self._is_changed = True
        removed = 0
        for topics in tables:
            while topics:
                topic, offsets = topics.popitem()
                self._count_out(group, topic, offsets)
                removed += len(offsets)
                if removed >= _REMOVED_A_STEP:
                    removed = 0
                    yield

    def _remove(self, table: _Table, group: str, topic: str) -> int:
        """Forget a group's offsets of a topic, if it has some by now; how many these are."""
        of_group = table.get(group, {})
        if topic not in of_group:
            return 0
        offsets = of_group.pop(topic)
        if not of_group:
            table.pop(group, None)
        self._count_out(group, topic, offsets)
        self._is_changed = True
        return len(offsets)

    def _tables(self) -> Iterator[_Table]:
        yield from (self._committed, self._resets, self._pulled)

    def _put(self, table: _Table, group: str, topic: str, queue_id: int, offset: int) -> None:
        offsets = _find(table, group, topic)
        if queue_id not in offsets:
            map_bytes = 0 if offsets else _map_bytes(group, topic)
            if not self._has_room(map_bytes, 1):
                return
            self._count += 1
            self._bytes += map_bytes + _OFFSET_BYTES
            offsets = table[group].setdefault(topic, {})
        offsets[queue_id] = offset
        self._is_changed = True


def _find(table: _Table, group: str, topic: str) -> dict[int, int]:
    topics = table.get(group)
    return _NONE if topics is None else topics.get(topic, _NONE)


def _map_bytes(group: str, topic: str) -> int:
    """Each name may be there once for each map."""
    return _MAP_BYTES + len(group) + len(topic)


def _remove(table: _Table, group: str, topic: str, queue_id: int) -> bool:
    """Empty tables go with their last entry: `pending_reset` is asked for every pull, and mostly of an empty table.

    True if the topic's went."""
    del table[group][topic][queue_id]
    is_gone = not table[group][topic]
    if is_gone:
        del table[group][topic]
    if not table[group]:
        del table[group]
    return is_gone


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


def _joined(table: _Table, size: int) -> Steps[tuple[dict[str, dict[int, int]], int]]:
    """With the keys of the file, and how many bytes at least it is with those before. Raises `LocalProtocolError`."""
    joined: dict[str, dict[int, int]] = {}
    each = ((f"{topic}@{group}", offsets) for group, topics in _each(table) for topic, offsets in list(topics.items()))
    for (key, offsets), is_step in each_with_pause(each, _MAPS_A_STEP):
        joined[key] = offsets
        size += len(key) + _bytes_min(len(offsets))
        if size > FRAME_BYTES_MAX:
            raise LocalProtocolError(f"the offsets have more than the {FRAME_BYTES_MAX} bytes of a frame")
        if is_step:
            yield
    return joined, size


def _bytes_min(count: int) -> int:
    """Of the text of so many offsets: their queues are different ones.

    >>> _bytes_min(11) == len('"":{' + "".join(f"{queue_id}:0," for queue_id in range(11)) + "},") - 1
    True
    """
    digits = sum(max(0, count - bound) for bound in (10, 100, 1_000, 10_000))
    return len('"":{},') + count * len("0:0,") + digits - 1


def _parted(offsets: Mapping[str, dict[int, int]]) -> _Table:
    table: _Table = defaultdict(dict)
    for key, by_queue in offsets.items():
        topic, at, group = key.partition("@")
        if at:
            table[group][topic] = by_queue
    return table
