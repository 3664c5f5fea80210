"""Which messages were popped in order and are not acknowledged; kept in `consumerOrderInfo.json`.

A queue from which a group pops in order is closed to it while a message of the last pop is neither acknowledged nor
visible again; only who repeats that very attempt gets its messages once more. There are no checkpoints: the group's
offset stays at the first message that is not acknowledged. Java: ConsumerOrderInfoManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rocketline.broker.due import Due
from rocketline.broker.metadata.saving import SavedFile
from rocketline.store.files.json_files import FileSave, load_json, pretty, pretty_pieces
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.pop import ConsumerOrderInfoTable, OrderInfo

ORDERS_MAX: Final = 100_000
"""Queues of groups, 1 KB each; from others nobody pops in order."""
ATTEMPT_ID_MAX: Final = 255
"""Characters; real ones are UUIDs."""
OPENED_MAX: Final = 1024
"""Queues that are told in one go."""
_LOOKS_A_STEP: Final = 512
_IDLE_MS: Final = 24 * 3_600_000
_LINE: Final = "\n\t"
_ENTRY: Final = "\n\t\t\t"

_Asked = tuple[str, str]
_Queue = tuple[str, str, int]
_NONE: Final[dict[int, OrderInfo]] = {}
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
        self._infos: dict[_Asked, dict[int, OrderInfo]] = _known(saved) if saved is not None else {}
        self._count = sum(map(len, self._infos.values()))
        self._free: Due[_Queue] = Due()
        """When queues open by themselves, as far as somebody must be told."""
        self._free_ms: dict[_Queue, int] = {}
        self._is_changed = False

    @classmethod
    def load(cls, files: FileSystem, path: Path, now_ms: Callable[[], int], is_there: IsThere) -> OrderInfos:
        """What the file holds; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, now_ms, is_there, load_json(files, path, ConsumerOrderInfoTable))

    def __len__(self) -> int:
        return self._count

    def _find(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self._infos.get((topic, group), _NONE).get(queue_id)

    # --- pops

    def has_room(self, topic: str, group: str, queue_id: int) -> bool:
        return self._count < ORDERS_MAX or self._find(topic, group, queue_id) is not None

    def is_closed(self, topic: str, group: str, queue_id: int, attempt_id: str | None = None) -> bool:
        """Nobody pops here now, unless he repeats that attempt."""
        info = self._find(topic, group, queue_id)
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
        before = self._find(*queue)
        counts: dict[int, int] = {}
        if before is not None and attempt_id and attempt_id == before.attempt_id:
            counts = dict(before.consumed_count)
        elif before is not None:
            known = before.offsets()
            counts = {offset: before.consumed_count.get(offset, 0) + 1 for offset in offsets if offset in known}
        first = offsets[0]
        info = OrderInfo(
            pop_time=pop_ms,
            invisible_time=invisible_ms,
            offset_list=[first, *(offset - first for offset in offsets[1:])],
            next_visible_time={},
            consumed_count=counts,
            last_consume_timestamp=self._now_ms(),
            commit_offset_bit=0,
            attempt_id=attempt_id,
        )
        self._infos.setdefault(queue[:2], {})[queue[2]] = info
        self._count += before is None
        self._watch(queue, info)
        return counts

    # --- what becomes of them

    def acked(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int) -> int | None:
        """Where the group goes on once this message is acknowledged; None if it is none of the last pop's, which
        leaves all as it is. -1: it was of a pop before that, which counts no more, or of one that nobody knows of:
        what lies before the message may not be acknowledged."""
        queue = topic, group, queue_id
        info = self._find(*queue)
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
        info = self._find(*queue)
        if info is not None and info.pop_time == pop_ms and offset in info.offsets():
            info.next_visible_time[offset] = visible_ms
            self._watch(queue, info)

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """The group was sent elsewhere: the queue is open."""
        if self._find(topic, group, queue_id) is not None:
            self._remove(topic, group, queue_id)
            self._is_changed = True

    def _remove(self, topic: str, group: str, queue_id: int) -> None:
        queue, infos = (topic, group, queue_id), self._infos[topic, group]
        del infos[queue_id]
        if not infos:
            del self._infos[topic, group]
        self._count -= 1
        self._free.discard(self._free_ms.pop(queue, 0), queue)

    def opened(self) -> list[_Queue]:
        """Queues that have opened since this was last asked, up to `OPENED_MAX`: whoever waits there is to look."""
        now_ms, found = self._now_ms(), list[_Queue]()
        while len(found) < OPENED_MAX and (queue := self._free.next(now_ms)) is not None:
            del self._free_ms[queue]
            found.append(queue)
        return found

    def _watch(self, queue: _Queue, info: OrderInfo) -> None:
        self._is_changed = True
        self._free.discard(self._free_ms.get(queue, 0), queue)
        self._free_ms[queue] = open_ms = _open_ms(info)
        self._free.add(open_ms, queue)

    # --- saving

    def begin_save(self) -> FileSave | None:
        """The file, to be written piece by piece, if anything changed since the last time."""
        if not self._is_changed:
            return None
        self._is_changed = False
        return FileSave(self._files, self._path, self._pieces())

    def save_failed(self) -> None:
        """The next save must not be left out."""
        self._is_changed = True

    def _pieces(self) -> Iterator[str]:
        yield from self._drop_idle()
        yield f'{{\n\t"orderInfoCount":{self._count},\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":'
        texts = ((f"{topic}@{group}", self._texts(topic, group)) for topic, group in list(self._infos))
        yield from pretty_pieces(texts, _LINE)
        yield "\n}"

    def _drop_idle(self) -> Iterator[str]:
        """Forget what was not consumed for a day, or belongs to a topic, group or queue that is gone; in steps, of
        which nothing is written."""
        oldest_ms, looks = self._now_ms() - _IDLE_MS, 0
        for topic, group in list(self._infos):
            for queue_id, info in list(self._infos.get((topic, group), _NONE).items()):
                if info.last_consume_timestamp <= oldest_ms or not self._is_there(topic, group, queue_id):
                    self.forget(topic, group, queue_id)
                looks += 1
                if not looks % _LOOKS_A_STEP:
                    yield ""

    def _texts(self, topic: str, group: str) -> Iterator[str]:
        """What the file says of one group and topic, in parts."""
        begin = "{"
        for queue_id in sorted(self._infos.get((topic, group), _NONE)):
            info = self._find(topic, group, queue_id)
            if info is not None:
                yield f"{begin}{_ENTRY}{queue_id}:{pretty(to_value(info), _ENTRY)}"
                begin = ","
        yield "{}" if begin == "{" else f"{_LINE}\t}}"


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


def _known(saved: ConsumerOrderInfoTable) -> dict[_Asked, dict[int, OrderInfo]]:
    known: dict[_Asked, dict[int, OrderInfo]] = {}
    for key, infos in saved.table.items():
        topic, at, group = key.partition("@")
        if at and (good := {queue_id: info for queue_id, info in infos.items() if info.offset_list}):
            known[topic, group] = good
    return known
