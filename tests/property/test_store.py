"""A store holds what a plain list would, through rolls, flushes, clean stops, deaths of the process and power cuts.

Files are tiny: a handful of messages rolls the log, the queues and the index. After every step what can be read is
compared with the model; after a crash the model learns what was lost, and may only lose what was not flushed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketline.model.message import StoredMessage
from rocketline.store.config import FlushDiskType
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.stores.small import (
    BATCHED,
    ROOT,
    append_batch,
    catch_up,
    contents,
    die,
    find_keys,
    flush,
    flush_queues,
    inner_batch,
    message,
    open_store,
    reserve_ahead,
)

QUEUES = [("T", 0), ("T", 1), ("U", 0), (BATCHED, 0)]
LOG = ROOT / "commitlog"
BODIES = st.sampled_from([0, 1, 60, 300, 700])


@dataclass
class Sent:
    """A message as the model remembers it."""

    number: int
    stored: StoredMessage
    is_flushed: bool = False
    messages: int = 1
    """More than one if it is an inner batch."""
    is_torn: bool = False
    """It was not flushed when the power went, and others behind it have reached the disk: its place stays empty."""


def _messages(sent: list[Sent]) -> int:
    return sum(one.messages for one in sent)


class StoreMachine(RuleBasedStateMachine):
    """One store, and a list for each of its queues."""

    @initialize(flush_type=st.sampled_from(FlushDiskType), seed=st.integers(0, 1000))
    def begin(self, flush_type: FlushDiskType, seed: int) -> None:
        self.clock = FakeClock()
        self.disk = FaultyFileSystem(self.clock, seed=seed)
        self.flush_type = flush_type
        self.count = 0
        self.sent: dict[tuple[str, int], list[Sent]] = {place: [] for place in QUEUES}
        self.store = self.open()

    def open(self) -> MessageStore:
        return open_store(self.disk, self.clock, flush_disk_type=self.flush_type)

    @property
    def is_sync(self) -> bool:
        return self.flush_type is FlushDiskType.SYNC_FLUSH

    # --- what happens

    def make(self, place: tuple[str, int], size: int) -> StoredMessage:
        self.count += 1
        self.clock.advance(0.001)  # no index file holds the messages of one millisecond only
        body = f"{self.count}:".encode().ljust(size, b".")
        topic, queue_id = place
        return message(
            topic, body, queue_id=queue_id, UNIQ_KEY=f"id-{self.count}", KEYS="all", TAGS=f"t{self.count % 2}"
        )

    @rule(place=st.sampled_from(QUEUES), size=BODIES)
    def append(self, place: tuple[str, int], size: int) -> None:
        made = self.make(place, size)
        self.sent[place].append(Sent(self.count, self.store.append(made)))

    @rule(place=st.sampled_from(QUEUES), sizes=st.lists(st.sampled_from([1, 60, 100]), min_size=1, max_size=3))
    def append_batch(self, place: tuple[str, int], sizes: list[int]) -> None:
        batch = [(self.make(place, size), self.count) for size in sizes]
        append_batch(self.store, [made for made, _ in batch])
        self.sent[place] += [Sent(number, made) for made, number in batch]
        offsets = [made.log_offset for made, _ in batch]
        assert offsets[-1] - offsets[0] < 1024, "a batch lies in one file"

    @rule(messages=st.integers(1, 4))
    def append_inner_batch(self, messages: int) -> None:
        self.count += 1
        made = inner_batch(messages, UNIQ_KEY=f"id-{self.count}")
        self.sent[BATCHED, 0].append(Sent(self.count, self.store.append(made), messages=messages))

    @rule(seconds=st.sampled_from([0.001, 1, 10]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def flush(self) -> None:
        flush(self.store)
        self.all_are_flushed()

    @rule(is_thorough=st.booleans())
    def flush_queues(self, is_thorough: bool) -> None:
        flush_queues(self.store, is_thorough=is_thorough)

    @rule()
    def reserve_ahead(self) -> None:
        reserve_ahead(self.store)

    @rule()
    def step_of_index(self) -> None:
        self.store.catch_up(2)

    @rule(place=st.sampled_from(QUEUES))
    def delete_topic(self, place: tuple[str, int]) -> None:
        """Flushed first: what is deleted with messages on their way may come back after a crash, as in Java."""
        self.flush()
        self.store.delete_topics([place[0]])
        for topic, queue_id in QUEUES:
            if topic == place[0]:
                self.sent[topic, queue_id] = []
                self.append((topic, queue_id), 1)  # so that the new life of the queue is in the log
        self.flush()

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        assert self.store.problem is None
        assert self.disk.list(LOG) == [f"{start:020}" for start in self.store.log.segments.starts]
        self.all_are_flushed()
        self.store = self.open()
        self.check_all()

    @rule()
    def process_dies(self) -> None:
        """What was written is in the system's cache: nothing is lost, and all of it is durable from now on."""
        die(self.store)
        self.store = self.open()
        self.all_are_flushed()
        self.check_all()

    @rule(survival=st.sampled_from(Survival), seed=st.integers(0, 1 << 16))
    def power_cut(self, survival: Survival, seed: int) -> None:
        self.disk = self.disk.crash(survival, seed=seed)
        self.store = self.open()
        self.forget_what_is_lost()
        self.check_all()

    @precondition(lambda self: self.count > 5)
    @rule(survival=st.sampled_from(Survival), seed=st.integers(0, 1 << 16), at=st.integers(1, 40))
    def power_cut_twice(self, survival: Survival, seed: int, at: int) -> None:
        """The second one meets the recovery from the first."""
        self.disk = self.disk.crash(survival, seed=seed)
        self.disk.fail(at=at, lasting=True, torn=True)
        with contextlib.suppress(OSError):
            self.open()
        self.power_cut(survival, seed + 1)

    # --- what must hold

    def all_are_flushed(self) -> None:
        for queue in self.sent.values():
            for sent in queue:
                sent.is_flushed = True

    def forget_what_is_lost(self) -> None:
        for place, queue in self.sent.items():
            kept = self.store.max_offset(*place)
            while queue and _messages(queue) > kept:
                assert not queue.pop().is_flushed, "a flushed message is lost"
            for sent in queue:
                if self.store.log.damage.at(sent.stored.log_offset) is not None:
                    assert sent.is_torn or not sent.is_flushed, "a flushed message counts as damaged"
                    sent.is_torn = True
            assert kept == _messages(queue), "messages that nobody sent, or a part of a batch"
        self.all_are_flushed()

    @invariant()
    def what_is_readable_is_right(self) -> None:
        for place, queue in self.sent.items():
            readable = [sent for sent in queue if sent.is_flushed] if self.is_sync else queue
            assert self.store.min_offset(*place) == 0 or queue[0].is_torn
            assert self.store.max_offset(*place) == _messages(readable)
            if any(not sent.is_torn for sent in readable):
                result = self.store.read(*place, self.store.min_offset(*place), len(readable), None)
                assert result.status.name == "FOUND"

    def check_all(self) -> None:
        """Queues, log and index agree with the model, message by message."""
        catch_up(self.store)
        for place, queue in self.sent.items():
            found = contents(self.store, *place)
            assert [(one.body, one.log_offset, one.store_ms) for one in found] == [
                (sent.stored.body, sent.stored.log_offset, sent.stored.store_ms) for sent in queue if not sent.is_torn
            ]
            for sent in [sent for sent in queue if not sent.is_torn]:
                assert find_keys(self.store, f"id-{sent.number}", place[0]) == [sent.stored.log_offset]
        ends = [unit[0] + unit[1] for place in QUEUES for unit in self.store.units(*place, 0, 1 << 20)]
        assert all(end <= self.store.confirm_log_offset for end in ends)
        assert self.store.flushed_log_offset == self.store.max_log_offset, "what recovery found is durable"

    def teardown(self) -> None:
        self.stop_and_start()
        self.store.close()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
