"""A round over half messages: who is asked for, and who is not."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.broker.transactions import half_messages, op_messages
from rocketline.broker.transactions.check_round import CheckRound, Copies, EndedBefore, Progress, TransactionTools
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.errors import StoreFullError
from rocketline.model.message import StoredMessage
from rocketline.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP
from rocketline.store.filesystem import FileSystem
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.transactions import ended_in
from rocketline.wire.message_codec import decode_records
from rocketline.wire.properties import encode_properties
from support.brokers.tables import ROOT, Tables, message, tables
from support.stores.small import flush

PATH = ROOT / "config" / "transactionMetrics"


class Scene:
    """A store with half messages, and rounds over them."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.clock, self.store = tables, tables.clock, tables.store
        self.due: list[Callable[[], None]] = []
        self.waits_s: list[float] = []
        self.ops = OpMessages(
            tables.store,
            tables.stats,
            tables.settings,
            tables.clock,
            tables.log,
            self._call_later,
        )
        self.figures = TransactionFigures(tables.files, PATH, tables.clock, lambda topic: topic == "T")
        self.tools = TransactionTools(
            tables.store,
            tables.topics,
            self.ops,
            self.figures,
            tables.stats,
            tables.settings,
            tables.clock,
            tables.log,
            Copies(),
        )
        self.put = MessagePut(
            tables.store, Flusher(tables.store, lambda: tables.settings.value.store, tables.clock), tables.settings
        )
        self.before, self.at = EndedBefore(), Progress(-1, -1)

    def _call_later(self, wait_s: float, action: Callable[[], None]) -> None:
        self.waits_s.append(wait_s)
        self.due.append(action)

    def half(self, body: bytes = b"x", *, ahead_ms: int = 0, **properties: str) -> StoredMessage:
        made = message("T", body, queue_id=1, UNIQ_KEY=body[:8].hex(), PGROUP="g", TRAN_MSG="true", **properties)
        made.born_ms, made.flag, made.sys_flag = self.clock.wall_ms() + ahead_ms, 7, 4
        results: list[PutResult] = []
        self.put.put_half(made, results.append)
        assert results[0].status.is_stored, results
        self.figures.add("T", 1)
        return made

    def end(self, half: StoredMessage, *, is_written: bool = True) -> None:
        self.ops.add(half.queue_offset)
        if is_written:
            self.ops.write()

    def round(self, after_s: float = 0.0) -> list[StoredMessage]:
        """The copies that producers are asked about."""
        self.clock.advance(after_s)
        walk = CheckRound(self.tools, self.at, self.before)
        asked = [copy for step in walk.steps() for copy in step]
        self.at = walk.progress
        return asked

    def all(self, topic: str) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while records := self.store.read(topic, 0, len(found), 1000, None).records:
            found += decode_records(b"".join(records))
        return found


@contextmanager
def started(clock: FakeClock, files: FileSystem | None = None, **settings: str) -> Iterator[Scene]:
    with tables(clock, files, **settings) as made:
        yield Scene(made)


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with started(clock) as made:
        yield made


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [found.body for found in messages]


def test_half_message_is_parked_with_its_real_place(scene: Scene) -> None:
    """S166."""
    scene.half(b"a", DELAY="3")
    (found,) = scene.all(HALF_TOPIC)
    assert (found.topic, found.queue_id, found.sys_flag) == (HALF_TOPIC, 0, 0)
    assert (found.properties["REAL_TOPIC"], found.properties["REAL_QID"]) == ("T", "1")
    assert found.properties["__transactionId__"] == b"a".hex()
    assert not scene.store.max_offset("T", 1)


def test_young_one_is_not_asked_for_and_an_older_one_is(scene: Scene) -> None:
    """S171."""
    scene.half(b"a")
    assert not scene.round(6.0)
    assert scene.at == Progress(0, 0)
    (copy,) = scene.round(0.001)
    assert copy.body == b"a"
    assert (copy.queue_offset, copy.flag) == (1, 7)
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert scene.at == Progress(1, 0)
    assert scene.store.message_at(copy.log_offset) == copy


def test_round_ends_at_the_first_that_is_too_young(scene: Scene) -> None:
    scene.half(b"old")
    scene.clock.advance(6)
    scene.half(b"young")
    assert bodies(scene.round(1)) == [b"old"]
    assert scene.at.half == 1
    assert bodies(scene.round(30)) == [b"young", b"old"]


@pytest.mark.parametrize("is_written", [True, False])
def test_what_has_ended_is_passed_by(scene: Scene, is_written: bool) -> None:
    """S168. An end that is not even written yet counts, too."""
    first, _, third = scene.half(b"a"), scene.half(b"b"), scene.half(b"c")
    scene.end(first, is_written=is_written)
    scene.end(third, is_written=is_written)
    assert bodies(scene.round(7)) == [b"b"]
    assert scene.at == Progress(3, 2 if is_written else 0)
    scene.ops.write()
    assert bodies(scene.round(30)) == [b"b"]
    assert scene.at.op == scene.store.max_offset(OP_HALF_TOPIC, 0)


def test_op_message_stays_to_be_read_while_it_names_one_that_is_ahead(scene: Scene) -> None:
    first, _ = scene.half(b"a"), scene.half(b"b")
    scene.clock.advance(7)
    third = scene.half(b"c")
    fourth = scene.half(b"d")
    for half in (first, third):
        scene.ops.add(half.queue_offset)
    scene.ops.write()
    scene.end(fourth)
    assert bodies(scene.round()) == [b"b"]
    assert scene.at == Progress(4, 2), "those that ended are passed by, young or not"


def test_op_messages_are_those_of_apache(scene: Scene) -> None:
    """Many offsets in one, each with a comma; a tag, and one property besides."""
    for number in range(3):
        scene.end(scene.half(bytes([number])), is_written=False)
    assert not scene.all(OP_HALF_TOPIC)
    scene.due.pop()()
    (op,) = scene.all(OP_HALF_TOPIC)
    assert (op.body, op.properties, op.sys_flag) == (b"0,1,2,", {"WAIT": "true", "TAGS": "d"}, 0)
    assert op.born_host == op.store_host == scene.store.store_host
    assert not scene.due


def test_op_message_is_written_when_it_is_long(clock: FakeClock) -> None:
    with started(clock, transactionOpMsgMaxSize="10") as scene:
        for offset in range(100, 105):
            scene.ops.add(offset)
        assert [op.body for op in scene.all(OP_HALF_TOPIC)] == [b"100,101,102,"]
        assert 104 in scene.ops
        assert 102 not in scene.ops


def test_op_message_is_written_before_no_more_ends_can_be_noted(clock: FakeClock) -> None:
    """With large settings 20,000 ends within the interval made the broker refuse all others."""
    with started(clock, transactionOpMsgMaxSize="1048576", transactionOpBatchInterval="3600000") as scene:
        for offset in range(19_999):
            scene.ops.add(offset)
        assert not scene.all(OP_HALF_TOPIC)
        scene.ops.add(19_999)
        assert not scene.ops.is_full
        assert len(ended_in("d", scene.all(OP_HALF_TOPIC)[0].body)) == 20_000


def test_op_messages_of_old_brokers_are_read(scene: Scene) -> None:
    """One offset without a comma; what is no number, or has another tag, ends nothing."""
    for body in (b"a", b"b", b"c"):
        scene.half(body)
    for body, tag in ((b"1", "d"), (b"no,,-5,99999999999999999999,", "d"), (b"2", "x")):
        scene.store.append(message(OP_HALF_TOPIC, body, TAGS=tag))
    assert bodies(scene.round(7)) == [b"a", b"c"]
    assert scene.at.op == 3


def test_after_so_many_questions_it_is_given_up(clock: FakeClock) -> None:
    """S172: as often as `transactionCheckMax` says, which is 15 times unless it is set."""
    with started(clock) as scene:
        scene.half(b"a", TAGS="A")
        times = [[copy.properties["TRANSACTION_CHECK_TIMES"] for copy in scene.round(30)] for _ in range(17)]
        assert times == [[f"{number}"] for number in range(1, 16)] + [[], []]
        (found,) = scene.all(TRANS_CHECK_MAX_TIME_TOPIC)
        assert (found.body, found.tag, found.flag) == (b"a", "A", 7)
        assert found.properties["REAL_TOPIC"] == "T"
        assert scene.figures.counts() == {"T": 0}
        assert scene.tables.topics.get(TRANS_CHECK_MAX_TIME_TOPIC) is not None


def test_one_older_than_the_store_keeps_messages_is_given_up(scene: Scene) -> None:
    scene.half(b"a")
    assert not scene.round(72 * 3600 + 1)
    assert bodies(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == [b"a"]


def test_log_that_may_go_at_any_time_lets_producers_be_asked(clock: FakeClock) -> None:
    """With fileReservedTime=0 each that was open was given up with the first round, however young it was."""
    with started(clock, fileReservedTime="0") as scene:
        scene.half(b"old", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        scene.clock.advance(20)
        scene.half(b"young")
        assert not scene.round(1)
        assert bodies(scene.round(6)) == [b"young"]
        assert not scene.all(TRANS_CHECK_MAX_TIME_TOPIC)
        scene.round(3600)
        assert bodies(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == [b"old"]


def test_one_that_is_taken_up_again_is_asked_for_however_old_it_is(scene: Scene) -> None:
    """An administrator who comes after the week-end had it given up again at once, and nobody was asked."""
    scene.half(b"a")
    scene.round(72 * 3600 + 1)
    scene.store.append(half_messages.resumed(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)[0]))
    assert bodies(scene.round(30)) == [b"a"]
    assert bodies(scene.round(30)) == [b"a"]
    assert len(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


@pytest.mark.parametrize("ahead_h", [-100, 100])
def test_nobody_is_put_off_for_longer_than_the_store_keeps_messages(scene: Scene, ahead_h: int) -> None:
    """One taken up again that wants never to be asked, and one of a clock that is days ahead, were stored anew in each
    round, and for ever."""
    ahead_ms = ahead_h * 3_600_000
    scene.half(b"a", ahead_ms=ahead_ms, CHECK_IMMUNITY_TIME_IN_SECONDS="9999999999")
    if ahead_h < 0:
        assert not scene.round()
        scene.store.append(half_messages.resumed(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)[0]))
    for times in range(1, 16):
        (copy,) = scene.round(30)
        assert copy.properties["TRANSACTION_CHECK_TIMES"] == str(times)
    assert not scene.round(30)
    assert bodies(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == [b"a"] * (2 if ahead_h < 0 else 1)


def test_half_message_without_a_real_topic_stops_nobody(scene: Scene) -> None:
    scene.store.append(message(HALF_TOPIC, b"poison"))
    scene.half(b"a")
    assert bodies(scene.round(7)) == [b"a"]
    assert bodies(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == [b"poison"]


def test_half_message_that_belongs_among_half_messages_stops_nobody(scene: Scene) -> None:
    """Apache's broker loses one with a delay so. Each commit of it made one more, which was asked for again."""
    scene.store.append(message(HALF_TOPIC, b"poison", PGROUP="g", REAL_TOPIC=HALF_TOPIC, REAL_QID="0"))
    scene.half(b"a")
    assert bodies(scene.round(7)) == [b"a"]
    assert bodies(scene.all(TRANS_CHECK_MAX_TIME_TOPIC)) == [b"poison"]


def test_place_without_a_half_message_is_passed_by(scene: Scene) -> None:
    """A queue has units for what its log lacks; they lead to the log's beginning, where any message may be: it was
    stored once more in its own topic, in each round."""
    scene.store.append(message("T", b"plain", REAL_TOPIC="T", REAL_QID="1"))
    scene.half(b"a")
    queue = scene.store.queues.make(HALF_TOPIC, 0)
    assert isinstance(queue, ConsumeQueue)
    queue.end_at(3, None)
    scene.half(b"b")
    assert bodies(scene.round(7)) == [b"a", b"b"]
    assert scene.store.max_offset("T", 0) == 1


def test_batch_in_one_record_that_apache_took_for_half_stops_nobody(scene: Scene) -> None:
    """It need not say of how many messages it is, and the broker ended with the first round."""
    properties = {"REAL_TOPIC": "T", "REAL_QID": "0", "PGROUP": "g", "TRAN_MSG": "true"}
    queue = scene.store.queues.make(HALF_TOPIC, 0)
    with scene.store.batch() as writer:
        flags, born_ms = NEED_UNWRAP | INNER_BATCH, scene.clock.wall_ms()
        writer.add(queue, b"batch", encode_properties(properties), 0, b"", bytes(8), flags, born_ms, 0, 0)
    scene.half(b"a")
    assert bodies(scene.round(7)) == [b"batch", b"a"]
    assert bodies(scene.round(7)) == [b"batch", b"a"]


def test_immunity_puts_questions_off_and_counts_none(scene: Scene) -> None:
    """S173: and 15 rounds in which it is put off do not discard it."""
    scene.half(b"a", CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    scene.half(b"b", CHECK_IMMUNITY_TIME_IN_SECONDS="-1")
    scene.half(b"c", CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    assert bodies(scene.round(30)) == [b"b", b"c"]
    scene.end(scene.all(HALF_TOPIC)[-2])
    scene.end(scene.all(HALF_TOPIC)[-1])
    for _ in range(19):
        assert not scene.round(30)
    (copy,) = scene.round(30)
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert copy.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"


@pytest.mark.parametrize("is_written", [True, False])
def test_one_that_was_put_off_ends_with_its_first_offset(scene: Scene, is_written: bool) -> None:
    """A producer knows no other."""
    first = scene.half(b"a", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    assert not scene.round(30)
    scene.end(first, is_written=is_written)
    for _ in range(3):
        assert not scene.round(29)
    assert len(scene.all(HALF_TOPIC)) == 2


def test_one_born_in_the_future_is_asked_for(scene: Scene) -> None:
    scene.half(b"a", ahead_ms=3_600_000)
    assert bodies(scene.round()) == [b"a"]


def test_store_that_is_full_ends_the_round_and_loses_nothing(scene: Scene) -> None:
    for body in (b"a", b"b", b"c"):
        scene.half(body)
    append, taken = scene.store.append_whole, list[StoredMessage]()

    def one_only(message: StoredMessage) -> object:
        if taken:
            raise StoreFullError("no room")
        taken.append(message)
        return append(message)

    with patch.object(scene.store, "append_whole", one_only):
        assert bodies(scene.round(7)) == [b"a"]
    assert scene.at.half == 1
    assert bodies(scene.round()) == [b"b", b"c", b"a"]


def test_half_message_does_not_bring_the_checks_of_another_message(scene: Scene) -> None:
    """Who sends on what was committed once, with all its properties, had it given up after the first round."""
    scene.end(scene.half(b"a"))
    scene.half(b"b", TRANSACTION_CHECK_TIMES="15", TRAN_PREPARED_QUEUE_OFFSET="0", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    assert not scene.round(59)
    (copy,) = scene.round(2)
    assert (copy.body, copy.properties["TRANSACTION_CHECK_TIMES"]) == (b"b", "1")


def test_end_that_is_written_and_not_flushed_counts(clock: FakeClock) -> None:
    """With SYNC_FLUSH its op message is not there to be read yet, and the producer was asked in vain."""
    with started(clock, flushDiskType="SYNC_FLUSH") as scene:
        half = message("T", b"a", queue_id=1, PGROUP="g", TRAN_MSG="true")
        scene.put.put_half(half, lambda _: None)
        flush(scene.store)
        scene.end(half)
        assert half.queue_offset in scene.ops
        assert not scene.round(7)
        flush(scene.store)
        assert half.queue_offset not in scene.ops
        scene.round()
        assert scene.store.max_offset(HALF_TOPIC, 0) == 1


def test_ends_that_can_be_read_are_not_kept_until_somebody_asks(clock: FakeClock) -> None:
    """They piled up between two rounds of checks, which may be days."""
    with started(clock, transactionOpMsgMaxSize="1") as scene:
        for offset in range(2000):
            scene.ops.add(offset)
        tracemalloc.start()
        for offset in range(2000, 12_000):
            scene.ops.add(offset)
        kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, op_messages.__file__)])
        tracemalloc.stop()
        assert sum(trace.size for trace in kept.traces) < 20_000


def test_ends_that_cannot_be_written_are_not_tried_all_the_time(clock: FakeClock) -> None:
    """A full disk and `transactionOpBatchInterval=0` kept the loop busy with nothing else."""
    with started(clock, transactionOpBatchInterval="0") as scene:
        half = scene.half(b"a")
        with patch.object(scene.store, "append_whole", side_effect=StoreFullError("no room")):
            scene.end(half, is_written=False)
            assert scene.waits_s == [0.0]
            scene.due.pop()()
            assert scene.waits_s == [0.0, 1.0]
        scene.due.pop()()
        assert half.queue_offset not in scene.ops


def test_ends_that_cannot_be_written_wait(scene: Scene) -> None:
    half = scene.half(b"a")
    with patch.object(scene.store, "append_whole", side_effect=StoreFullError("no room")):
        scene.end(half)
        assert half.queue_offset in scene.ops
        scene.due.pop()()
    assert len(scene.due) == 1
    scene.due.pop()()
    assert half.queue_offset not in scene.ops
    assert bodies(scene.all(OP_HALF_TOPIC)) == [b"0,"]


def test_many_are_looked_at_in_steps(scene: Scene) -> None:
    """No step makes more than 16 copies, or looks at more than a few hundred that have ended."""
    for number in range(1000):
        half = scene.half(number.to_bytes(2, "big"))
        if number % 2:
            scene.end(half, is_written=False)
    scene.ops.write()
    scene.clock.advance(7)
    walk = CheckRound(scene.tools, scene.at, scene.before)
    steps = list(walk.steps())
    assert sum(map(len, steps)) == 500
    assert max(map(len, steps)) <= 16
    assert walk.progress == Progress(1000, scene.store.max_offset(OP_HALF_TOPIC, 0))


def test_large_messages_are_copied_a_few_in_a_step(clock: FakeClock) -> None:
    with started(clock, mappedFileSizeCommitLog=str(64 * 2**20)) as scene:
        for number in range(6):
            scene.half(bytes([number]) * 3_000_000)
        scene.clock.advance(7)
        assert max(map(len, CheckRound(scene.tools, scene.at, scene.before).steps())) <= 2


def test_offsets_beyond_the_queues_are_corrected(scene: Scene) -> None:
    """A power cut may have taken what they stood for."""
    scene.half(b"a")
    scene.at = Progress(0, 50)
    assert bodies(scene.round(7)) == [b"a"]
    assert scene.at == Progress(1, 0)


def test_figures_survive(clock: FakeClock) -> None:
    with started(clock) as scene:
        assert scene.figures.begin_save() is None
        scene.half(b"a")
        scene.figures.add("gone", 1)
        scene.figures.add("gone", -2)
        scene.figures.save()
        data = scene.tables.files.read_file(PATH)
        assert data is not None
        assert data.startswith(b'{"dataVersion":{')
        assert b'"transactionCount":{"T":{"count":1,"timeStamp":' in data
        again = TransactionFigures(scene.tables.files, PATH, clock, lambda _: True)
        assert again.counts() == {"T": 1}
        assert again.begin_save() is None


def test_figures_that_nobody_can_read_begin_anew_and_stop_no_start(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with started(clock) as scene:
        for name in (PATH, PATH.with_name(f"{PATH.name}.bak")):
            scene.tables.files.write_file(name, b'{"transactionCount":{"T":')
        again = TransactionFigures(scene.tables.files, PATH, clock, lambda _: True)
        assert again.counts() == {}
        assert "figures of half messages cannot be read" in caplog.text
        again.add("T", 1)
        again.save()
        assert TransactionFigures(scene.tables.files, PATH, clock, lambda _: True).counts() == {"T": 1}


def test_figures_of_many_topics_are_saved_in_steps(clock: FakeClock) -> None:
    with started(clock) as scene:
        for number in range(2000):
            scene.figures.add(f"t{number}", 1)
        job = scene.figures.begin_save()
        assert job is not None
        assert sum(1 for _ in job.steps()) > 2000 // 128
