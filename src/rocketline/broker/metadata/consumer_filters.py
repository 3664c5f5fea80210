"""Filters in SQL that groups have said in their heartbeats, kept in `consumerFilter.json`. Java: ConsumerFilterManager.

A pull that brings no expression of its own is answered by what is kept here for its group and topic. It stays when the
group goes, marked dead, and is forgotten after `filterDataCleanTimeSpan`. A broker without such filters writes no file.

Differs:
- The version of a filter that is dead is not compared: a consumer on a machine whose clock is behind gets what it asks
  for, and not what an earlier one wanted.
- At most so many bytes are kept. Of the dead ones the oldest give way; if there is none, the new one is not kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SqlFilters, not_by_tags
from rocketline.clock import Clock
from rocketline.filter import SqlFilter, memory_of
from rocketline.filter.bloom import bit_positions, map_size
from rocketline.model.subscription import SubscriptionData
from rocketline.settings import Settings
from rocketline.store.files.json_files import FileSave, load_json, pretty, pretty_pieces
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.groups import BloomFilterData, ConsumerFilterData, ConsumerFilterTable

BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all filters: thirty thousand of the usual ones."""
_FILTER_BYTES: Final = 512
_LOADED_DEAD_MS: Final = 30_000
"""What was alive when the file was written counts as dead since so long before the start, as with Apache's broker."""
_LINE: Final = "\n\t"
_SORTED_A_STEP: Final = 2000


@dataclass(slots=True, eq=False)
class KeptFilter:
    """One group's filter of one topic."""

    data: ConsumerFilterData
    filter: SqlFilter | None = None
    """Made when it is used first: a file may hold very many."""

    @property
    def is_dead(self) -> bool:
        return self.data.dead

    @property
    def version(self) -> int:
        return self.data.client_version


class ConsumerFilters:
    """The filters of all groups."""

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        settings: Settings[BrokerConfig],
        clock: Clock,
        saved: ConsumerFilterTable | None = None,
    ) -> None:
        self._files, self._path, self._settings, self._clock = files, path, settings, clock
        self.expressions = SqlFilters()
        """All that were compiled, those of pulls included."""
        self._by_group: dict[str, dict[str, KeptFilter]] = {}
        self._dead: dict[KeptFilter, None] = {}
        """In the order of their deaths."""
        self._bytes = 0
        self._hashes, self._bits = map_size(
            settings.value.max_error_rate_of_bloom_filter, settings.value.expect_consumer_num_use_filter
        )
        self._version = self._saved_version = self._begun_version = 0
        if saved is not None:
            self._take_over(saved)

    @classmethod
    def load(cls, files: FileSystem, path: Path, settings: Settings[BrokerConfig], clock: Clock) -> ConsumerFilters:
        """What the file holds, Apache's or ours; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, settings, clock, load_json(files, path, ConsumerFilterTable))

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def get(self, group: str, topic: str) -> KeptFilter | None:
        filters = self._by_group.get(group)
        return None if filters is None else filters.get(topic)

    def compiled(self, kept: KeptFilter) -> SqlFilter:
        """Its expression. Raises `ExpressionError`, if another broker has written the file."""
        if kept.filter is None:
            kept.filter = self.expressions.find(kept.data.expression)
        return kept.filter

    def is_known(self, group: str, said: SubscriptionData) -> bool:
        """The expression was read when the group said it before."""
        kept = self.get(group, said.topic)
        return kept is not None and kept.data.expression == said.sub_string

    def register(
        self, group: str, subscriptions: Collection[SubscriptionData], compiled: Mapping[str, SqlFilter | None]
    ) -> None:
        """Take in what a heartbeat says; `compiled` has each expression that is not known. One that cannot be read
        takes the place of the one before, and there is none then. Costs nothing for a group that has no filters."""
        known = self._by_group.get(group)
        for said in not_by_tags(subscriptions):
            if said.sub_string:
                self._put(group, said, compiled)
        if known:
            topics = {subscription.topic for subscription in subscriptions}
            for topic, kept in known.items():
                if topic not in topics:
                    self._bury(kept)

    def unregister(self, group: str) -> None:
        """Nobody of the group is online any more."""
        for kept in self._by_group.get(group, {}).values():
            self._bury(kept)

    def _put(self, group: str, said: SubscriptionData, compiled: Mapping[str, SqlFilter | None]) -> None:
        kept = self.get(group, said.topic)
        if kept is not None and not kept.is_dead and said.sub_version <= kept.version:
            return
        now_ms = self._clock.wall_ms()
        if kept is not None and kept.data.expression == said.sub_string:
            if kept.is_dead or said.sub_version != kept.version:
                kept.data = replace(kept.data, client_version=said.sub_version, dead=False, dead_time=0)
                self._dead.pop(kept, None)
                self._version += 1
            return
        self._remove(group, said.topic)
        made = compiled.get(said.sub_string)
        if made is None:  # or it was known, and gone since: the next heartbeat brings it
            return  # the pull finds none here, and is told why
        data = ConsumerFilterData(
            None, now_ms, said.sub_version, group, expression=said.sub_string, expression_type=said.expression_type,
            topic=said.topic,
        )  # fmt: skip
        if self._has_room(_cost(data)):
            self._add(KeptFilter(data, made))

    def _bury(self, kept: KeptFilter) -> None:
        if not kept.is_dead:
            kept.data = replace(kept.data, dead=True, dead_time=max(self._clock.wall_ms(), kept.data.born_time))
            self._dead[kept] = None
            self._version += 1

    def _add(self, kept: KeptFilter) -> None:
        self._by_group.setdefault(kept.data.consumer_group, {})[kept.data.topic] = kept
        self._bytes += _cost(kept.data)
        self._version += 1

    def _remove(self, group: str, topic: str) -> None:
        filters = self._by_group.get(group, {})
        kept = filters.pop(topic, None)
        if kept is not None:
            self._dead.pop(kept, None)
            self._bytes -= _cost(kept.data)
            self._version += 1
        if not filters:
            self._by_group.pop(group, None)

    def _has_room(self, cost: int) -> bool:
        while self._bytes + cost > BYTES_MAX and self._dead:
            self._remove_oldest()
        return self._bytes + cost <= BYTES_MAX

    def _remove_oldest(self) -> None:
        """The first of the dead."""
        data = next(iter(self._dead)).data
        self._remove(data.consumer_group, data.topic)

    def _each(self) -> Iterator[KeptFilter]:
        for filters in self._by_group.values():
            yield from filters.values()

    def clean(self) -> None:
        """Forget those that have been dead for long."""
        before_ms = self._clock.wall_ms() - self._settings.value.filter_data_clean_time_span
        while self._dead and next(iter(self._dead)).data.dead_time <= before_ms:
            self._remove_oldest()

    # --- the file

    def _take_over(self, saved: ConsumerFilterTable) -> None:
        """All is dead until a heartbeat says it again. As with Apache's broker nothing is taken from a file of another
        Bloom filter."""
        loaded_ms = self._clock.wall_ms() - _LOADED_DEAD_MS
        for by_group in saved.filter_data_by_topic.values():
            for data in by_group.group_filter_data.values():
                bloom = data.bloom_filter_data
                if bloom is None or bloom.bit_num != self._bits or len(bloom.bit_pos or ()) != self._hashes:
                    self._by_group.clear()
                    self._bytes = 0
                    return
                dead_ms = data.dead_time or max(loaded_ms, data.born_time)
                self._add(KeptFilter(replace(data, dead=True, dead_time=dead_ms)))
        self._dead = dict.fromkeys(sorted(self._each(), key=lambda kept: kept.data.dead_time))
        self._saved_version = self._version

    def begin_save(self) -> FileSave | None:
        """The file, if anything has changed since it was written."""
        self.clean()
        if self._version == self._saved_version:
            return None
        self._begun_version = self._version
        return FileSave(self._files, self._path, self._pieces([kept.data for kept in self._each()]))

    def save_done(self) -> None:
        self._saved_version = self._begun_version

    def save_failed(self) -> None:
        """The table is written again next time."""

    def save(self) -> None:
        """Write the file now, if there is anything to write. Raises `OSError`."""
        job = self.begin_save()
        if job is not None:
            job.run()
            self.save_done()

    def _pieces(self, filters: Collection[ConsumerFilterData]) -> Iterator[str]:
        """The file's text, by topic and group: thousands of groups may have a filter of one topic."""
        topics: dict[str, list[ConsumerFilterData]] = {}
        for number, data in enumerate(filters, 1):
            topics.setdefault(data.topic, []).append(data)
            if number % _SORTED_A_STEP == 0:
                yield ""
        yield f'{{{_LINE}"filterDataByTopic":'
        yield from pretty_pieces(((topic, self._pieces_of(topic, some)) for topic, some in topics.items()), _LINE)
        yield "\n}"

    def _pieces_of(self, topic: str, filters: Collection[ConsumerFilterData]) -> Iterator[str]:
        line = _LINE + "\t"
        groups = ((data.consumer_group, pretty(to_value(self._with_bits(data)), line + "\t\t")) for data in filters)
        return pretty_pieces([("groupFilterData", pretty_pieces(groups, line + "\t")), ("topic", pretty(topic))], line)

    def _with_bits(self, data: ConsumerFilterData) -> ConsumerFilterData:
        """Nobody but Apache's broker looks at them, and they take their time."""
        bits = bit_positions(f"{data.consumer_group}#{data.topic}", self._hashes, self._bits)
        return replace(data, bloom_filter_data=BloomFilterData(self._bits, bits))


def _cost(data: ConsumerFilterData) -> int:
    return _FILTER_BYTES + len(data.consumer_group) + len(data.topic) + memory_of(data.expression)
