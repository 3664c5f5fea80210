"""All queues of a store, by topic and queue id, and their folders. Java: ConsumeQueueStore.

A topic's queues are of one kind, which its configuration says: plain ones lie in `consumequeue`, and those that know
batches kept in one record in `batchconsumequeue`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem, is_no_space
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue
from rocketline.store.queues.consume_queue import ConsumeQueue, IsGone
from rocketline.store.queues.queue_ends import UNKNOWN, EndsFile, KnownQueue
from rocketline.store.queues.queue_looks import QueueLooks
from rocketline.store.queues.queue_places import Queue as Queue
from rocketline.store.queues.queue_places import QueueName, QueuePlaces, ends_of

_log = Log(__name__)

IsBatched: TypeAlias = Callable[[str], "bool | None"]
"""Whether the queues of a topic know batches kept in one record; None if there is no such topic."""

_DOOMED: Final = "deleted."
"""Begins the names of folders that nobody needs any more."""
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of written units that all queues together keep in memory."""
_FOLDERS: Final = {False: "consumequeue", True: "batchconsumequeue"}
_STUCK_BYTES_MAX: Final = 256 * 1024 * 1024
"""So much may wait in long tails for which there is no room. A running store takes no messages meanwhile; it is for a
start that has to derive queues."""
_QUEUES_A_STEP: Final = 32
"""Queues whose units are written in one go, each perhaps to a new file: two or three milliseconds."""


def _no_table(topic: str) -> bool | None:
    """Any topic may be there."""
    return None


class QueueTable:
    """Queues exist in memory as soon as they are asked for, and on disk with their first message.

    A start opens none of them: those that exist sleep until somebody asks for them, or `looks` comes to them. Each is
    compared with the log when it wakes; what does not agree with it is derived anew.
    """

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        segment_bytes: int,
        batch_segment_bytes: int,
        is_batched: IsBatched = _no_table,
    ) -> None:
        self._fs, self._root = fs, root
        self._folders = {kind: root / name for kind, name in _FOLDERS.items()}
        self.layout = segment_bytes, batch_segment_bytes
        self.is_batched = is_batched
        self.removal_count = 0
        """How often topics were deleted: what was known of queues before may be wrong since."""
        self.ends_file = EndsFile(fs, root)
        self._files = OpenFiles(fs)
        self._places = QueuePlaces()
        self._topics = self._places.awake  # asked for with each message
        self.looks = QueueLooks(self._places, self._new)
        """Wakes queues, and has broken ones mended."""
        self._lower: dict[QueueName, KnownQueue] = {}  # of queues that were derived: they were so long before
        self._misled: dict[Queue, tuple[str, KnownQueue]] = {}  # derived: files cannot be right, and are not written to
        self.shortage: OSError | None = None
        """Why units wait on: there is no room for them on the disk. `write_behind` tries again."""
        self._stuck: dict[Queue, int] = {}  # the bytes of long tails that could not be written for this
        self._stuck_bytes = 0
        self._unsynced: dict[str, dict[Path, None]] = {}  # files by topic
        self._undeleted: set[str] = set()  # topics whose files could not be put aside
        self._doomed = 0
        self._kept: OrderedDict[ConsumeQueue, int] = OrderedDict()  # bytes that queues keep in memory, oldest first
        self._kept_bytes = 0

    # --- opening

    def put_to_sleep(self, queues: Mapping[str, Mapping[int, KnownQueue]]) -> None:
        """These exist. Raises `CorruptStoreError` for a topic whose queues are of the wrong kind."""
        for topic, known in queues.items():
            kinds = {queue.is_batched for queue in known.values()}
            for is_batched in sorted(kinds):
                self._check_kind(topic, is_batched, kinds)
            self._places.sleeping[topic] = dict(known)
        self.looks.unseen = [(topic, queue_id) for topic, known in self._places.sleeping.items() for queue_id in known]

    def listed(self) -> dict[str, dict[int, KnownQueue]]:
        """Every queue that has a folder; those of topics that are gone, too. Raises `OSError`."""
        found: dict[str, dict[int, KnownQueue]] = {}
        for is_batched, folder in self._folders.items():
            for topic in self._fs.list(folder):
                if not self._fs.is_folder(folder / topic):
                    continue
                queue_ids = [int(name) for name in self._fs.list(folder / topic) if name.isascii() and name.isdigit()]
                if queue_ids:
                    known = found.setdefault(topic, {})
                    self._check_kind(topic, is_batched, {queue.is_batched for queue in known.values()})
                    known.update(dict.fromkeys(queue_ids, KnownQueue(is_batched)))
        return found

    def load(self) -> bool:
        """Open every queue after a clean stop of somebody who left nothing but files; whether all of them look right.

        Raises `CorruptStoreError`, `OSError`.
        """
        is_sound = True
        for topic, known in self.listed().items():
            for queue_id, sleeper in known.items():
                queue = self._topics.setdefault(topic, {})[queue_id] = self._new(topic, queue_id, sleeper.is_batched)
                is_followed = queue.load(is_clean=True)
                is_sound = is_sound and not is_followed
        return is_sound

    def begin_checks(self) -> None:
        """Let units that are read be compared with the log, now that queues and log agree."""
        for queue in self.awake:
            self.looks.put(queue)
        for queue, (problem, known) in self._misled.items():
            # Not only what was derived: if that was of damaged records alone, its files may know more.
            ends = self.looks.doctor.expected(queue, known), ends_of(queue)
            self.looks.note_broken(queue, problem, max(ends, key=lambda one: one.max_offset))
        self._misled.clear()

    def _check_kind(self, topic: str, is_batched: bool, others: Collection[bool]) -> None:
        expected = self.is_batched(topic)
        if (is_batched if expected is None else expected) != is_batched or (not is_batched) in others:
            problem = f"the topic {topic} has its queues in {_FOLDERS[not is_batched]}, as its queue.type says"
            raise CorruptStoreError(str(self._folders[is_batched] / topic), f"{problem}; move this folder away")

    def _is_other_kind(self, topic: str, is_batched: bool) -> bool:
        queues = (*self._places.opened_of(topic), *self._places.sleeping.get(topic, {}).values())
        return any(queue.is_batched != is_batched for queue in queues)

    # --- what a recovery asks for

    def in_files(self) -> Iterator[Queue]:
        """All queues as their files say; those that cannot be read are left to who asks for them."""
        for topic, known in self.listed().items():
            for queue_id, sleeper in known.items():
                queue = self._new(topic, queue_id, sleeper.is_batched)
                with contextlib.suppress(OSError, CorruptStoreError):
                    queue.load(is_clean=True)
                    yield queue

    def known_end(self, topic: str, queue_id: int) -> int | None:
        """Where a queue ends, if by nothing else by its files; None if there is no such queue, `UNKNOWN` if they cannot
        be right."""
        open_queue = self._topics.get(topic, {}).get(queue_id) or self._places.unsettled.get(topic, {}).get(queue_id)
        known = open_queue or self._places.sleeping.get(topic, {}).get(queue_id)
        if known is None or known.max_offset != UNKNOWN:
            return known.max_offset if known is not None else None
        unopened = self._new(topic, queue_id, known.is_batched)
        try:
            return UNKNOWN if unopened.load(is_clean=True) else unopened.max_offset
        except (OSError, CorruptStoreError):  # whoever opens it tells why
            return UNKNOWN

    def derived_though_known(self) -> list[tuple[Queue, KnownQueue]]:
        """Queues that a recovery has derived, of which an earlier life knew that they were so long at least."""
        lower, self._lower = self._lower, {}
        return [
            (queue, known)
            for (topic, queue_id), known in lower.items()
            for table in (self._topics, self._places.unsettled)
            if (queue := table.get(topic, {}).get(queue_id)) is not None
        ]

    def prove(self, log_offset: int, files_end: int) -> int:
        """Let queues keep units that their files have of records from `log_offset` on, though the log does not show
        them; where the last of these ends, 0 if there are none. Its files end at `files_end`, and no record went
        further. For a recovery. Raises `OSError`."""
        derived = [queue for queues in self._places.unsettled.values() for queue in queues.values()]
        batched = [queue for queue in self.awake if queue.is_batched]
        end = max((queue.keep_from_files(log_offset.__le__, files_end) for queue in (*derived, *batched)), default=0)
        for topic, sleeping in self._places.sleeping.items():
            for queue_id, known in sleeping.items():
                unopened = self._new(topic, queue_id, known.is_batched)
                with contextlib.suppress(OSError, CorruptStoreError):  # whoever opens it tells why
                    unopened.load(is_clean=True)
                if log_offset < unopened.max_log_offset <= files_end and known.max_offset <= unopened.max_offset:
                    first = unopened.min_offset if known.max_offset == UNKNOWN else known.min_offset
                    ends = first, unopened.max_offset, unopened.max_log_offset
                    known = sleeping[queue_id] = KnownQueue(known.is_batched, *ends)
                    _log.error("messages are damaged", topic=topic, queue=queue_id, next_offset=known.max_offset,
                               log_offset=log_offset)  # fmt: skip
                if log_offset < known.max_log_offset <= files_end:
                    end = max(end, known.max_log_offset)
        return end

    def derive(self, topic: str, queue_id: int, offset: int, begin: int) -> Queue:
        """The queue for the units of a recovery that reads the log from `begin` on, of which the first has this queue
        offset. Its files are left for later if they may be."""
        known = self._places.sleeping.get(topic, {}).get(queue_id)
        is_batched = known.is_batched if known is not None else bool(self.is_batched(topic))
        awake = self._topics.get(topic, {}).get(queue_id)
        if awake is not None:
            return self._going_on(awake, offset, begin)
        if known is not None and known.max_offset != UNKNOWN:
            self._lower[topic, queue_id] = known
        if is_batched:
            return self._derive_batched(topic, queue_id, offset, begin)
        queue = self._plain(topic, queue_id)
        queue.expect(offset, known.min_offset if known is not None and known.max_offset != UNKNOWN else offset)
        self.looks.forget(topic, queue_id)
        self._places.unsettled.setdefault(topic, {})[queue_id] = queue
        return queue

    def _going_on(self, queue: Queue, offset: int, begin: int) -> Queue:
        """The same of an open one. If it lacks what comes before, it is derived as a whole after the recovery."""
        problem = self.looks.doctor.gap_before(queue, offset, begin)
        if problem is not None:
            self._topics[queue.topic].pop(queue.queue_id)
            queue.reset()
            if isinstance(queue, ConsumeQueue):
                queue.expect(offset, offset)
            self._misled[queue] = problem, KnownQueue(queue.is_batched)
        return queue

    def _derive_batched(self, topic: str, queue_id: int, offset: int, begin: int) -> Queue:
        """Its units are not numbered like its messages, so those that are derived go on from those in its files. If
        these cannot be right, it is derived as a whole once the recovery is over."""
        queue = self._batched(topic, queue_id)
        problem = self.looks.doctor.reopen(queue, offset, begin)
        if problem is None:
            self.looks.awaken(queue)
        else:
            queue.reset()
            known = self._places.sleeping.get(topic, {}).get(queue_id, KnownQueue(is_batched=True))
            self._misled[queue] = problem, known
            self.looks.forget(topic, queue_id)
        return queue

    def derived(self, queues: Iterable[Queue]) -> None:
        """A recovery has given these their units. Those that are open have them written with all others."""
        self.touched(queue for queue in queues if self._places.is_awake(queue))

    def relieve(self, queue: Queue) -> None:
        """A recovery has given a queue so many units that they should not all wait in memory. Raises `OSError`."""
        if self._places.unsettled.get(queue.topic, {}).get(queue.queue_id) is queue:
            assert isinstance(queue, ConsumeQueue)
            if self.looks.doctor.settle(queue) is not None:
                return  # it is derived anew as a whole when it is asked for
            self.looks.awaken(queue)
        self.touched([queue])

    # --- getting

    def known(self) -> dict[str, dict[int, KnownQueue]]:
        """What is known of all queues, for the next start."""
        return self._places.known()

    def __iter__(self) -> Iterator[Queue]:
        """All queues, which wakes those that sleep."""
        for name in self._places.unawake():
            self.looks.wake(*name)
        return self.awake

    def is_awake(self, queue: Queue) -> bool:
        """It is open, and its topic was not deleted since."""
        return self._places.is_awake(queue)

    @property
    def awake(self) -> Iterator[Queue]:
        """The queues that are open."""
        return (queue for queues in self._topics.values() for queue in queues.values())

    def get(self, topic: str, queue_id: int) -> Queue | None:
        """The queue, None if there is none. Raises `OSError` if it slept and cannot be read."""
        queues = self._topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None and self._places.is_unawake(topic, queue_id):
            return self.looks.wake(topic, queue_id)
        return queue

    def of(self, topic: str) -> Mapping[int, Queue]:
        """All queues of a topic, which wakes those that sleep."""
        for queue_id in self._places.unawake_of(topic):
            self.get(topic, queue_id)
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Collection[str]:
        return self._places.topics

    def make(self, topic: str, queue_id: int) -> Queue:
        """The queue for new messages, a new one if there is none yet."""
        queue = self.get(topic, queue_id)
        if self.looks.proof is not None:
            self.looks.wait_for_proof(topic, queue_id, queue)
            queue = self.get(topic, queue_id)
        return queue if queue is not None else self._add(topic, queue_id, bool(self.is_batched(topic)))

    def reaching(self, topic: str, queue_id: int, offset: int) -> Queue | None:
        """The queue, for who asks for what is behind its end: it may be longer than it seems. `QueueNotReadyError`."""
        queue = self.get(topic, queue_id)
        if offset > (queue.max_offset if queue is not None else 0):
            self.looks.wait_for_proof(topic, queue_id, queue)
        return self.get(topic, queue_id)

    def kind_of(self, topic: str) -> bool | None:
        """Whether queues of a topic know batches, None if there is no such topic: without a table of them all are."""
        return False if self.is_batched is _no_table else self.is_batched(topic)

    def end_of_gone(self, topic: str, queue_id: int, is_batched: bool, is_gone: IsGone) -> int:
        """See `ConsumeQueue.end_of_gone`; of a queue that need not be open."""
        return self._new(topic, queue_id, is_batched).end_of_gone(is_gone)

    def _folder(self, topic: str, queue_id: int, is_batched: bool) -> Path:
        return self._folders[is_batched] / topic / str(queue_id)

    def _new(self, topic: str, queue_id: int, is_batched: bool) -> Queue:
        return self._batched(topic, queue_id) if is_batched else self._plain(topic, queue_id)

    def _batched(self, topic: str, queue_id: int) -> BatchConsumeQueue:
        return BatchConsumeQueue(self._files, self._folder(topic, queue_id, True), self.layout[1], topic, queue_id)

    def _plain(self, topic: str, queue_id: int) -> ConsumeQueue:
        return ConsumeQueue(self._files, self._folder(topic, queue_id, False), self.layout[0], topic, queue_id)

    def _add(self, topic: str, queue_id: int, is_batched: bool) -> Queue:
        queue = self._new(topic, queue_id, is_batched)
        self.looks.put(queue)
        return queue

    # --- writing behind

    def touched(self, queues: Iterable[Queue]) -> None:
        """These have new units. Long tails are written at once. Raises `OSError`, but for lack of room only when far
        too much waits for it already."""
        behind, far = self._places.behind, []
        for queue in queues:
            behind[queue] = None
            if queue.is_far_behind:
                far.append(queue)
        for queue in far:
            if not self._write_behind(queue):
                self._note_stuck(queue)

    def write_behind(self) -> None:
        """Bring all waiting units into files. Raises `OSError`, but not for lack of room: what has none waits on."""
        for _ in self.writing_behind():
            pass

    def writing_behind(self) -> Iterator[None]:
        """The same, some queues in each step; those that get units meanwhile have them written the next time. Raises as
        `write_behind` does."""
        self.shortage = None
        for number, queue in enumerate(list(self._places.behind), 1):
            if queue in self._places.behind and not self._write_behind(queue):
                return
            self._places.behind.pop(queue, None)
            if number % _QUEUES_A_STEP == 0:
                yield
        if self.shortage is None:
            self._stuck, self._stuck_bytes = {}, 0

    def _write_behind(self, queue: Queue) -> bool:
        """False if there is no room."""
        if not self._places.is_here(queue):
            return True
        try:
            while queue.is_behind:
                self._unsynced.setdefault(queue.topic, {}).update(dict.fromkeys(queue.write_behind()))
        except OSError as error:
            if not is_no_space(error):
                raise
            self.shortage = error
            return False
        if isinstance(queue, ConsumeQueue):
            self._note_kept(queue)
        return True

    def _note_stuck(self, queue: Queue) -> None:
        assert self.shortage is not None
        self._stuck_bytes += queue.behind_bytes - self._stuck.get(queue, 0)
        self._stuck[queue] = queue.behind_bytes
        if self._stuck_bytes > _STUCK_BYTES_MAX:
            error, waiting = self.shortage, f"{self._stuck_bytes} bytes of queues wait for it"
            raise OSError(error.errno, f"{error.strerror}, and {waiting}: free some, start again", error.filename)

    def _note_kept(self, queue: ConsumeQueue) -> None:
        """Of what is written, queues keep some in memory for their readers; those idle for longest, if it is much."""
        self._kept_bytes += queue.kept_bytes - self._kept.pop(queue, 0)
        self._kept[queue] = queue.kept_bytes
        while self._kept_bytes > KEPT_BYTES_MAX:
            oldest, kept_bytes = self._kept.popitem(last=False)
            self._kept_bytes -= kept_bytes
            oldest.drop_kept()

    def take_unsynced(self) -> list[Path]:
        """Files that were written to since this was last asked."""
        paths, self._unsynced = [*itertools.chain.from_iterable(self._unsynced.values())], {}
        return paths

    # --- removing

    def remove(self, topic: str) -> None:
        """Forget a topic and put its files aside; one that has no queues has none.

        Thousands of files take seconds to delete. So their folder gets another name, which is done at once or not at
        all, and `doomed` tells whoever has the time. Raises `OSError`: the topic is still known then, so that it can
        be tried again.
        """
        # Whoever asks may name anything, and a name like `../commitlog` must never become a path.
        if not any(topic in table for table in self._places.tables):
            return
        if self.looks.proof is not None:
            self.looks.proof.made(topic)
        self.removal_count += 1
        self.ends_file.forget(topic)
        self._undeleted.add(topic)
        for folder in self._folders.values():
            if self._fs.exists(folder / topic):
                self._fs.rename(folder / topic, self._free_name())
            self._files.close_in(folder / topic)
        self._unsynced.pop(topic, None)
        for queue in self._places.opened_of(topic):
            self._places.behind.pop(queue, None)
            if isinstance(queue, ConsumeQueue):
                self._kept_bytes -= self._kept.pop(queue, 0)
        for table in self._places.tables:
            table.pop(topic, None)
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
        if self.looks.proof is not None:
            self.looks.proof.made(topic)
        if topic in self._undeleted or self._is_other_kind(topic, is_batched):
            self.remove(topic)

    def close(self) -> None:
        self._files.close_all()
