"""A broker that finds its files damaged, or no room for more: it says so, keeps what is good and goes on."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash import requests
from crash.ledger import PLAIN, Place, number_of
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.exchange import Exchange
from rocketline.wire.bodies import codec
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records, encode_blank

pytestmark = pytest.mark.timeout(120)

LOG_BYTES = 256 * 1024
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(LOG_BYTES),
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


class Client:
    """Sends numbered messages to one queue, and reads them back."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def send(self, number: int) -> Command:
        return self._exchange.ask(requests.send([requests.message_of(number, PLAIN)], 0, 1_700_000_000_000))

    def store(self, numbers: range) -> None:
        for number in numbers:
            answer = self.send(number)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    def stored(self) -> list[int | None]:
        found: list[int | None] = []
        while True:
            answer = self._exchange.ask(requests.pull("readers", Place(PLAIN, 0, len(found))))
            if answer.code != ResponseCode.SUCCESS:
                assert int(answer.ext["maxOffset"]) == len(found), answer.remark
                return found
            found += [number_of(message.body) for message in decode_records(answer.body, check_crc=True)]

    def ask(self, request: Command) -> Command:
        return self._exchange.ask(request)


@contextmanager
def serving(home: Path, *, is_killed: bool = True) -> Iterator[tuple[BrokerProcess, Client]]:
    """A broker on the store in `home`; it is killed at the end of the block, or stops cleanly."""
    with BrokerProcess(home, name_servers=(), settings=SETTINGS) as broker:
        with Exchange(broker.address, timeout_s=30) as exchange:
            yield broker, Client(exchange)
        if is_killed:
            broker.kill()
        assert "Traceback" not in broker.log()


def log_file(home: Path) -> Path:
    return home / "store" / "commitlog" / f"{0:020}"


def end_of_log(data: bytearray) -> tuple[int, int]:
    """Where the last record begins and ends."""
    begin = at = 0
    while size := int.from_bytes(data[at : at + 4], "big"):
        begin, at = at, at + size
    return begin, at


def torn(data: bytearray, begin: int, end: int) -> None:
    """The power went while the last record was written: of its blocks the first reached the disk."""
    data[begin + (end - begin) // 2 : end] = bytes(end - begin - (end - begin) // 2)


def headless(data: bytearray, begin: int, end: int) -> None:
    """As before, but it was the last blocks that did."""
    data[begin : begin + 64] = bytes(64)


def flipped(data: bytearray, begin: int, end: int) -> None:
    data[(begin + end) // 2] ^= 0x10


def oversized(data: bytearray, begin: int, end: int) -> None:
    """A length that goes beyond the file."""
    data[begin : begin + 4] = (0x7FFFFFFF).to_bytes(4, "big")


def blanked(data: bytearray, begin: int, end: int) -> None:
    """A blank record that does not reach to the end of the file, as nobody writes it."""
    data[begin : begin + 8] = encode_blank(end - begin)


@pytest.mark.parametrize("damage", [torn, headless, flipped, oversized, blanked])
def test_damaged_last_record_is_dropped_and_its_place_used_again(
    tmp_path: Path, damage: Callable[[bytearray, int, int], None]
) -> None:
    with serving(tmp_path) as (_, client):
        client.store(range(1, 41))
    data = bytearray(log_file(tmp_path).read_bytes())
    begin, end = end_of_log(data)
    damage(data, begin, end)
    log_file(tmp_path).write_bytes(data)
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, 40)]
        client.store(range(100, 140))
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, 40), *range(100, 140)]


def test_rubbish_behind_the_last_record_is_no_message_and_does_not_come_back(tmp_path: Path) -> None:
    """An old record's bytes behind the end would be taken for a message once the log has grown up to them."""
    with serving(tmp_path) as (_, client):
        client.store(range(1, 11))
    data = bytearray(log_file(tmp_path).read_bytes())
    begin, end = end_of_log(data)
    data[end + 16 : end + 16 + end - begin] = data[begin:end]
    data[-64:] = b"\xda" * 64
    log_file(tmp_path).write_bytes(data)
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, 11)]
        client.store(range(20, 30))
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, 11), *range(20, 30)]


def topics_of(client: Client) -> set[str]:
    body = client.ask(Command(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    return set(codec.decode(TopicConfigTable, body).topic_config_table)


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_truncated_table_is_replaced_by_the_good_one_beside_it_and_the_journals(
    tmp_path: Path, name: str, share: float
) -> None:
    with serving(tmp_path, is_killed=False) as (_, client):
        for topic in ("first", PLAIN):
            assert client.ask(requests.create_topic(topic, 1)).code == ResponseCode.SUCCESS
            client.ask(requests.pull(f"group-{topic}", Place(topic, 0, 0)))
        client.store(range(1, 6))
    with serving(tmp_path, is_killed=False) as (_, client):
        client.ask(requests.create_topic("second", 1))
        client.ask(requests.pull("group-second", Place("second", 0, 0)))
    with serving(tmp_path) as (_, client):
        client.ask(requests.create_topic("last", 1))
        client.ask(requests.pull("group-last", Place("last", 0, 0)))
    path = tmp_path / "store" / "config" / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with serving(tmp_path) as (broker, client):
        groups = client.ask(Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        assert {"first", PLAIN, "second", "last"} <= topics_of(client)
        assert all(group in groups for group in (b'"group-first"', b'"group-second"', b'"group-last"'))
        assert client.stored() == [*range(1, 6)]
        assert (".bak" in broker.log()) == (share > 0)
        assert client.ask(requests.create_topic("new", 1)).code == ResponseCode.SUCCESS
    with serving(tmp_path) as (_, client):
        assert {"first", PLAIN, "second", "last", "new"} <= topics_of(client)


def test_table_without_any_good_copy_stops_the_start_with_one_line_that_names_it(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, client):
        for topic in ("first", "last"):
            client.ask(requests.create_topic(topic, 1))
    path = tmp_path / "store" / "config" / "topics.json"
    for damaged in (path, path.with_name("topics.json.bak")):
        damaged.write_bytes(b'{"topicConfigTable":{"first":')
    broker = BrokerProcess(
        tmp_path / "again", name_servers=(), settings={**SETTINGS, "storePathRootDir": f"{tmp_path}/store"}
    )
    try:
        broker.wait_until(lambda: not broker.is_running, "ended")
    finally:
        status = broker.close()
    assert status == 1
    assert "topics.json.bak" in broker.log()
    assert "Traceback" not in broker.log()


def fill_up(broker: BrokerProcess, client: Client, file_bytes_max: int) -> tuple[int, str | None]:
    """Let the process write no file beyond `file_bytes_max`, and send until a message is refused: which, and why."""
    client.store(range(1, 11))  # so that the first file exists, at its full length
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (file_bytes_max, resource.RLIM_INFINITY))
    for number in range(11, 5_000):
        answer = client.send(number)
        if answer.code != ResponseCode.SUCCESS:
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer.remark
            return number, answer.remark
    raise AssertionError("the limit was never met")


def make_room(broker: BrokerProcess) -> None:
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_no_room_for_the_next_log_file_refuses_sends_until_there_is_some(tmp_path: Path) -> None:
    with serving(tmp_path) as (broker, client):
        number, remark = fill_up(broker, client, LOG_BYTES - 1)
        assert "no new log file can be made" in (remark or "")
        assert client.send(number).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert client.stored() == [*range(1, number)], "who reads is not disturbed"
        make_room(broker)
        client.store(range(number, number + 50))
        assert client.stored() == [*range(1, number + 50)]
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, number + 50)]


def test_write_that_fails_makes_the_store_read_only_until_the_next_start(tmp_path: Path) -> None:
    """Nobody knows what is behind the last good record then; a start looks."""
    with serving(tmp_path) as (broker, client):
        number, remark = fill_up(broker, client, LOG_BYTES // 2)
        assert "read-only: writing to the log failed" in (remark or "")
        make_room(broker)
        assert client.send(number).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert client.stored() == [*range(1, number)], "who reads is not disturbed"
    with serving(tmp_path) as (_, client):
        assert client.stored() == [*range(1, number)]
        client.store(range(number, number + 50))
        assert client.stored() == [*range(1, number + 50)]
