"""Opening queues, which compares them with the log, and deriving anew those that do not agree with it.

A queue is compared when somebody asks for it. Those that nobody asks for are looked at behind the running broker, some
at a time (`look_on`), so that damage is found while it can be mended. Broken ones are mended together: the log is read
once for all of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from rocketline.errors import QueueNotReadyError
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.queues.queue_ends import UNDERIVED, UNKNOWN, KnownQueue
from rocketline.store.queues.queue_places import BrokenQueue, Queue, QueueName, QueuePlaces, QueueReach, ends_of

_FAILURES_MAX: Final = 100
_COMPARED: Final = "is being compared with the log, since nobody has noted how it ended"


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

    def gap_before(self, queue: Queue, offset: int, begin: int) -> str | None:
        """What an open queue lacks that is given the units of records from `begin` on, the first with this offset."""
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


class Proof(Protocol):
    """Reads the log for what queues must have, where nobody has noted how they ended: see `store.end_proof`."""

    is_over: bool

    def go_on(self) -> None:
        """Take a step. Raises `OSError`."""
        ...

    def holds_for(self, topic: str, queue_id: int, queue: QueueReach | None) -> bool:
        """The queue ends where it seems to; None stands for one that has no files."""
        ...

    def problem_of(self, topic: str, queue_id: int, queue: QueueReach | None) -> str | None:
        """What it lacks, by what was read so far."""
        ...

    def made(self, topic: str) -> None:
        """A topic is made, or gone: older records of its name are not its."""
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

    def gap_before(self, queue: Queue, offset: int, begin: int) -> str | None:
        return None

    def expected(self, queue: Queue, known: KnownQueue) -> KnownQueue:
        return known

    def derive_anew(self, damaged: Mapping[Queue, str], known: Mapping[Queue, KnownQueue]) -> Iterator[None]:
        raise AssertionError("nothing is wrong without a log")

    def check_units(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        return units

    def problem_of_batches(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> str | None:
        return None


class QueueLooks:
    """Wakes the queues of a `QueueTable`. Whoever gets one gets one that agrees with the log."""

    def __init__(self, places: QueuePlaces, make: Callable[[str, int, bool], Queue]) -> None:
        """`make` gives a queue that is not open: of a topic, a queue id, and whether it knows batches."""
        self._places, self._make = places, make
        self.doctor: Doctor = _NoDoctor()
        """Compares queues with the log, and derives them anew."""
        self.before_mending: Callable[[], None] = lambda: None
        """Writes down durably what is known of all queues, before files of damaged ones are moved. `OSError`."""
        self.on_broken: Callable[[], object] | None = None
        """Told of queues that must be derived anew, by whoever calls `look_on` until all are: meanwhile nobody gets
        them. Without it whoever asks for one waits."""
        self.mend_count = 0
        """How often that was done."""
        self.failures: dict[QueueName, OSError] = {}
        """Queues that could not be compared with the log, and why. They hold nobody up but those who ask for them."""
        self.failure_count = 0
        """How often that happened: units that were derived for them are in no file, so their ends must be known."""
        self.proof: Proof | None = None
        """If nobody has noted how queues ended. Until it holds for a queue, that is given no messages."""
        self.proof_failure: OSError | None = None
        """Why it cannot go on. `retry_failures` lets it."""
        self.unseen: list[QueueName] = []
        """Asleep, and not yet compared with the log; the last is the next."""
        self._cure: Iterator[None] | None = None  # of the broken ones, under way

    # --- waking

    def wake(self, topic: str, queue_id: int) -> Queue:
        """Open a queue that sleeps, or was derived, and see whether it agrees with the log."""
        if not self._places.is_broken(topic, queue_id):
            queue, problem = self._opened(topic, queue_id)
            if problem is None:
                self.awaken(queue)
                return queue
            self._give_up(queue, problem)
        if self.on_broken is not None:
            self.on_broken()
            raise QueueNotReadyError(topic, queue_id)
        self._mend()
        return self._places.awake[topic][queue_id]

    def _opened(self, topic: str, queue_id: int) -> tuple[Queue, str | None]:
        """The queue, which still counts as asleep, and what is wrong with it. Raises `OSError`."""
        queue: Queue
        derived = self._places.unsettled.get(topic, {}).get(queue_id)
        if derived is not None:
            queue, problem = derived, self.doctor.settle(derived)
        else:
            known = self._places.sleeping[topic][queue_id]
            queue = self._make(topic, queue_id, known.is_batched)
            problem = self.doctor.examine(queue, known)
        if problem is None and self.proof is not None:
            problem = self.proof.problem_of(topic, queue_id, queue)
        return queue, problem

    def awaken(self, queue: Queue) -> None:
        """It agrees with the log: from now on whoever asks gets it."""
        self.forget(queue.topic, queue.queue_id)
        self.put(queue)
        if queue.is_behind:
            self._places.behind[queue] = None

    def put(self, queue: Queue) -> None:
        """Give out a queue whose units are compared with the log from now on, as they are read."""
        if isinstance(queue, ConsumeQueue):
            queue.check_with(self.doctor.check_units)
        else:
            queue.check_with(self._are_right)
        self._places.awake.setdefault(queue.topic, {})[queue.queue_id] = queue

    def forget(self, topic: str, queue_id: int) -> None:
        """It sleeps no more."""
        self.failures.pop((topic, queue_id), None)
        self._places.forget(topic, queue_id)

    # --- looking behind the running broker

    def look_on(self, count: int, steps: int = 1) -> bool:
        """Compare the next queues that nobody has asked for yet with the log; whether more are left to do.

        Once all were looked at, the proof goes on, if there is one; then broken ones are derived anew together, so many
        steps of it. What cannot be read is no reason not to look at others, see `failures`. Nor is a queue that cannot
        be derived anew now: whoever asks for it tries again.
        """
        while count and (name := self._next_unseen()) is not None:
            count -= 1
            try:
                self._look_at(*name)
            except OSError as error:
                self._note_failure(name, error)
        while steps and self._is_provable:
            steps -= 1
            self._prove_on()
        while steps and self._is_mendable:
            steps -= 1
            self._mend_as_possible()
        if self.is_proven and not self.failures:  # what could not be opened is compared when it can
            self.proof = None
        return self._next_unseen() is not None or self._is_provable or self._is_mendable

    def _next_unseen(self) -> QueueName | None:
        """None as well if so many could not be read that the disk is to blame."""
        if len(self.failures) > _FAILURES_MAX:
            return None
        for topic, queues in self._places.unsettled.items():
            for queue_id in queues:
                if (topic, queue_id) not in self.failures:
                    return topic, queue_id
        while self.unseen:
            topic, queue_id = name = self.unseen[-1]
            if name not in self.failures and queue_id in self._places.sleeping.get(topic, ()):
                return name
            self.unseen.pop()
        return None

    def _look_at(self, topic: str, queue_id: int) -> None:
        """A queue that is as it should be sleeps on, and what was seen of it is kept."""
        queue, problem = self._opened(topic, queue_id)
        if problem is not None:
            self._give_up(queue, problem)
        elif queue_id in self._places.unsettled.get(topic, ()):
            self.awaken(queue)
        else:
            self._places.sleeping[topic][queue_id] = ends_of(queue)
            self._drop_unseen(topic, queue_id)

    def _drop_unseen(self, topic: str, queue_id: int) -> None:
        if self.unseen and self.unseen[-1] == (topic, queue_id):
            self.unseen.pop()

    def _note_failure(self, name: QueueName, error: OSError) -> None:
        self.failures[name] = error
        self.failure_count += 1

    def retry_failures(self) -> None:
        """Let the next looks come to those that could not be read."""
        self.unseen += self.failures
        self.failures.clear()
        self.proof_failure = None

    def settle_all(self) -> None:
        """Bring the units of a recovery into files, and look at queues of which nothing is known, for a store that
        closes and notes how they end: the next start must not take them for what they seem. Raises `OSError`."""
        for topic in list(self._places.unsettled):
            for queue_id in list(self._places.unsettled[topic]):
                self._look_at(topic, queue_id)
        for topic, sleeping in list(self._places.sleeping.items()) if self.is_proven else ():
            for queue_id in [queue_id for queue_id, known in sleeping.items() if known.max_offset == UNKNOWN]:
                self._look_at(topic, queue_id)

    @property
    def is_unknown(self) -> bool:
        """Of some queues nothing is known but that they exist, and somebody may still find out."""
        return any(
            known.max_offset == UNKNOWN and (topic, queue_id) not in self.failures
            for topic, queues in self._places.sleeping.items()
            for queue_id, known in queues.items()
        )

    @property
    def is_unsettled(self) -> bool:
        """Some derived units are not on disk, nobody has begun to write them, and somebody may."""
        unsettled = self._places.unsettled.items()
        return any((topic, queue_id) not in self.failures for topic, queues in unsettled for queue_id in queues)

    # --- proving how queues end

    @property
    def is_proven(self) -> bool:
        """All queues are known to end where they seem to, or to be broken."""
        return self.proof is None or self.proof.is_over

    @property
    def _is_provable(self) -> bool:
        return not self.is_proven and self.proof_failure is None and self._next_unseen() is None

    def _prove_on(self) -> None:
        assert self.proof is not None
        try:
            self.proof.go_on()
        except OSError as error:
            self.proof_failure = error

    def compare(self, topic: str, queue_id: int, *, is_batched: bool | None) -> bool:
        """See whether a queue has what the log is known to have of it; one that has not is derived anew. False if that
        must wait for what is on its way to it. `is_batched` is None if its topic is gone."""
        assert self.proof is not None
        places = self._places
        queue, known = places.awake.get(topic, {}).get(queue_id), places.sleeping.get(topic, {}).get(queue_id)
        is_unopened = known is not None and known.max_offset == UNKNOWN  # it is compared when it is opened
        if is_unopened or places.is_broken(topic, queue_id) or queue_id in places.unsettled.get(topic, ()):
            return True
        bounds = ends_of(queue) if queue is not None else known
        problem = self.proof.problem_of(topic, queue_id, bounds)
        if problem is None or (bounds is None and is_batched is None):
            return True
        if queue is not None and queue.next_offset != queue.max_offset:
            return False
        bounds = bounds or KnownQueue(bool(is_batched), max_offset=0)
        broken = queue or self._make(topic, queue_id, bounds.is_batched)
        places.awake.get(topic, {}).pop(queue_id, None)
        self.note_broken(broken, problem, bounds._replace(max_log_offset=UNDERIVED))
        return True

    def wait_for_proof(self, topic: str, queue_id: int, queue: Queue | None) -> None:
        """Return if the queue ends where it seems to, or was derived anew meanwhile. Raises `QueueNotReadyError` if
        somebody finds that out behind the server, `OSError`."""
        if self.proof is not None and not self.proof.holds_for(topic, queue_id, queue):
            if self.on_broken is not None:
                raise QueueNotReadyError(topic, queue_id, _COMPARED)
            self._mend()

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
        self._places.awake[queue.topic].pop(queue.queue_id)
        self.note_broken(queue, problem, ends_of(queue))
        if self.on_broken is not None:
            self.on_broken()
            raise QueueNotReadyError(queue.topic, queue.queue_id)
        self._mend()
        return False

    def _give_up(self, queue: Queue, problem: str) -> None:
        """From now on it is what it is known to be, and never looked at again before it is derived."""
        known = self._places.sleeping.get(queue.topic, {}).get(queue.queue_id) or ends_of(queue)
        self.note_broken(queue, problem, self.doctor.expected(queue, known))

    def note_broken(self, queue: Queue, problem: str, known: KnownQueue) -> None:
        """Nobody gets it before it is derived anew, up to where it is `known` to go."""
        self._places.behind.pop(queue, None)
        self.forget(queue.topic, queue.queue_id)
        self._places.broken.setdefault(queue.topic, {})[queue.queue_id] = BrokenQueue(queue, problem, known)

    @property
    def is_broken(self) -> bool:
        """Some queues must be derived anew."""
        return bool(self._places.broken)

    def _mend(self) -> None:
        """Derive broken queues anew. The log is read once for all that need it, so all are looked at now."""
        self._look_at_all()
        while self.proof is not None and not self.proof.is_over:
            self.proof.go_on()
        while self._mend_on():
            pass

    def _look_at_all(self) -> None:
        for name in self._places.unawake():
            if name not in self.failures and not self._places.is_broken(*name):
                try:
                    self._look_at(*name)
                except OSError as error:
                    self._note_failure(name, error)
        self.unseen = []

    def _mend_on(self) -> bool:
        """A step of deriving queues anew; whether more are left. If it fails, they are as broken as before."""
        if self._cure is None and not self._places.broken:
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
        return self._cure is not None or bool(self._places.broken)

    def _cure_all(self) -> Iterator[None]:
        patients = [broken for queues in self._places.broken.values() for broken in queues.values()]
        self.mend_count += 1
        self.before_mending()
        problems = {queue: problem for queue, problem, _ in patients}
        yield from self.doctor.derive_anew(problems, {queue: known for queue, _, known in patients})
        for queue in problems:
            if self._places.is_here(queue):
                self.awaken(queue)
                self._places.behind[queue] = None

    @property
    def _is_mendable(self) -> bool:
        if not self._places.broken or not self.is_proven or self._next_unseen() is not None:
            return False
        return not self.failures.keys() & self._broken_names()

    def _mend_as_possible(self) -> None:
        try:
            self._mend_on()
        except OSError as error:
            topic = next(iter(self._places.broken))
            self.failures[topic, next(iter(self._places.broken[topic]))] = error

    def _broken_names(self) -> set[QueueName]:
        return {(topic, queue_id) for topic, queues in self._places.broken.items() for queue_id in queues}
