"""Topics with `queue.type=BatchCQ`: both brokers store and answer the same, and each opens the other's queues."""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline.model.message import Message
from rocketline.store.queues.batch_consume_queue import BATCH_UNIT_BYTES
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.clients import Portion, java_client
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from rocketline.wire import headers
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    CreateTopicRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    PullMessageRequestHeader,
    SearchOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from rocketline.wire.headers.fields import Header
from rocketline.wire.message_codec import decode_records
from rocketline.wire.properties import encode_properties
from support.brokers.questions import BrokerQuestions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

TOPIC = "Batches"
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mapperFileSizeBatchConsumeQueue": str(BATCH_UNIT_BYTES * 10),  # several files
    "fileReservedTime": "720",
}


def create(broker: BrokerQuestions, topic: str = TOPIC) -> None:
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        attributes="+queue.type=BatchCQ",
    )
    broker.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def send_batch(
    broker: BrokerQuestions, first: int, count: int, properties: dict[str, str], sys_flag: int = 0
) -> Command:
    messages = [
        Message.of(TOPIC, f"m{number}".encode(), {"UNIQ_KEY": f"{number:032X}", "TAGS": "a", "KEYS": f"k{number}"})
        for number in range(first, first + count)
    ]
    return send_raw(broker, encode_batch(messages), properties, sys_flag, is_batch=True)


def send_raw(
    broker: BrokerQuestions, body: bytes, properties: dict[str, str], sys_flag: int = 0, *, is_batch: bool
) -> Command:
    header = SendMessageRequestHeaderV2(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=3,
        properties=encode_properties(properties).decode(),
        batch=is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return broker.ask(Command(code, headers.encode(header), body))


def send_everything(broker: BrokerQuestions) -> Iterator[Command]:
    """Inner batches of one and of many, batches that stay apart for want of a key, single messages, and refusals."""
    yield send_batch(broker, 0, 3, {"UNIQ_KEY": "FIRST", "WAIT": "true"})
    yield send_raw(broker, b"single", {"UNIQ_KEY": "S" * 32, "TAGS": "a", "KEYS": "one"}, is_batch=False)
    yield send_batch(broker, 10, 1, {"UNIQ_KEY": "ALONE", "TAGS": "a", "KEYS": "batch key"})
    yield send_batch(broker, 20, 4, {})
    yield send_batch(broker, 30, 40, {"UNIQ_KEY": "MANY", "own": "property"})
    yield send_batch(broker, 80, 2, {"UNIQ_KEY": "LATE", "DELAY": "1"})
    yield send_batch(broker, 80, 2, {"UNIQ_KEY": "CUT", "WAIT": "true"}, 0x2)
    yield send_raw(broker, b"\0\0", {"UNIQ_KEY": "TORN"}, is_batch=True)
    yield send_raw(broker, b"x", {"UNIQ_KEY": "X", "INNER_NUM": "2"}, is_batch=False)
    for number in range(100, 130):
        yield send_batch(broker, number, 1 + number % 3, {"UNIQ_KEY": f"B{number}"})
    yield send_raw(broker, b"last", {"UNIQ_KEY": "L" * 32}, is_batch=False)


def ext(answer: Command) -> tuple[int, dict[str, str]]:
    """The code, and of a stored message the fields but for its place in the log."""
    fields = answer.ext if answer.code == ResponseCode.SUCCESS else {}
    return answer.code, {name: text for name, text in fields.items() if name != "msgId"}


def pull(broker: BrokerQuestions, offset: int, expression: str = "*") -> Command:
    header = PullMessageRequestHeader(
        consumer_group="g",
        topic=TOPIC,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=expression,
        sub_version=0,
    )
    return broker.ask(Command(RequestCode.PULL_MESSAGE, headers.encode(header)))


def records(answer: Command) -> list[tuple[object, ...]]:
    """What a pull brought, but for places and times."""
    return [
        (found.body, found.properties, found.flag, found.queue_offset, found.sys_flag, found.born_ms)
        for found in decode_records(answer.body)
    ]


def units(home: Path) -> bytes:
    """The queue's files, with log offsets as they are and store times blanked."""
    folder = home / "store" / "batchconsumequeue" / TOPIC / "0"
    data = bytearray(b"".join(path.read_bytes() for path in sorted(folder.iterdir())))
    for at in range(0, len(data), BATCH_UNIT_BYTES):
        data[at + 20 : at + 28] = bytes(8)
    return bytes(data)


def bounds(broker: BrokerQuestions) -> list[str]:
    ask: list[tuple[int, Header]] = [
        (RequestCode.GET_MIN_OFFSET, GetMinOffsetRequestHeader(topic=TOPIC, queue_id=0)),
        (RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=TOPIC, queue_id=0)),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetRequestHeader(topic=TOPIC, queue_id=0, timestamp=0)),
    ]
    return [broker.request(code, header).ext["offset"] for code, header in ask]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two brokers for one directory, on the same port; never both at once."""

    home: Path
    first: Callable[[], ServerProcess]
    second: Callable[[], ServerProcess]


@contextmanager
def served(start: Callable[[], ServerProcess]) -> Iterator[tuple[ServerProcess, BrokerQuestions]]:
    with start() as process, BrokerQuestions(process.address, timeout_s=20) as broker:
        yield process, broker


def wait_for_end(broker: BrokerQuestions, end: str) -> None:
    """Apache's broker derives its queues a moment after the answer."""
    while bounds(broker)[1] != end:
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one broker answered and stored."""

    answers: list[tuple[int, dict[str, str]]]
    bounds: list[str]
    pulls: dict[tuple[str, int], tuple[int, str, list[tuple[object, ...]]]]
    by_key: dict[str, list[int]]
    units: bytes


def see(process: ServerProcess, home: Path) -> Seen:
    with process, BrokerQuestions(process.address, timeout_s=20) as broker:
        create(broker)
        answers = [ext(answer) for answer in send_everything(broker)]
        wait_for_end(broker, str(int(answers[-1][1]["queueOffset"]) + 1))
        pulls = {}
        for expression in ("*", "a", "b"):
            for offset in range(int(bounds(broker)[1]) + 3):
                answer = pull(broker, offset, expression)
                pulls[expression, offset] = answer.code, answer.ext["nextBeginOffset"], records(answer)
        kinds = [("U", "FIRST"), ("K", "one"), ("K", "batch"), ("K", "k1"), ("K", "k21"), ("T", "a"), ("U", "B110")]
        by_key = {
            kind + key: [int(found.queue_offset) for found in broker.by_key(TOPIC, key, kind)] for kind, key in kinds
        }
        ends = bounds(broker)
        process.close(timeout_s=60)
    return Seen(answers, ends, pulls, by_key, units(home))


def test_both_brokers_store_and_answer_the_same(release: Release, tmp_path: Path) -> None:
    theirs_home, ours_home = tmp_path / "apache", tmp_path / "ours"
    settings = SETTINGS | {"maxTransferCountOnMessageInMemory": "32", "maxTransferBytesOnMessageInMemory": "262144"}
    theirs = see(ApacheBroker(release, theirs_home, name_servers=(), settings=settings), theirs_home)
    ours = see(BrokerProcess(ours_home, name_servers=(), settings=settings), ours_home)
    assert ours.answers == theirs.answers
    assert ours.bounds == theirs.bounds
    for asked, found in theirs.pulls.items():
        assert ours.pulls[asked] == found, asked
    assert ours.by_key == theirs.by_key
    assert ours.units == theirs.units


def contents(broker: BrokerQuestions) -> list[tuple[object, ...]]:
    """Every record of the queue, in order, however many pulls that takes."""
    found: list[tuple[object, ...]] = []
    offset, end = int(bounds(broker)[0]), int(bounds(broker)[1])
    while offset < end:
        answer = pull(broker, offset)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        found += records(answer)
        offset = int(answer.ext["nextBeginOffset"])
    return found


@pytest.fixture(params=["ours first", "apache first"])
def pair(request: pytest.FixtureRequest, release: Release, tmp_path: Path) -> Pair:
    port = free_port()

    def ours() -> ServerProcess:
        return BrokerProcess(tmp_path, name_servers=(), port=port, settings=SETTINGS)

    def apache() -> ServerProcess:
        return ApacheBroker(release, tmp_path, name_servers=(), port=port, settings=SETTINGS)

    return Pair(tmp_path, *((ours, apache) if request.param == "ours first" else (apache, ours)))


@pytest.mark.thorough_with(pair="ours first", end="stopped")
@pytest.mark.thorough_with(pair="apache first", end="killed")
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_batches_of_one_broker_are_served_and_continued_by_the_other(pair: Pair, end: str) -> None:
    with served(pair.first) as (process, broker):
        create(broker)
        *_, last = send_everything(broker)
        end_offset = int(last.ext["queueOffset"]) + 1
        wait_for_end(broker, str(end_offset))
        before = contents(broker)
        table = pair.home / "store" / "config" / "topics.json"  # ours writes it within a minute, from its journal
        while end == "killed" and not (table.exists() and TOPIC in table.read_text("utf-8")):
            time.sleep(0.05)
        process.close(timeout_s=60) if end == "stopped" else process.kill()
    with served(pair.second) as (process, broker):
        assert bounds(broker)[:2] == ["0", str(end_offset)]
        assert contents(broker) == before
        assert ext(send_batch(broker, 500, 7, {"UNIQ_KEY": "NEXT"}))[1]["queueOffset"] == str(end_offset)
        wait_for_end(broker, str(end_offset + 7))
        after = contents(broker)
        assert after[:-1] == before
        process.close(timeout_s=60) if end == "stopped" else process.kill()
    with served(pair.first) as (_, broker):
        assert contents(broker) == after
        assert ext(send_batch(broker, 600, 2, {"UNIQ_KEY": "BACK"}))[1]["queueOffset"] == str(end_offset + 7)


def test_java_client_sends_batches_and_reads_each_message_of_them(release: Release, tmp_path: Path) -> None:
    client, batches = java_client(release, tmp_path), Portion("batch", 0, 500)
    with (
        NameServerProcess(tmp_path / "names") as names,
        BrokerProcess(tmp_path / "broker", name_servers=(names.address,), settings=SETTINGS) as process,
        BrokerQuestions(process.address, timeout_s=20) as broker,
    ):
        create(broker)
        client.send(names.address, TOPIC, batches)
        stored = contents(broker)
        delivered = client.consume(names.address, TOPIC, "readers", batches.count, mode="concurrent", timeout_s=60)
    assert len(stored) < batches.count  # they are kept together
    assert {sys_flag for *_, sys_flag, _ in stored} == {0xC0}
    assert sorted(found.number for found in delivered) == list(range(batches.count))


@pytest.mark.parametrize("is_kept_together", [False, True], ids=["plain queues", "batch queues"])
def test_java_client_gathers_messages_of_many_callers(release: Release, tmp_path: Path, is_kept_together: bool) -> None:
    """C102: each caller is told where his message is, or, where a batch stays one record, where that begins."""
    client, count = java_client(release, tmp_path), 500
    with (
        NameServerProcess(tmp_path / "names") as names,
        BrokerProcess(tmp_path / "broker", name_servers=(names.address,), settings=SETTINGS) as process,
        BrokerQuestions(process.address, timeout_s=20) as broker,
    ):
        create(broker) if is_kept_together else broker.create_topic(TOPIC, queues=2)
        told = client.gather(names.address, TOPIC, count)
        delivered = client.consume(names.address, TOPIC, "readers", count, mode="concurrent", timeout_s=60)
    assert sorted(told) == list(range(count))
    found = {one.number: (one.queue_id, one.queue_offset) for one in delivered}
    assert (len(delivered), sorted(found)) == (count, list(range(count)))
    if is_kept_together:
        assert len(set(told.values())) < count  # they were gathered
        firsts = sorted(offset for _, offset in set(told.values()))
        assert all(told[number][1] == firsts[bisect(firsts, found[number][1]) - 1] for number in found)
    else:
        assert told == found
