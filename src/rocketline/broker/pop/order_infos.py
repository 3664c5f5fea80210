"""Which messages were popped in order and are not acknowledged; kept in `consumerOrderInfo.json`.

A queue from which a group pops in order is closed to it while a message of the last pop is neither acknowledged nor
visible again; only who repeats that very attempt gets its messages once more. There are no checkpoints: the group's
offset stays at the first message that is not acknowledged. Java: ConsumerOrderInfoManager.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rocketline.broker.metadata.saving import SavedFile
from rocketline.store.files.json_files import FileSave, load_json, pretty, pretty_pieces
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.pop import ConsumerOrderInfoTable, OrderInfo

ORDERS_MAX: Final = 100_000
"""Queues of groups, 1 KB each; from others nobody pops in order."""
ATTEMPT_ID_MAX: Final = 255
"""Characters; real ones are UUIDs."""
_IDLE_MS: Final = 24 * 3_600_000
_LINE: Final = "\n\t"

_Queue = tuple[str, str, int]
IsThere = Callable[[str, str, int], bool]
"""Whether topic, group and queue still exist."""


class OrderInfos(SavedFile):
    """The last pop in order of each queue, by group."""

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        now_ms: Callable[[], int],
        is_there: IsThere,
        saved: ConsumerOrderInfoTable | None = None,
    ) -> None:
        self._files, self._path, self._now_ms, self._is_there = files, path, now_ms, is_there
        self._infos: dict[_Queue, OrderInfo] = _known(saved) if saved is not None else {}
        self._free: list[tuple[int, _Queue]] = []
        """A heap: when queues open by themselves, as far as somebody must be told."""
        self._is_changed = False

    @classmethod
    def load(cls, files: FileSystem, path: Path, now_ms: Callable[[], int], is_there: IsThere) -> OrderInfos:
        """What the file holds; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, now_ms, is_there, load_json(files, path, ConsumerOrderInfoTable))

    def __len__(self) -> int:
        return len(self._infos)

    # --- pops

    def has_room(self, topic: str, group: str, queue_id: int) -> bool:
        return len(self._infos) < ORDERS_MAX or (topic, group, queue_id) in self._infos

    def is_closed(self, topic: str, group: str, queue_id: int, attempt_id: str | None = None) -> bool:
        """Nobody pops here now, unless he repeats that attempt."""
        info = self._infos.get((topic, group, queue_id))
        if info is None or (attempt_id and attempt_id == info.attempt_id):
            return False
        return _open_ms(info) > self._now_ms()

    def popped(
        self,
        queue: _Queue,
        offsets: Sequence[int],
        pop_ms: int,
        invisible_ms: int,
        attempt_id: str | None,
    ) -> dict[int, int]:
        """Note a pop of this topic, group and queue. Returns how often messages were popped before, if they were."""
        before = self._infos.get(queue)
        counts: dict[int, int] = {}
        if before is not None and attempt_id and attempt_id == before.attempt_id:
            counts = dict(before.consumed_count)
        elif before is not None:
            known = before.offsets()
            counts = {offset: before.consumed_count.get(offset, 0) + 1 for offset in offsets if offset in known}
        first = offsets[0]
        self._infos[queue] = info = OrderInfo(
            pop_time=pop_ms,
            invisible_time=invisible_ms,
            offset_list=[first, *(offset - first for offset in offsets[1:])],
            next_visible_time={},
            consumed_count=counts,
            last_consume_timestamp=self._now_ms(),
            commit_offset_bit=0,
            attempt_id=attempt_id,
        )
        self._watch(queue, info)
        return counts

    # --- what becomes of them

    def acked(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int) -> int | None:
        """Where the group goes on once this message is acknowledged; None if it is none of the last pop's, which
        leaves all as it is. -1: it was of a pop before that, which counts no more, or of one that nobody knows of:
        what lies before the message may not be acknowledged."""
        queue = topic, group, queue_id
        info = self._infos.get(queue)
        if info is None or info.pop_time != pop_ms:
            return -1
        offsets = info.offsets()
        if offset not in offsets:
            return None
        info.commit_offset_bit |= 1 << offsets.index(offset)
        self._is_changed = True
        left = [each for index, each in enumerate(offsets) if not info.commit_offset_bit >> index & 1]
        self._watch(queue, info)
        return left[0] if left else offsets[-1] + 1

    def put_off(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int, visible_ms: int) -> None:
        """Let a message of the last pop be visible at another time."""
        queue = topic, group, queue_id
        info = self._infos.get(queue)
        if info is not None and info.pop_time == pop_ms and offset in info.offsets():
            info.next_visible_time[offset] = visible_ms
            self._watch(queue, info)

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """The group was sent elsewhere: the queue is open."""
        if self._infos.pop((topic, group, queue_id), None) is not None:
            self._is_changed = True

    def opened(self) -> list[_Queue]:
        """The queues that have opened since this was last asked: whoever waits there is to look."""
        now_ms, found = self._now_ms(), []
        while self._free and self._free[0][0] <= now_ms:
            queue = heapq.heappop(self._free)[1]
            info = self._infos.get(queue)
            if info is not None and _open_ms(info) <= now_ms:
                found.append(queue)
        return found

    def _watch(self, queue: _Queue, info: OrderInfo) -> None:
        self._is_changed = True
        heapq.heappush(self._free, (_open_ms(info), queue))
        if len(self._free) > 2 * len(self._infos) + 64:
            self._free = [(_open_ms(info), queue) for queue, info in self._infos.items()]
            heapq.heapify(self._free)

    # --- saving

    def begin_save(self) -> FileSave | None:
        """The file, to be written piece by piece, if anything changed since the last time."""
        if not self._is_changed:
            return None
        self._is_changed = False
        self._drop_idle()
        return FileSave(self._files, self._path, self._pieces())

    def save_failed(self) -> None:
        """The next save must not be left out."""
        self._is_changed = True

    def _drop_idle(self) -> None:
        """Leave out what was not consumed for a day, or belongs to a topic, group or queue that is gone."""
        oldest_ms = self._now_ms() - _IDLE_MS
        self._infos = {
            queue: info
            for queue, info in self._infos.items()
            if info.last_consume_timestamp > oldest_ms and self._is_there(*queue)
        }

    def _pieces(self) -> Iterator[str]:
        by_group: dict[str, dict[int, OrderInfo]] = {}
        for (topic, group, queue_id), info in self._infos.items():
            by_group.setdefault(f"{topic}@{group}", {})[queue_id] = info
        yield f'{{\n\t"orderInfoCount":{len(self._infos)},\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":'
        texts = (
            (key, pretty({queue_id: to_value(infos[queue_id]) for queue_id in sorted(infos)}, _LINE + "\t"))
            for key, infos in by_group.items()
        )
        yield from pretty_pieces(texts, _LINE)
        yield "\n}"


def _open_ms(info: OrderInfo) -> int:
    """When the queue is open again, as things are: at once if all is acknowledged."""
    visible_ms = info.pop_time + info.invisible_time
    return max(
        (
            info.next_visible_time.get(offset, visible_ms)
            for index, offset in enumerate(info.offsets())
            if not info.commit_offset_bit >> index & 1
        ),
        default=0,
    )


def _known(saved: ConsumerOrderInfoTable) -> dict[_Queue, OrderInfo]:
    known: dict[_Queue, OrderInfo] = {}
    for key, infos in saved.table.items():
        topic, at, group = key.partition("@")
        if at:
            known |= {(topic, group, queue_id): info for queue_id, info in infos.items() if info.offset_list}
    return known
