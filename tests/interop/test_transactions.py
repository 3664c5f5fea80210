"""Transactions across: Java's and Go's producers with our broker, ours with Apache's, all in one group; and a store
with open transactions that goes from one broker to the other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketline import Message, PullConsumer, ReceivedMessage, TransactionProducer, TransactionState
from rocketline.cli.commands import rocketline
from rocketline.testing import setting_up
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.clients import ClientProgram, go_client, java_client
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from support.clients.clusters import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
TOPIC = "Transacted"
QUICK = {
    "transactionTimeOut": "2500",  # Apache notes an end up to a second later
    "transactionCheckInterval": "1000",
    "transactionOpBatchInterval": "200",
    "transactionCheckMax": "1000",
    "mappedFileSizeCommitLog": str(1 << 20),
}
PATIENCE_S = 40.0


@dataclass(frozen=True, slots=True)
class Place:
    """A name server, and a broker with a topic of one queue."""

    name_server: str
    broker: str

    def create(self, topic: str) -> None:
        setting_up.create_topic(self.name_server, (self.broker,), topic, queues=1)

    def delivered(self, count: int, topic: str = TOPIC) -> set[str]:
        """The bodies in the topic, once there are so many: one may be there twice, as a producer is asked about each
        copy that a broker has not seen the end of."""
        with PullConsumer(self.name_server, group="TOOLS_CONSUMER") as consumer:
            (queue,) = consumer.queues(topic)
            found: list[ReceivedMessage] = []
            due_s = time.monotonic() + PATIENCE_S
            while len({message.body for message in found}) < count and time.monotonic() < due_s:
                found += consumer.pull(queue, len(found)).messages
                time.sleep(0.1)
            return {message.body.decode() for message in found}

    def producer(self, group: str, check: Callable[[ReceivedMessage], TransactionState]) -> TransactionProducer:
        return TransactionProducer(self.name_server, group=group, check=check, send_timeout_s=20, topics=(TOPIC,))


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServerProcess]:
    with NameServerProcess(tmp_path_factory.mktemp("name-server")) as process:
        yield process


@pytest.fixture(scope="module")
def ours(name_server: NameServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("ours")
    with BrokerProcess(home, name_servers=(name_server.address,), settings=QUICK) as broker:
        yield Place(name_server.address, broker.address)


@pytest.fixture(scope="module", params=["java", "go"])
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, release: Release
) -> ClientProgram:
    home = tmp_path_factory.mktemp(request.param)
    return java_client(release, home) if request.param == "java" else go_client(home)


def test_foreign_producer_makes_transactions_with_our_broker(ours: Place, foreign: ClientProgram) -> None:
    """S166–S168, S171: committed, rolled back, and both by the answer to a question."""
    topic = f"{TOPIC}-{foreign.name}"
    ours.create(topic)
    wanted = ("a:commit:unknown", "b:rollback:unknown", "c:unknown:commit", "d:unknown:rollback", "e:commit:unknown")
    checked = foreign.transact(ours.name_server, topic, f"{foreign.name}-alone", *wanted, checks=2)
    assert set(checked) == {"c", "d"}
    assert ours.delivered(3, topic) == {"a", "c", "e"}


def test_foreign_producer_and_ours_answer_for_each_other(ours: Place, foreign: ClientProgram) -> None:
    """S174, with our broker: whoever of the group is there is asked."""
    topic, group = f"{TOPIC}-{foreign.name}-both", f"{foreign.name}-both"
    ours.create(topic)
    _take_turns(ours, foreign, topic, group)


def _take_turns(place: Place, foreign: ClientProgram, topic: str, group: str) -> None:
    with (
        place.producer(group, lambda _: UNKNOWN) as producer,
        producer.transaction(Message(topic, b"of ours")) as transaction,
    ):
        transaction.leave_open()
    checked = foreign.transact(place.name_server, topic, group, "plain:commit:commit", "of ours:none:commit", checks=1)
    assert set(checked) == {"of ours"}
    assert place.delivered(2, topic) == {"of ours", "plain"}
    foreign.transact(place.name_server, topic, group, "of theirs:unknown:unknown", checks=0)
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body)
        return COMMIT

    with place.producer(group, check) as producer:
        producer.send(Message(topic, b"hello"))
        assert place.delivered(4, topic) == {"of ours", "plain", "hello", "of theirs"}
    assert asked[0] == b"of theirs"


@pytest.mark.thorough
def test_foreign_producer_and_ours_answer_for_each_other_with_apaches_broker(
    release: Release, foreign: ClientProgram, tmp_path: Path
) -> None:
    with (
        NameServerProcess(tmp_path / "names") as names,
        ApacheBroker(release, tmp_path / "broker", name_servers=(names.address,), settings=QUICK) as broker,
    ):
        place, topic = Place(names.address, broker.address), f"{TOPIC}-{foreign.name}-apache"
        place.create(topic)
        _take_turns(place, foreign, topic, f"{foreign.name}-apache")


def test_transaction_that_apaches_broker_gave_up_is_listed_and_taken_up_again(release: Release, tmp_path: Path) -> None:
    """S172: by our commands, as they do it with our own broker."""
    settings = {**QUICK, "transactionCheckMax": "2"}
    state = UNKNOWN

    def rows(*arguments: str) -> list[tuple[str, int]]:
        told = command("list", "--json", *arguments)
        return [(row["message_id"], row["checks"]) for row in map(json.loads, told.splitlines())]

    def command(*arguments: str) -> str:
        result = CliRunner(env={"NAMESRV_ADDR": names.address}).invoke(rocketline, ["transaction", *arguments])
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    with (
        NameServerProcess(tmp_path / "names") as names,
        ApacheBroker(release, tmp_path / "broker", name_servers=(names.address,), settings=settings) as broker,
    ):
        place = Place(names.address, broker.address)
        place.create(TOPIC)
        with place.producer("shop", lambda _: state) as producer:
            with producer.transaction(Message(TOPIC, b"one")) as transaction:
                assert rows() == [(transaction.transaction_id, 0)]
                transaction.leave_open()
            wait_until(lambda: rows("--given-up"), PATIENCE_S)
            assert rows("--given-up") == [(transaction.transaction_id, 2)]
            state = COMMIT
            assert command("resume", transaction.transaction_id) == f"{transaction.transaction_id} is asked for again\n"
            assert place.delivered(1) == {"one"}


@pytest.fixture(params=["ours first", "apache first"])
def pair(
    request: pytest.FixtureRequest, release: Release, tmp_path: Path
) -> tuple[Path, NameServerProcess, Callable[[], ServerProcess], Callable[[], ServerProcess]]:
    port = free_port()
    names = NameServerProcess(tmp_path / "names")

    def own() -> ServerProcess:
        return BrokerProcess(tmp_path, name_servers=(names.address,), port=port, settings=QUICK)

    def apache() -> ServerProcess:
        return ApacheBroker(release, tmp_path, name_servers=(names.address,), port=port, settings=QUICK)

    return (tmp_path, names, own, apache) if request.param == "ours first" else (tmp_path, names, apache, own)


def wait_until_kept(home: Path) -> None:
    """Ours writes the table of topics within a minute, from its journal, which Apache's broker does not read."""
    table = home / "store" / "config" / "topics.json"
    while not (table.exists() and TOPIC in table.read_text("utf-8")):
        time.sleep(0.1)


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.thorough_with(end="killed")
@pytest.mark.thorough_with(pair="apache first")
def test_open_transactions_go_on_in_the_other_broker(
    pair: tuple[Path, NameServerProcess, Callable[[], ServerProcess], Callable[[], ServerProcess]], end: str
) -> None:
    """One broker asks a few times and ends; the other goes on asking, with the number of questions, and what has ended
    under the one is not asked for by the other. Then it goes back.

    After a kill more may be asked for: how far checks are is saved every few seconds."""
    home, names, first, second = pair
    decisions = {"done": COMMIT, "gone": ROLLBACK}
    asked: list[tuple[str, int]] = []
    answered: list[tuple[str, TransactionState]] = []

    def check(message: ReceivedMessage) -> TransactionState:
        body = message.body.decode()
        asked.append((body, int(message.properties["TRANSACTION_CHECK_TIMES"])))
        state = decisions.get(body, UNKNOWN)
        answered.append((body, state))
        return state

    def asked_often(body: str, times: int) -> None:
        due_s = time.monotonic() + PATIENCE_S
        while not any(name == body and count >= times for name, count in asked):
            assert time.monotonic() < due_s, asked
            time.sleep(0.1)

    with names:
        with first() as process:
            place = Place(names.address, process.address)
            place.create(TOPIC)
            with place.producer("movers", check) as producer:
                with producer.transaction(Message(TOPIC, b"done")):
                    pass
                for body in ("one", "two", "three"):
                    with producer.transaction(Message(TOPIC, body.encode(), properties={"own": body})) as open_one:
                        open_one.leave_open()
                with producer.transaction(Message(TOPIC, b"gone")) as dropped:
                    dropped.rollback()
                for body in ("one", "two", "three"):  # Apache's broker asks in several threads: in any order
                    asked_often(body, 2)
                assert place.delivered(1) == {"done"}
                time.sleep(1.0)  # for ends to be noted: those that a kill takes are asked for again
                if end == "killed":
                    wait_until_kept(home)
                process.close(timeout_s=60) if end == "stopped" else process.kill()
        before = {name: max(times for body, times in asked if body == name) for name, _ in asked}
        asked.clear()
        with second() as process, place.producer("movers", check) as producer:
            producer.send(Message(TOPIC, b"hello"))
            for body in ("one", "two", "three"):
                asked_often(body, before[body] + 1)
            assert end == "killed" or "gone" not in dict(asked)
            decisions["one"] = COMMIT
            assert place.delivered(3) == {"done", "hello", "one"}
            decisions["two"] = ROLLBACK
            process.wait_until(lambda: ("two", ROLLBACK) in answered, "answering that two is over")
            time.sleep(1.5)
            process.close(timeout_s=60) if end == "stopped" else process.kill()
        asked.clear()
        with first(), place.producer("movers", check) as producer:
            decisions["three"] = COMMIT
            producer.send(Message(TOPIC, b"again"))
            assert place.delivered(5) == {"again", "done", "hello", "one", "three"}
            assert end == "killed" or {name for name, _ in asked} == {"three"}
