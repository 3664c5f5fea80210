"""All consume queues of a store, by topic and queue id, and their folders. Java: ConsumeQueueStore."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from rocketline.store.consume_queue import ConsumeQueue
from rocketline.store.filesystem import FileSystem
from rocketline.store.segments import OpenFiles


class QueueTable:
    """Queues exist in memory as soon as they are asked for, and on disk with their first message."""

    def __init__(self, fs: FileSystem, folder: Path, segment_bytes: int) -> None:
        self._fs, self._folder = fs, folder
        self._segment_bytes = segment_bytes
        self._files = OpenFiles(fs)
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._behind: dict[ConsumeQueue, None] = {}
        self._unsynced: dict[Path, None] = {}

    def load(self, *, is_clean: bool) -> None:
        """Open every queue that has a folder. Raises `CorruptStoreError`."""
        for topic in self._fs.list(self._folder):
            for name in self._fs.list(self._folder / topic) if self._fs.is_folder(self._folder / topic) else ():
                if name.isascii() and name.isdigit():
                    self.make(topic, int(name)).load(is_clean=is_clean)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self._topics.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def of(self, topic: str) -> Mapping[int, ConsumeQueue]:
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Collection[str]:
        return self._topics.keys()

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, a new one if there is none yet."""
        queue = self.get(topic, queue_id)
        if queue is None:
            folder = self._folder / topic / str(queue_id)
            queue = ConsumeQueue(self._files, folder, self._segment_bytes, topic, queue_id)
            self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    # --- writing behind

    def touched(self, queues: Iterable[ConsumeQueue]) -> None:
        """These have new units. Raises `OSError` when a long tail is written."""
        behind = self._behind
        for queue in queues:
            behind[queue] = None
            if queue.is_far_behind:
                self._write_behind(queue)

    def write_behind(self) -> None:
        """Bring all waiting units into files. Raises `OSError`."""
        behind, self._behind = self._behind, {}
        for queue in behind:
            self._write_behind(queue)

    def _write_behind(self, queue: ConsumeQueue) -> None:
        if self.get(queue.topic, queue.queue_id) is queue:  # else its topic was deleted while a flush was under way
            self._unsynced.update(dict.fromkeys(queue.write_behind()))

    def take_unsynced(self) -> list[Path]:
        """Files that were written to since this was last asked."""
        paths, self._unsynced = list(self._unsynced), {}
        return paths

    # --- removing

    def remove(self, topic: str) -> None:
        """Forget a topic and delete its files; one that has no queues has none. Raises `OSError`."""
        # Whoever asks may name anything, and a name like `../commitlog` must never become a path.
        if topic not in self._topics:
            return
        for queue in self._topics.pop(topic).values():
            self._behind.pop(queue, None)
            queue.remove()
        self._unsynced = {path: None for path in self._unsynced if path.parents[1].name != topic}
        self._fs.remove_tree(self._folder / topic)

    def close(self) -> None:
        self._files.close_all()
