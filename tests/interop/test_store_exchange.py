"""Must hold 4 of the broker: Apache's opens our store directory and goes on with it, and ours opens Apache's.

One broker fills a directory and ends, in good order or by `kill -9`. The other one must hold the same, write on, and
hand it back to the first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.ids import LogOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess, free_port
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
    port = free_port()

    def ours() -> ServerProcess:
        return BrokerProcess(tmp_path, name_servers=(), port=port, settings=SETTINGS)

    def apache() -> ServerProcess:
        return ApacheBroker(release, tmp_path, name_servers=(), port=port, settings=SETTINGS)

    return Pair(tmp_path, *((ours, apache) if request.param == "ours first" else (apache, ours)))


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
