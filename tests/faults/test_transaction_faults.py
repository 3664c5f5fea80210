"""Power goes, or a call fails, at any moment of a scenario with transactions.

Whatever was promised holds afterwards: a commit that was acknowledged is there, nothing that was rolled back is, and of
everything else that was acknowledged as a half message the producer is asked, or was told.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.broker.transactions import half_messages
from rocketline.broker.transactions.check_round import Copies, TransactionTools
from rocketline.broker.transactions.checks import TransactionChecks
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.broker.transactions.questions import Questions
from rocketline.errors import StoreError
from rocketline.model.message import StoredMessage
from rocketline.store.files.json_files import load_json
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.bodies.transactions import TransactionMetrics
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import ROOT, Tables, message
from support.stores.small import flush

STRIDES = [13, pytest.param(1, marks=[pytest.mark.interop, pytest.mark.thorough])]
"""Some of the calls, spread over the scenario; every one of them in `make interop-all`."""
FIGURES = ROOT / "config" / "transactionMetrics"
SMALL = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "200",
    "maxHashSlotNum": "10",
    "maxIndexNum": "12",
    "transactionOpMsgMaxSize": "8",
    "transactionCheckMax": "1000",
}
COMMITS, ROLLS_BACK, IS_OPEN = range(3)


class _Asked:
    """In place of producers: writes down what they would be asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def begin_round(self) -> None:
        self.bodies.clear()

    async def ask(self, copies: Iterable[StoredMessage]) -> None:
        self.bodies += [copy.body for copy in copies]


class _NoFlusher:
    """In place of the one that works in threads: the test flushes when it wants to."""

    def wait(self, end: int, done: object, messages: int = 1) -> None:
        pass

    def flush(self) -> None:
        pass


class Start:
    """A broker's transactions from a start to its end."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.store = tables, tables.store
        flusher = Flusher(tables.store, lambda: tables.settings.value.store, tables.clock)
        self.put = MessagePut(tables.store, flusher, tables.settings)
        self.ops = OpMessages(
            tables.store, tables.stats, tables.settings, tables.clock, tables.log, lambda _, action: None
        )
        self.figures = TransactionFigures(tables.files, FIGURES, tables.clock, lambda _: True)
        self.asked, self.copies = _Asked(), Copies()
        tools = TransactionTools(
            tables.store,
            tables.topics,
            self.ops,
            self.figures,
            tables.stats,
            tables.settings,
            tables.clock,
            tables.log,
            self.copies,
        )
        self.checks = TransactionChecks(
            tools, tables.offsets, cast("Questions", self.asked), cast("Flusher", _NoFlusher())
        )

    def half(self, number: int) -> StoredMessage | None:
        """None if it was not stored."""
        properties = {"UNIQ_KEY": f"id-{number}", "PGROUP": "g", "TRAN_MSG": "true"}
        if number % 4 == 0:
            properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = "20"
        made = message("T", b"%d" % number, queue_id=0, **properties)
        made.born_ms = self.tables.clock.wall_ms()
        results: list[PutResult] = []
        self.put.put_half(made, results.append)
        return made if results[0].status.is_stored else None

    def commit(self, half: StoredMessage) -> bool:
        results: list[PutResult] = []
        self.put.put(half_messages.committed(half, ("T", 0)), results.append)
        if results[0].status.is_stored:
            self.end(half)
        return results[0].status.is_stored

    def end(self, half: StoredMessage) -> None:
        """Note it, with the copies that were made meanwhile."""
        self.ops.add(half.queue_offset)
        self.ops.add(self.copies.take(half.queue_offset))

    def check(self) -> None:
        asyncio.run(self.checks.check())

    def save(self) -> None:
        """What the broker does every few seconds."""
        flush(self.store)
        self.checks.commit_safe()
        self.tables.offsets.save()
        self.figures.save()

    def delivered(self) -> list[bytes]:
        found: list[bytes] = []
        while records := self.store.read("T", 0, len(found), 1000, None).records:
            found += [one.body for one in decode_records(b"".join(records))]
        return found


class Life:
    """What happened over several starts, and what is owed since."""

    def __init__(self, disk: FaultyFileSystem, clock: FakeClock) -> None:
        self.disk, self.clock = disk, clock
        self.numbers = 0
        self.owed: dict[int, int] = {}
        """Half messages that are durable, with what is durable of their end."""

    @contextmanager
    def start(self) -> Iterator[Start]:
        made = Tables(self.clock, self.disk, **SMALL)
        try:
            yield Start(made)
        finally:
            made.store.close()

    def work(self, start: Start, count: int) -> None:
        """Begin transactions, end some of them later, check. Raises `OSError`, `StoreError`."""
        begun: list[tuple[int, StoredMessage]] = []
        ended: dict[int, int] = {}
        for number in range(self.numbers, self.numbers + count):
            self.numbers += 1
            self.clock.advance(3)
            half = start.half(number)
            if half is None:
                raise StoreError("not stored")
            begun.append((number, half))
            if number % 3 == 2:
                for done, older in begun[-3:]:
                    if done % 3 == COMMITS and start.commit(older):
                        ended[done] = COMMITS
                    elif done % 3 == ROLLS_BACK:
                        start.end(older)
                        ended[done] = ROLLS_BACK
                if start.store.problem is not None:
                    raise StoreError(start.store.problem)
                flush(start.store)
                if start.store.problem is not None:
                    raise StoreError(start.store.problem)
                for done, _ in begun:
                    self.owed.setdefault(done, IS_OPEN)
                self.owed |= {done: COMMITS for done, how in ended.items() if how == COMMITS}
                begun.clear()
            if number % 5 == 4:
                start.check()
            if number % 7 == 6:
                start.save()

    def look(self, start: Start) -> None:
        """Everything that is owed is there."""
        delivered = start.delivered()
        assert not [body for body in delivered if int(body) % 3 == ROLLS_BACK]
        self.clock.advance(1000)
        start.check()
        asked = {int(body) for body in start.asked.bodies}
        for number, how in self.owed.items():
            if how == COMMITS:
                assert b"%d" % number in delivered, f"the commit of {number} is gone"
            elif number % 3 == IS_OPEN:
                assert number in asked, f"nobody is asked about {number}"
            elif number % 3 == COMMITS:
                assert number in asked or b"%d" % number in delivered, f"{number} is forgotten"
        assert load_json(self.disk, FIGURES, TransactionMetrics) is not None or not self.disk.exists(FIGURES)

    def live(self) -> bool:
        """Two starts with work; whether nothing failed."""
        try:
            for _ in range(2):
                with self.start() as start:
                    self.work(start, 12)
                    start.ops.close()
                    start.save()
                if start.store.problem is not None:
                    return False
        except (OSError, StoreError):
            return False
        return True

    def go_on(self) -> None:
        for _ in range(2):
            with self.start() as start:
                self.look(start)
                self.work(start, 3)


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("survival", Survival)
def test_what_was_promised_survives_a_power_cut_at_any_call(survival: Survival, stride: int) -> None:
    chance = random.Random(survival.value)
    is_over, at = False, survival.value if stride > 1 else 1
    while not is_over:
        clock = FakeClock()
        life = Life(FaultyFileSystem(clock, seed=at), clock)
        life.disk.fail(at=at, lasting=True, torn=True)
        is_over = life.live()
        life.disk = life.disk.crash(survival, seed=at)
        life.disk.fail(at=chance.randint(1, 60), lasting=True, torn=True)
        life.live()
        life.disk = life.disk.crash(chance.choice(list(Survival)), seed=at + 1)
        life.go_on()
        at += stride
    assert at > 100


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("call", ["write", "sync", "allocate", "open", "sync_folder"])
def test_a_call_that_fails_once_costs_nothing_that_was_promised(call: str, stride: int) -> None:
    is_over, at = False, 1
    while not is_over:
        clock = FakeClock()
        life = Life(FaultyFileSystem(clock), clock)
        life.disk.fail(at=at, calls=[call], torn=True)
        is_over = life.live()
        life.disk = life.disk.crash(Survival.SECTORS, seed=at)
        life.go_on()
        at += min(stride, 4)
    assert at > 3
