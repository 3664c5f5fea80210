"""All queues of a store, by topic and queue id, and their folders. Java: ConsumeQueueStore.

A topic's queues are of one kind, which its configuration says: plain ones lie in `consumequeue`, and those that know
batches kept in one record in `batchconsumequeue`.
"""

from __future__ import annotations

import errno
import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rocketline.errors import CorruptStoreError, QueueNotReadyError
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem, is_no_space
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import ConsumeQueue, IsGone
from rocketline.store.queues.queue_ends import UNKNOWN, EndsFile, KnownQueue

Queue: TypeAlias = ConsumeQueue | BatchConsumeQueue
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


_FAILURES_MAX: Final = 100
_QUEUES_A_STEP: Final = 32
"""Whose units are written in one go, each perhaps to a new file: two or three milliseconds."""


class Doctor(Protocol):
    """Knows the log, and so how queues must be. Its methods raise `OSError`."""

    def examine(self, queue: Queue, known: KnownQueue) -> str | None:
        """Open the files of a queue that slept; what is wrong with it."""
        ...

    def settle(self, queue: ConsumeQueue) -> str | None:
        """Open the files of a queue whose newest units were derived; what is wrong with it."""
        ...

    def reopen(self, queue: BatchConsumeQueue, offset: int, begin: int) -> str | None:
        """Open the files of a queue that is given the units of records from `begin` on, the first with this queue
        offset; what is wrong with those before."""
        ...

    def expected(self, queue: Queue, known: KnownQueue) -> KnownQueue:
        """What is known of a damaged queue, by what is left of its files if by nothing else."""
        ...

    def derive_anew(self, damaged: Mapping[Queue, str], known: Mapping[Queue, KnownQueue]) -> Iterator[None]:
        """Move the files of these queues away, and derive all their units from the log, in steps. None of them ends
        before it is known to."""
        ...

    def check_units(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        """Compare units that were read from files with the log, and mend those that are none of this queue's."""
        ...

    def problem_of_batches(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> str | None:
        """The same of a batch queue, whose units are mended together: why one of them cannot be right."""
        ...


class _NoDoctor:
    """Of a table without a log: whatever there is counts as right."""

    def examine(self, queue: Queue, known: KnownQueue) -> str | None:
        queue.load(is_clean=True)
        return None

    def settle(self, queue: ConsumeQueue) -> str | None:
        return queue.settle(is_first=True, derived_from=0)[0]

    def reopen(self, queue: BatchConsumeQueue, offset: int, begin: int) -> str | None:
        queue.load(is_clean=False)
        return None

    def expected(self, queue: Queue, known: KnownQueue) -> KnownQueue:
        return known

    def derive_anew(self, damaged: Mapping[Queue, str], known: Mapping[Queue, KnownQueue]) -> Iterator[None]:
        raise AssertionError("nothing is wrong without a log")

    def check_units(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        return units

    def problem_of_batches(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> str | None:
        return None


class _Broken(NamedTuple):
    """A queue that does not agree with the log and is not yet derived anew. Nobody gets it before it is."""

    queue: Queue
    problem: str
    known: KnownQueue


def _ends_of(queue: Queue) -> KnownQueue:
    return KnownQueue(queue.is_batched, queue.min_offset, queue.max_offset, queue.max_log_offset)


class QueueTable:
    """Queues exist in memory as soon as they are asked for, and on disk with their first message.

    A start opens none of them: those that exist sleep until somebody asks for them, or `look_on` comes to them. Each
    is compared with the log when it wakes; what does not agree with it is derived anew.
    """

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
        self.layout = segment_bytes, batch_segment_bytes
        self.is_batched = is_batched
        self.doctor: Doctor = _NoDoctor()
        """Compares queues with the log, and derives them anew."""
        self.before_mending: Callable[[], None] = lambda: None
        """Writes down durably what is known of all queues, before files of damaged ones are moved. `OSError`."""
        self.on_broken: Callable[[], object] | None = None
        """Told of queues that must be derived anew, by whoever calls `look_on` until all are: meanwhile nobody gets
        them. Without it whoever asks for one waits."""
        self.mend_count = 0
        """How often that was done."""
        self.removal_count = 0
        """How often topics were deleted: what was known of queues before may be wrong since."""
        self.ends_file = EndsFile(fs, root)
        self.failures: dict[tuple[str, int], OSError] = {}
        """Queues that could not be compared with the log, and why. They hold nobody up but those who ask for them."""
        self.failure_count = 0
        """How often that happened: units that were derived for them are in no file, so their ends must be known."""
        self._files = OpenFiles(fs)
        self._topics: dict[str, dict[int, Queue]] = {}
        self._sleeping: dict[str, dict[int, KnownQueue]] = {}
        self._unsettled: dict[str, dict[int, ConsumeQueue]] = {}  # derived, and not yet compared with their files
        self._lower: dict[tuple[str, int], KnownQueue] = {}  # of queues that were derived: they were so long before
        self._broken: dict[str, dict[int, _Broken]] = {}
        self._cure: Iterator[None] | None = None  # of the broken ones, under way
        self._misled: dict[Queue, tuple[str, KnownQueue]] = {}  # derived: files cannot be right, and are not written to
        self._unseen: list[tuple[str, int]] = []  # asleep, and not yet compared with the log
        self._behind: dict[Queue, None] = {}
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
            self._sleeping[topic] = dict(known)
        self._unseen = [(topic, queue_id) for topic, known in self._sleeping.items() for queue_id in known]

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
            self._put(queue)
        for queue, (problem, known) in self._misled.items():
            # Not only what was derived: if that was of damaged records alone, its files may know more.
            ends = self.doctor.expected(queue, known), _ends_of(queue)
            self._break(queue, problem, max(ends, key=lambda one: one.max_offset))
        self._misled.clear()

    def _check_kind(self, topic: str, is_batched: bool, others: Collection[bool]) -> None:
        expected = self.is_batched(topic)
        if (is_batched if expected is None else expected) != is_batched or (not is_batched) in others:
            problem = f"the topic {topic} has its queues in {_FOLDERS[not is_batched]}, as its queue.type says"
            raise CorruptStoreError(str(self._folders[is_batched] / topic), f"{problem}; move this folder away")

    def _is_other_kind(self, topic: str, is_batched: bool) -> bool:
        broken = (one.queue for one in self._broken.get(topic, {}).values())
        queues = (*self._topics.get(topic, {}).values(), *self._sleeping.get(topic, {}).values(), *broken)
        return any(queue.is_batched != is_batched for queue in queues)

    def _wake(self, topic: str, queue_id: int) -> Queue:
        """Open a queue that sleeps, or was derived, and see whether it agrees with the log."""
        if queue_id not in self._broken.get(topic, ()):
            queue, problem = self._opened(topic, queue_id)
            if problem is None:
                self._awake(queue)
                return queue
            self._note_broken(queue, problem)
        if self.on_broken is not None:
            self.on_broken()
            raise QueueNotReadyError(topic, queue_id)
        self._mend()
        return self._topics[topic][queue_id]

    def _opened(self, topic: str, queue_id: int) -> tuple[Queue, str | None]:
        """The queue, which still counts as asleep, and what is wrong with it. Raises `OSError`."""
        derived = self._unsettled.get(topic, {}).get(queue_id)
        if derived is not None:
            return derived, self.doctor.settle(derived)
        known = self._sleeping[topic][queue_id]
        queue = self._new(topic, queue_id, known.is_batched)
        return queue, self.doctor.examine(queue, known)

    def _awake(self, queue: Queue) -> None:
        self._forget(queue.topic, queue.queue_id)
        self._put(queue)
        if queue.is_behind:
            self._behind[queue] = None

    def _forget(self, topic: str, queue_id: int) -> None:
        """It sleeps no more."""
        self.failures.pop((topic, queue_id), None)
        for table in (self._sleeping, self._unsettled, self._broken):
            queues = table.get(topic)
            if queues is not None:
                queues.pop(queue_id, None)
                if not queues:
                    del table[topic]

    def _put(self, queue: Queue) -> None:
        if isinstance(queue, ConsumeQueue):
            queue.check_with(self.doctor.check_units)
        else:
            queue.check_with(self._are_right)
        self._topics.setdefault(queue.topic, {})[queue.queue_id] = queue

    # --- mending

    def _are_right(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> bool:
        """Whether units that were read point at their own records. If not, the queue is derived anew.

        Raises `OSError`: while some of its records have no unit yet, or if that is done behind the server.
        """
        problem = self.doctor.problem_of_batches(queue, units)
        if problem is None:
            return True
        if queue.next_offset != queue.max_offset:
            raise OSError(errno.EAGAIN, f"{problem}: it is derived anew as soon as nobody writes", str(queue.folder))
        self._topics[queue.topic].pop(queue.queue_id)
        self._break(queue, problem, _ends_of(queue))
        if self.on_broken is not None:
            self.on_broken()
            raise QueueNotReadyError(queue.topic, queue.queue_id)
        self._mend()
        return False

    def _note_broken(self, queue: Queue, problem: str) -> None:
        """From now on it is what it is known to be, and never looked at again before it is derived."""
        known = self._sleeping.get(queue.topic, {}).get(queue.queue_id) or _ends_of(queue)
        self._break(queue, problem, self.doctor.expected(queue, known))

    def _break(self, queue: Queue, problem: str, known: KnownQueue) -> None:
        self._behind.pop(queue, None)
        self._forget(queue.topic, queue.queue_id)
        self._broken.setdefault(queue.topic, {})[queue.queue_id] = _Broken(queue, problem, known)

    def _mend(self) -> None:
        """Derive broken queues anew. The log is read once for all that need it, so all are looked at now."""
        self._look_at_all()
        while self._mend_on():
            pass

    def _look_at_all(self) -> None:
        for name in self._unawake():
            if name not in self.failures and not self._is_broken(*name):
                try:
                    self._look_at(*name)
                except OSError as error:
                    self._note_failure(name, error)
        self._unseen = []

    def known_end(self, topic: str, queue_id: int) -> int | None:
        """Where a queue ends, if by nothing else by its files; None if there is no such queue, `UNKNOWN` if they cannot
        be right."""
        open_queue = self._topics.get(topic, {}).get(queue_id) or self._unsettled.get(topic, {}).get(queue_id)
        known = open_queue or self._sleeping.get(topic, {}).get(queue_id)
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
            for table in (self._topics, self._unsettled)
            if (queue := table.get(topic, {}).get(queue_id)) is not None
        ]

    def _is_broken(self, topic: str, queue_id: int) -> bool:
        return queue_id in self._broken.get(topic, ())

    def _mend_on(self) -> bool:
        """A step of deriving queues anew; whether more are left. If it fails, they are as broken as before."""
        if self._cure is None and not self._broken:
            return False
        if self._cure is None:
            self._cure = self._cure_all()
        try:
            next(self._cure)
        except StopIteration:
            self._cure = None
        except BaseException:
            self._cure = None
            raise
        return self._cure is not None or bool(self._broken)

    def _cure_all(self) -> Iterator[None]:
        patients = [broken for queues in self._broken.values() for broken in queues.values()]
        self.mend_count += 1
        self.before_mending()
        problems = {queue: problem for queue, problem, _ in patients}
        yield from self.doctor.derive_anew(problems, {queue: known for queue, _, known in patients})
        for queue in problems:
            if self._is_here(queue):
                self._awake(queue)
                self._behind[queue] = None

    def _is_here(self, queue: Queue) -> bool:
        """Its topic was not deleted meanwhile."""
        broken = self._broken.get(queue.topic, {}).get(queue.queue_id)
        found = broken.queue if broken is not None else self._topics.get(queue.topic, {}).get(queue.queue_id)
        return found is queue

    @property
    def is_broken(self) -> bool:
        """Some queues must be derived anew."""
        return bool(self._broken)

    def _unawake(self) -> list[tuple[str, int]]:
        return [
            (topic, queue_id)
            for table in (self._unsettled, self._sleeping, self._broken)
            for topic, queues in table.items()
            for queue_id in queues
        ]

    def look_on(self, count: int, steps: int = 1) -> bool:
        """Compare the next queues that nobody has asked for yet with the log; whether more are left to do.

        Once all were looked at, broken ones are derived anew together, so many steps of it. What cannot be read is no
        reason not to look at others, see `failures`. Nor is a queue that cannot be derived anew now: whoever asks for
        it tries again.
        """
        while count and (name := self._next_unseen()) is not None:
            count -= 1
            try:
                self._look_at(*name)
            except OSError as error:
                self._note_failure(name, error)
        while steps and self._is_mendable:
            steps -= 1
            self._mend_as_possible()
        return self._next_unseen() is not None or self._is_mendable

    @property
    def _is_mendable(self) -> bool:
        if not self._broken or self._next_unseen() is not None:
            return False
        return not self.failures.keys() & self._broken_names()

    def _mend_as_possible(self) -> None:
        try:
            self._mend_on()
        except OSError as error:
            topic = next(iter(self._broken))
            self.failures[topic, next(iter(self._broken[topic]))] = error

    def _broken_names(self) -> set[tuple[str, int]]:
        return {(topic, queue_id) for topic, queues in self._broken.items() for queue_id in queues}

    def _next_unseen(self) -> tuple[str, int] | None:
        """None as well if so many could not be read that the disk is to blame."""
        if len(self.failures) > _FAILURES_MAX:
            return None
        for topic, queues in self._unsettled.items():
            for queue_id in queues:
                if (topic, queue_id) not in self.failures:
                    return topic, queue_id
        while self._unseen:
            topic, queue_id = name = self._unseen[-1]
            if name not in self.failures and queue_id in self._sleeping.get(topic, ()):
                return name
            self._unseen.pop()
        return None

    def _note_failure(self, name: tuple[str, int], error: OSError) -> None:
        self.failures[name] = error
        self.failure_count += 1

    def retry_failures(self) -> None:
        """Let the next looks come to those that could not be read."""
        self._unseen += self.failures
        self.failures.clear()

    def _look_at(self, topic: str, queue_id: int) -> None:
        """A queue that is as it should be sleeps on, and what was seen of it is kept."""
        queue, problem = self._opened(topic, queue_id)
        if problem is not None:
            self._note_broken(queue, problem)
        elif queue_id in self._unsettled.get(topic, ()):
            self._awake(queue)
        else:
            self._sleeping[topic][queue_id] = _ends_of(queue)
            self._drop_unseen(topic, queue_id)

    def _drop_unseen(self, topic: str, queue_id: int) -> None:
        if self._unseen and self._unseen[-1] == (topic, queue_id):
            self._unseen.pop()

    def prove(self, log_offset: int, files_end: int) -> int:
        """Let queues keep units that their files have of records from `log_offset` on, though the log does not show
        them; where the last of these ends, 0 if there are none. Its files end at `files_end`, and no record went
        further. For a recovery. Raises `OSError`."""
        end = 0
        for queues in self._unsettled.values():
            for queue in queues.values():
                end = max(end, queue.keep_from_files(log_offset.__le__, files_end))
        for topic, sleeping in self._sleeping.items():
            for queue_id, known in sleeping.items():
                if known.max_offset == UNKNOWN:
                    unopened = self._new(topic, queue_id, known.is_batched)
                    unopened.load(is_clean=True)
                    if log_offset < unopened.max_log_offset <= files_end:
                        ends = unopened.min_offset, unopened.max_offset, unopened.max_log_offset
                        known = sleeping[queue_id] = KnownQueue(known.is_batched, *ends)
                if log_offset < known.max_log_offset <= files_end:
                    end = max(end, known.max_log_offset)
        return end

    def settle_all(self) -> None:
        """Bring the units of a recovery into files, and look at queues of which nothing is known, for a store that
        closes: the next start must not take them for what they seem. Raises `OSError`."""
        for topic in list(self._unsettled):
            for queue_id in list(self._unsettled[topic]):
                self._look_at(topic, queue_id)
        for topic, sleeping in list(self._sleeping.items()):
            for queue_id in [queue_id for queue_id, known in sleeping.items() if known.max_offset == UNKNOWN]:
                self._look_at(topic, queue_id)

    @property
    def is_unknown(self) -> bool:
        """Of some queues nothing is known but that they exist, and somebody may still find out."""
        return any(
            known.max_offset == UNKNOWN and (topic, queue_id) not in self.failures
            for topic, queues in self._sleeping.items()
            for queue_id, known in queues.items()
        )

    @property
    def is_unsettled(self) -> bool:
        """Some derived units are not on disk, nobody has begun to write them, and somebody may."""
        return any(
            (topic, queue_id) not in self.failures for topic, queues in self._unsettled.items() for queue_id in queues
        )

    def known(self) -> dict[str, dict[int, KnownQueue]]:
        """What is known of all queues, for the next start."""
        found = {topic: dict(queues) for topic, queues in self._sleeping.items()}
        for table in (self._topics, self._unsettled):
            for topic, queues in table.items():
                ends = {queue_id: _ends_of(queue) for queue_id, queue in queues.items() if queue.max_offset}
                found.setdefault(topic, {}).update(ends)
        for topic, broken in self._broken.items():
            found.setdefault(topic, {}).update({queue_id: one.known for queue_id, one in broken.items()})
        return found

    def __iter__(self) -> Iterator[Queue]:
        """All queues, which wakes those that sleep."""
        for topic, queue_id in self._unawake():
            self._wake(topic, queue_id)
        return self.awake

    def is_awake(self, queue: Queue) -> bool:
        """It is open, and its topic was not deleted since."""
        return self._topics.get(queue.topic, {}).get(queue.queue_id) is queue

    @property
    def awake(self) -> Iterator[Queue]:
        """The queues that are open."""
        return (queue for queues in self._topics.values() for queue in queues.values())

    def get(self, topic: str, queue_id: int) -> Queue | None:
        """The queue, None if there is none. Raises `OSError` if it slept and cannot be read."""
        queues = self._topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None and self._sleeps(topic, queue_id):
            return self._wake(topic, queue_id)
        return queue

    def _sleeps(self, topic: str, queue_id: int) -> bool:
        return any(queue_id in table.get(topic, ()) for table in (self._sleeping, self._unsettled, self._broken))

    def of(self, topic: str) -> Mapping[int, Queue]:
        """All queues of a topic, which wakes those that sleep."""
        for table in (self._sleeping, self._unsettled, self._broken):
            for queue_id in list(table.get(topic, ())):
                self.get(topic, queue_id)
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Collection[str]:
        return self._topics.keys() | self._sleeping.keys() | self._unsettled.keys() | self._broken.keys()

    def make(self, topic: str, queue_id: int) -> Queue:
        """The queue, a new one if there is none yet."""
        queue = self.get(topic, queue_id)
        return queue if queue is not None else self._add(topic, queue_id, bool(self.is_batched(topic)))

    def derive(self, topic: str, queue_id: int, offset: int, begin: int) -> Queue:
        """The queue for the units of a recovery that reads the log from `begin` on, of which the first has this queue
        offset. Its files are left for later if they may be."""
        known = self._sleeping.get(topic, {}).get(queue_id)
        is_batched = known.is_batched if known is not None else bool(self.is_batched(topic))
        awake = self._topics.get(topic, {}).get(queue_id)
        if awake is not None:
            return awake
        if known is not None and known.max_offset != UNKNOWN:
            self._lower[topic, queue_id] = known
        if is_batched:
            return self._derive_batched(topic, queue_id, offset, begin)
        queue = self._plain(topic, queue_id)
        queue.expect(offset, known.min_offset if known is not None and known.max_offset != UNKNOWN else offset)
        self._forget(topic, queue_id)
        self._unsettled.setdefault(topic, {})[queue_id] = queue
        return queue

    def _derive_batched(self, topic: str, queue_id: int, offset: int, begin: int) -> Queue:
        """Its units are not numbered like its messages, so those that are derived go on from those in its files. If
        these cannot be right, it is derived as a whole once the recovery is over."""
        queue = self._batched(topic, queue_id)
        problem = self.doctor.reopen(queue, offset, begin)
        if problem is None:
            self._awake(queue)
        else:
            queue.reset()
            self._misled[queue] = problem, self._sleeping.get(topic, {}).get(queue_id, KnownQueue(is_batched=True))
            self._forget(topic, queue_id)
        return queue

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
        self._put(queue)
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
        for _ in self.writing_behind():
            pass

    def writing_behind(self) -> Iterator[None]:
        """The same, some queues in each step; those that get units meanwhile have them written the next time. Raises as
        `write_behind` does."""
        self.shortage = None
        for number, queue in enumerate(list(self._behind), 1):
            if queue in self._behind and not self._write_behind(queue):
                return
            self._behind.pop(queue, None)
            if number % _QUEUES_A_STEP == 0:
                yield
        if self.shortage is None:
            self._stuck, self._stuck_bytes = {}, 0

    def _write_behind(self, queue: Queue) -> bool:
        """False if there is no room."""
        if not self._is_here(queue):
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

    def derived(self, queues: Iterable[Queue]) -> None:
        """A recovery has given these their units. Those that are open have them written with all others."""
        self.touched(queue for queue in queues if self._topics.get(queue.topic, {}).get(queue.queue_id) is queue)

    def relieve(self, queue: Queue) -> None:
        """A recovery has given a queue so many units that they should not all wait in memory. Raises `OSError`."""
        if self._unsettled.get(queue.topic, {}).get(queue.queue_id) is queue:
            assert isinstance(queue, ConsumeQueue)
            if self.doctor.settle(queue) is not None:
                return  # it is derived anew as a whole when it is asked for
            self._awake(queue)
        self.touched([queue])

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
        if not any(topic in table for table in self._tables()):
            return
        self.removal_count += 1
        self.ends_file.forget(topic)
        self._undeleted.add(topic)
        for folder in self._folders.values():
            if self._fs.exists(folder / topic):
                self._fs.rename(folder / topic, self._free_name())
            self._files.close_in(folder / topic)
        self._unsynced.pop(topic, None)
        broken = (one.queue for one in self._broken.get(topic, {}).values())
        for queue in (*self._topics.get(topic, {}).values(), *broken):
            self._behind.pop(queue, None)
            if isinstance(queue, ConsumeQueue):
                self._kept_bytes -= self._kept.pop(queue, 0)
        for table in self._tables():
            table.pop(topic, None)
        self._undeleted.discard(topic)

    def _tables(self) -> tuple[dict[str, Any], ...]:
        """Each has some of the topics: there may be a hundred thousand, and nobody should go through all for one."""
        return self._topics, self._sleeping, self._unsettled, self._broken

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
