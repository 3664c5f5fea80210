"""All queues of a store, by topic and queue id, and their folders. Java: ConsumeQueueStore.

A topic's queues are of one kind, which its configuration says: plain ones lie in `consumequeue`, and those that know
batches kept in one record in `batchconsumequeue`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.errors import CorruptStoreError
from rocketline.store.batch_consume_queue import BatchConsumeQueue
from rocketline.store.consume_queue import ConsumeQueue
from rocketline.store.filesystem import FileSystem, is_no_space
from rocketline.store.segments import OpenFiles

Queue: TypeAlias = ConsumeQueue | BatchConsumeQueue
IsBatched: TypeAlias = Callable[[str], "bool | None"]
"""Whether the queues of a topic know batches kept in one record; None if there is no such topic."""

_DOOMED: Final = "deleted."
"""Begins the names of folders that nobody needs any more."""
_FOLDERS: Final = {False: "consumequeue", True: "batchconsumequeue"}
_STUCK_BYTES_MAX: Final = 256 * 1024 * 1024
"""So much may wait in long tails for which there is no room. A running store takes no messages meanwhile; it is for a
start that has to derive queues."""


class QueueTable:
    """Queues exist in memory as soon as they are asked for, and on disk with their first message."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        segment_bytes: int,
        batch_segment_bytes: int,
        is_batched: IsBatched = lambda topic: None,
    ) -> None:
        self._fs, self._root = fs, root
        self._folders = {kind: root / name for kind, name in _FOLDERS.items()}
        self._segment_bytes, self._batch_segment_bytes = segment_bytes, batch_segment_bytes
        self.is_batched = is_batched
        self._files = OpenFiles(fs)
        self._topics: dict[str, dict[int, Queue]] = {}
        self._behind: dict[Queue, None] = {}
        self.shortage: OSError | None = None
        """Why units wait on: there is no room for them on the disk. `write_behind` tries again."""
        self._stuck: dict[Queue, int] = {}  # the bytes of long tails that could not be written for this
        self._stuck_bytes = 0
        self._unsynced: dict[Path, None] = {}
        self._undeleted: set[str] = set()  # topics whose files could not be put aside
        self._doomed = 0

    def load(self, *, is_clean: bool) -> None:
        """Open every queue that has a folder; those of topics that are gone, too. Raises `CorruptStoreError`."""
        for is_batched, folder in self._folders.items():
            for topic in self._fs.list(folder):
                for name in self._fs.list(folder / topic) if self._fs.is_folder(folder / topic) else ():
                    if name.isascii() and name.isdigit():
                        self._check_kind(topic, is_batched)
                        self._add(topic, int(name), is_batched).load(is_clean=is_clean)

    def _check_kind(self, topic: str, is_batched: bool) -> None:
        expected = self.is_batched(topic)
        if (is_batched if expected is None else expected) != is_batched or self._is_other_kind(topic, is_batched):
            problem = f"the topic {topic} has its queues in {_FOLDERS[not is_batched]}, as its queue.type says"
            raise CorruptStoreError(str(self._folders[is_batched] / topic), f"{problem}; move this folder away")

    def _is_other_kind(self, topic: str, is_batched: bool) -> bool:
        return any(queue.is_batched != is_batched for queue in self.of(topic).values())

    def __iter__(self) -> Iterator[Queue]:
        for queues in self._topics.values():
            yield from queues.values()

    def get(self, topic: str, queue_id: int) -> Queue | None:
        queues = self._topics.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def of(self, topic: str) -> Mapping[int, Queue]:
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Collection[str]:
        return self._topics.keys()

    def make(self, topic: str, queue_id: int) -> Queue:
        """The queue, a new one if there is none yet."""
        queue = self.get(topic, queue_id)
        return queue if queue is not None else self._add(topic, queue_id, bool(self.is_batched(topic)))

    def _add(self, topic: str, queue_id: int, is_batched: bool) -> Queue:
        folder = self._folders[is_batched] / topic / str(queue_id)
        queue: Queue
        if is_batched:
            queue = BatchConsumeQueue(self._files, folder, self._batch_segment_bytes, topic, queue_id)
        else:
            queue = ConsumeQueue(self._files, folder, self._segment_bytes, topic, queue_id)
        self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    # --- writing behind

    def touched(self, queues: Iterable[Queue]) -> None:
        """These have new units. Long tails are written at once. Raises `OSError`, but for lack of room only when far
        too much waits for it already."""
        behind, far = self._behind, []
        for queue in queues:
            behind[queue] = None
            if queue.is_far_behind:
                far.append(queue)
        for queue in far:
            if not self._write_behind(queue):
                self._note_stuck(queue)

    def write_behind(self) -> None:
        """Bring all waiting units into files. Raises `OSError`, but not for lack of room: what has none waits on."""
        self.shortage = None
        for queue in list(self._behind):
            if not self._write_behind(queue):
                return
            del self._behind[queue]
        self._stuck, self._stuck_bytes = {}, 0

    def _write_behind(self, queue: Queue) -> bool:
        """False if there is no room."""
        if self.get(queue.topic, queue.queue_id) is not queue:  # its topic was deleted while a flush was under way
            return True
        try:
            while queue.is_behind:
                self._unsynced.update(dict.fromkeys(queue.write_behind()))
        except OSError as error:
            if not is_no_space(error):
                raise
            self.shortage = error
            return False
        return True

    def _note_stuck(self, queue: Queue) -> None:
        assert self.shortage is not None
        self._stuck_bytes += queue.behind_bytes - self._stuck.get(queue, 0)
        self._stuck[queue] = queue.behind_bytes
        if self._stuck_bytes > _STUCK_BYTES_MAX:
            error, waiting = self.shortage, f"{self._stuck_bytes} bytes of queues wait for it"
            raise OSError(error.errno, f"{error.strerror}, and {waiting}: free some, start again", error.filename)

    def take_unsynced(self) -> list[Path]:
        """Files that were written to since this was last asked."""
        paths, self._unsynced = list(self._unsynced), {}
        return paths

    # --- removing

    def remove(self, topic: str) -> None:
        """Forget a topic and put its files aside; one that has no queues has none.

        Thousands of files take seconds to delete. So their folder gets another name, which is done at once or not at
        all, and `doomed` tells whoever has the time. Raises `OSError`: the topic is still known then, so that it can
        be tried again.
        """
        # Whoever asks may name anything, and a name like `../commitlog` must never become a path.
        if topic not in self._topics:
            return
        self._undeleted.add(topic)
        for folder in self._folders.values():
            if self._fs.exists(folder / topic):
                self._fs.rename(folder / topic, self._free_name())
            self._files.close_in(folder / topic)
        self._unsynced = {path: None for path in self._unsynced if path.parents[1].name != topic}
        self._behind = {queue: None for queue in self._behind if queue.topic != topic}
        del self._topics[topic]
        self._undeleted.discard(topic)

    def doomed(self) -> list[Path]:
        """The folders of deleted topics, of this and of earlier lives of the store, with whatever is left in them."""
        return [self._root / name for name in self._fs.list(self._root) if name.startswith(_DOOMED)]

    def _free_name(self) -> Path:
        """A name for a folder that is to be deleted, beside those that Apache's broker looks into."""
        while self._fs.exists(path := self._root / f"{_DOOMED}{self._doomed}"):
            self._doomed += 1
        return path

    def make_way(self, topic: str, *, is_batched: bool) -> None:
        """A topic is about to be made: what an earlier one of its name left behind goes, if that is of the other kind
        or was to be deleted. Raises `OSError`."""
        if topic in self._undeleted or self._is_other_kind(topic, is_batched):
            self.remove(topic)

    def close(self) -> None:
        self._files.close_all()
