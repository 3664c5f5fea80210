"""Must hold 4 of the broker: Apache's opens our store directory and goes on with it, and ours opens Apache's.

One broker fills a directory and ends, in good order or by `kill -9`. The other one must hold the same, write on, and
hand it back to the first.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rocketline import Message as ClientMessage
from rocketline import ReceivedMessage, TransactionProducer, TransactionState
from rocketline.clock import SystemClock
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.ids import LogOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from rocketline.wire.pop_handles import PopHandle
from support.brokers.connections import consumer, heartbeat
from support.brokers.pops import about, bodies, handles, pop
from support.brokers.pulls import pull
from support.brokers.questions import BrokerQuestions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

TOPIC, DELAYED, LONG = "Orders", "Delayed", "t" * 127
GROUP = "readers"
QUEUES = 4
MESSAGES = 400
MORE = 40
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 20),  # several files, each with a blank record at its end
    "mappedFileSizeConsumeQueue": str(20 * 50),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "600",  # several index files
    "fileReservedTime": "720",
}

Start = Callable[[], ServerProcess]


def numbered(topic: str, number: int) -> Message:
    """Bodies of 10 B to 16 KB; a unique key, keys and a tag of its own, and a property beyond ASCII."""
    properties = {
        "UNIQ_KEY": f"{number:032X}",
        "KEYS": f"k{number} seven{number % 7}",
        "TAGS": f"tag{number % 3}",
        "shop": "Zürich ☃",
    }
    return Message.of(topic, f"{number:010}".encode() * (1 + number % 8 * 200), properties)


@dataclass(frozen=True, slots=True)
class Held:
    """Everything that can be asked of what a broker holds."""

    queues: dict[tuple[str, int], list[StoredMessage]]
    by_key: dict[str, list[LogOffset]]
    """Log offsets, by index type and key."""
    committed: list[int]
    topics: dict[str, TopicConfig]
    group: SubscriptionGroupConfig

    @property
    def messages(self) -> list[StoredMessage]:
        return [message for queue in self.queues.values() for message in queue]


def look(broker: BrokerQuestions) -> Held:
    places = [(TOPIC, queue_id) for queue_id in range(QUEUES)] + [(LONG, 0)]
    queues = {place: broker.queue(*place) for place in places}
    keys = [("K", f"k{number}") for number in range(0, MESSAGES, 10)] + [("K", "seven3"), ("T", "tag2")]
    keys += [("U", f"{number:032X}") for number in range(5, MESSAGES, 10)]
    by_key = {
        f"{kind} {key}": [message.log_offset for message in broker.by_key(TOPIC, key, kind)] for kind, key in keys
    }
    committed = [broker.committed(GROUP, TOPIC, queue_id) for queue_id in range(QUEUES)]
    topics = {name: config for name, config in broker.topics().items() if name in (TOPIC, DELAYED, LONG)}
    return Held(queues, by_key, committed, topics, broker.group(GROUP))


def fill(broker: BrokerQuestions) -> None:
    broker.create_topic(TOPIC, queues=QUEUES)
    broker.create_topic(DELAYED, queues=1)
    broker.create_group(GROUP, retry_max_times=5)
    for number in range(MESSAGES):
        broker.send(numbered(TOPIC, number), number % QUEUES)
    for number in range(20):
        broker.send(numbered(LONG, number), 0)  # comes into being by this
    for queue_id in range(QUEUES):
        broker.commit(GROUP, TOPIC, queue_id, 10 + queue_id)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def filled_queue(broker: BrokerQuestions, count: int) -> list[StoredMessage]:
    """The first queue, once it has so many: Apache's broker puts a message there a moment after its answer."""
    wait_until(lambda: len(broker.queue(TOPIC, 0)) >= count)
    return broker.queue(TOPIC, 0)


def wait_until_kept(broker: BrokerQuestions, home: Path) -> None:
    """Apache's broker derives the index a moment later, and both write offsets down every five seconds."""
    file = home / "store" / "config" / "consumerOffset.json"
    expected = re.compile(rf'"{TOPIC}@{GROUP}":\{{"?0"?:10,"?1"?:11,"?2"?:12,"?3"?:13\}}')
    wait_until(lambda: bool(broker.by_key(LONG, "k19")))
    wait_until(lambda: file.exists() and expected.search(re.sub(r"\s", "", file.read_text("utf-8"))) is not None)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two brokers for one directory, on the same port; never both at once."""

    home: Path
    first: Start
    second: Start


@pytest.fixture(params=["ours first", "apache first"])
def pair(request: pytest.FixtureRequest, release: Release, tmp_path: Path) -> Pair:
    return pair_of(request.param, release, tmp_path, SETTINGS)


def pair_of(which: str, release: Release, home: Path, settings: dict[str, str], names: tuple[str, ...] = ()) -> Pair:
    port = free_port()

    def ours() -> ServerProcess:
        return BrokerProcess(home, name_servers=names, port=port, settings=settings)

    def apache() -> ServerProcess:
        return ApacheBroker(release, home, name_servers=names, port=port, settings=settings)

    return Pair(home, *((ours, apache) if which == "ours first" else (apache, ours)))


@contextmanager
def served(start: Start) -> Iterator[tuple[ServerProcess, BrokerQuestions]]:
    with start() as process, BrokerQuestions(process.address, timeout_s=20) as broker:
        yield process, broker


@pytest.mark.thorough_with(pair="ours first", end="stopped")
@pytest.mark.thorough_with(pair="apache first", end="killed")
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_store_of_one_broker_is_served_and_continued_by_the_other(pair: Pair, end: str) -> None:
    with served(pair.first) as (process, broker):
        fill(broker)
        wait_until_kept(broker, pair.home)
        before = look(broker)
        pending = Message.of(DELAYED, b"later", {"DELAY": "3", "UNIQ_KEY": "F" * 32})
        broker.send(pending, 0)
        process.close(timeout_s=60) if end == "stopped" else process.kill()
    assert len(before.messages) == MESSAGES + 20

    with served(pair.second) as (process, broker):
        assert look(broker) == before
        for message in before.messages:
            assert broker.by_log_offset(message.log_offset) == message
        for number in range(MESSAGES, MESSAGES + MORE):
            sent = broker.send(numbered(TOPIC, number), 0)
            assert sent.queue_offset == MESSAGES // QUEUES + number - MESSAGES
        wait_until(lambda: bool(broker.by_key(TOPIC, f"k{MESSAGES + MORE - 1}")))
        wait_until(lambda: len(broker.queue(DELAYED, 0)) > 0)
        after = look(broker)
        delayed = broker.queue(DELAYED, 0)
        process.close(timeout_s=60)
    assert after.queues == {**before.queues, (TOPIC, 0): after.queues[TOPIC, 0]}
    assert after.queues[TOPIC, 0][:-MORE] == before.queues[TOPIC, 0]
    assert [message.body for message in delayed] == [b"later"]

    with served(pair.first) as (_, broker):
        assert look(broker) == after
        assert broker.queue(DELAYED, 0) == delayed
        assert broker.send(numbered(TOPIC, 1000), 0).queue_offset == MESSAGES // QUEUES + MORE


def unused_files(home: Path, last: StoredMessage) -> list[str]:
    """Files of the log that begin behind the last message."""
    return [path.name for path in (home / "store" / "commitlog").iterdir() if int(path.name) > last.log_offset]


@pytest.mark.thorough
def test_file_that_one_broker_made_ahead_when_it_was_killed_does_not_disturb_the_other(pair: Pair) -> None:
    body = bytes(range(256)) * 64
    with served(pair.first) as (process, broker):
        broker.create_topic(TOPIC, queues=1)
        count = int(SETTINGS["mappedFileSizeCommitLog"]) // len(body) - 2
        for _ in range(count):
            broker.send(Message.of(TOPIC, body), 0)
        before = filled_queue(broker, count)
        wait_until(lambda: bool(unused_files(pair.home, before[-1])))
        table = pair.home / "store" / "config" / "topics.json"  # ours writes it within a minute, from its journal
        wait_until(lambda: table.exists() and TOPIC in table.read_text("utf-8"))
        process.kill()
    [unused] = unused_files(pair.home, before[-1])
    assert not any((pair.home / "store" / "commitlog" / unused).read_bytes())

    for start in (pair.second, pair.first):
        with served(start) as (process, broker):
            assert broker.queue(TOPIC, 0) == before
            for number in range(80):  # beyond the end of the file
                assert broker.send(Message.of(TOPIC, body), 0).queue_offset == len(before) + number
            before = filled_queue(broker, len(before) + 80)
            process.kill()
    with served(pair.second) as (process, broker):
        assert broker.queue(TOPIC, 0) == before
        process.close(timeout_s=60)
    assert unused_files(pair.home, before[-1]) == []


TIMED = {
    **SETTINGS,
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "timerFlushIntervalMs": "500",
    "flushCommitLogThoroughInterval": "500",
    "flushConsumerOffsetInterval": "500",
    "popFromRetryProbability": "0",
    "transactionTimeOut": "2500",  # Apache notes an end up to a second later
    "transactionCheckInterval": "1000",
    "transactionOpBatchInterval": "200",
    "transactionCheckMax": "1000",
}
TIMERS, OPEN, POPPED = "Timers", "Open", "Popped"
EARLY, LATE = (2, 3, 4), (60, 61, 62, 63)
"""Seconds from the start: before the first broker ends, and when the second one is there, however busy the machine."""
INVISIBLE_S = 60
WANTED = "price > 5"


@dataclass
class Work:
    """What is under way in a broker: timers, transactions, pops, and a filter."""

    names: str
    begin_ms: int = 0
    handles: dict[int, str] = field(default_factory=dict)
    popped: list[PopHandle] = field(default_factory=list)
    decisions: dict[str, TransactionState] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Bodies, each with the number of the question."""

    def producer(self) -> TransactionProducer:
        return TransactionProducer(self.names, group="movers", check=self._check, send_timeout_s=20, topics=(OPEN,))

    def _check(self, message: ReceivedMessage) -> TransactionState:
        body = message.body.decode()
        self.asked.append((body, int(message.properties["TRANSACTION_CHECK_TIMES"])))
        return self.decisions.get(body, TransactionState.UNKNOWN)

    def was_asked(self, body: str, times: int) -> bool:
        return any(name == body and count >= times for name, count in self.asked)

    def begin(self, broker: BrokerQuestions) -> None:
        self.begin_ms = SystemClock().wall_ms()
        for seconds in (*EARLY, *LATE):
            properties = {"TIMER_DELIVER_MS": str(self.begin_ms + 1000 * seconds), "UNIQ_KEY": f"{seconds:032X}"}
            sent = broker.send(Message.of(TIMERS, b"%d" % seconds, properties), 0)
            self.handles[seconds] = sent.recall_handle or ""
        for number in range(6):
            broker.send(Message.of(POPPED, b"%d" % number, {"UNIQ_KEY": f"P{number}", "price": f"{number * 2}"}), 0)
        self.recall(broker, LATE[0])
        wait_until(lambda: len(broker.queue(POPPED, 0)) == 6)
        self.popped = handles(self.pop(broker, maxMsgNums="4"))
        self.acknowledge(broker, self.popped[0])
        with self.producer() as producer:
            with producer.transaction(ClientMessage(OPEN, b"done")):
                pass
            for body in (b"one", b"two"):
                with producer.transaction(ClientMessage(OPEN, body)) as left:
                    left.leave_open()
            with producer.transaction(ClientMessage(OPEN, b"gone")) as dropped:
                dropped.rollback()
            wait_until(lambda: self.was_asked("one", 1) and self.was_asked("two", 1))
            time.sleep(1)  # for ends to be noted: those that a kill takes are asked for again

    def recall(self, broker: BrokerQuestions, seconds: int) -> None:
        ext = {"topic": TIMERS, "recallHandle": self.handles[seconds], "producerGroup": "p"}
        assert broker.ask(Command(RequestCode.RECALL_MESSAGE, ext)).code == ResponseCode.SUCCESS

    def pop(self, broker: BrokerQuestions, **fields: str) -> Command:
        own = {"topic": POPPED, "invisibleTime": str(INVISIBLE_S * 1000), "bornTime": str(SystemClock().wall_ms())}
        return broker.ask(Command(RequestCode.POP_MESSAGE, pop().ext | own | fields))

    def acknowledge(self, broker: BrokerQuestions, handle: PopHandle) -> None:
        answer = broker.ask(Command(RequestCode.ACK_MESSAGE, about(handle, POPPED, "g")))
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def come_again(self, broker: BrokerQuestions, found: list[bytes]) -> bool:
        answer = self.pop(broker)
        if answer.code == ResponseCode.SUCCESS:
            found += bodies(answer)
            for handle in handles(answer):
                self.acknowledge(broker, handle)
        return len(found) == 2

    def punctual(self, broker: BrokerQuestions, wanted: Sequence[int]) -> None:
        """These were delivered, each at its time."""
        found = broker.queue(TIMERS, 0)
        assert [int(message.body) for message in found] == list(wanted)
        for message in found:
            assert 0 <= message.store_ms - self.begin_ms - 1000 * int(message.body) <= 3000


def create_topics(start: Start) -> None:
    """In a life before all others: ours writes the table within a minute, or when it stops, and may be killed then."""
    with served(start) as (process, broker):
        for topic in (TIMERS, OPEN, POPPED):
            broker.create_topic(topic, queues=1)
        process.close(timeout_s=60)


def subscribe(broker: BrokerQuestions, version: int) -> None:
    """A consumer by SQL joins."""
    said = SubscriptionData(POPPED, WANTED, sub_version=version, expression_type="SQL92")
    answer = broker.ask(heartbeat("c", consumer("filtering", said)))
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def filtered(broker: BrokerQuestions) -> list[bytes]:
    """What the group gets for a pull that brings no expression."""
    answer = broker.ask(pull(flags=0, consumerGroup="filtering", topic=POPPED, expressionType="SQL92"))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [message.body for message in decode_records(answer.body)]


def kept_filter(home: Path) -> dict[str, Any]:
    tables = json.loads((home / "store" / "config" / "consumerFilter.json").read_text("utf-8"))
    kept = tables["filterDataByTopic"][POPPED]["groupFilterData"]["filtering"]
    return {name: kept[name] for name in ("expression", "bornTime", "bloomFilterData", "expressionType")}


def ended(process: ServerProcess, home: Path, end: str) -> None:
    """How far all is has been written down, and the broker is gone."""
    if end == "killed":
        wait_until((home / "store" / "config" / "consumerFilter.json").exists)
        time.sleep(12)  # Apache's broker writes down first after ten seconds how far groups are
    process.close(timeout_s=60) if end == "stopped" else process.kill()


@pytest.mark.timeout(300, func_only=True)
@pytest.mark.thorough_with(end="stopped")
@pytest.mark.thorough_with(which="apache first")
@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("which", ["ours first", "apache first"])
def test_all_that_is_under_way_goes_on_in_the_other_broker(
    release: Release, tmp_path: Path, which: str, end: str
) -> None:
    """S155, S172, S190, S242: timers, open transactions, pops and a filter, in one folder and at the same time; and
    back again."""
    with NameServerProcess(tmp_path / "names") as names:
        pair = pair_of(which, release, tmp_path, TIMED, (names.address,))
        work = Work(names.address)
        create_topics(pair.first)
        with served(pair.first) as (process, broker):
            work.begin(broker)
            subscribe(broker, 1)
            assert filtered(broker) == [b"3", b"4", b"5"]
            wait_until(lambda: len(broker.queue(TIMERS, 0)) == len(EARLY))
            assert [message.body for message in broker.queue(OPEN, 0)] == [b"done"]
            ended(process, pair.home, end)
        kept = kept_filter(pair.home)
        before = dict(sorted(work.asked))
        work.asked.clear()

        with served(pair.second) as (process, broker), work.producer() as producer:
            producer.send(ClientMessage(OPEN, b"hello"))
            wait_until(lambda: work.pop(broker, topic="Nobody").code == ResponseCode.TOPIC_NOT_EXIST)  # a JVM warms up
            rest: list[bytes] = []
            assert work.come_again(broker, rest)
            assert rest == [b"4", b"5"]
            work.acknowledge(broker, work.popped[1])
            work.recall(broker, LATE[-1])
            subscribe(broker, 2)
            assert filtered(broker) == [b"3", b"4", b"5"]
            assert SystemClock().wall_ms() < work.begin_ms + 1000 * LATE[0], "the machine was too busy to tell anything"
            wait_until(lambda: work.was_asked("one", before["one"] + 1))
            work.decisions["one"] = TransactionState.COMMIT
            wait_until(lambda: len({message.body for message in broker.queue(OPEN, 0)}) == 3)
            again: list[bytes] = []
            wait_until(lambda: work.come_again(broker, again))
            assert sorted(again) == [b"2", b"3"]
            wait_until(lambda: len(broker.queue(TIMERS, 0)) == len(EARLY) + len(LATE) - 2)
            time.sleep(1.5)  # for the end of one to be noted
            process.close(timeout_s=60)
        assert kept_filter(pair.home) == kept
        work.asked.clear()

        with served(pair.first) as (_, broker), work.producer() as producer:
            work.punctual(broker, (*EARLY, *LATE[1:-1]))
            producer.send(ClientMessage(OPEN, b"again"))
            work.decisions["two"] = TransactionState.COMMIT
            wait_until(lambda: {b"two", b"again"} <= {message.body for message in broker.queue(OPEN, 0)})
            found = {message.body for message in broker.queue(OPEN, 0)}
            assert found == {b"done", b"hello", b"one", b"again", b"two"}
            assert end == "killed" or {name for name, _ in work.asked} == {"two"}
