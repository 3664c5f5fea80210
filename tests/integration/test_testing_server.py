"""`rocketline.testing.Server`, its clock and its faults, seen through plain requests."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rocketline import Admin, Producer, PullConsumer, SimpleConsumer
from rocketline.clock import SystemClock
from rocketline.errors import ConfigError, ResponseError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.route import TopicRouteData
from rocketline.testing import Server
from rocketline.testing.exchange import Exchange, ask
from rocketline.wire import bodies, headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetMinOffsetRequestHeader, GetRouteInfoRequestHeader, SendMessageRequestHeaderV2
from rocketline.wire.properties import encode_properties
from support.brokers.pops import pop
from support.brokers.questions import BrokerQuestions

SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(brokers=2) as server:
        server.create_topic("t", queues=1)
        yield server


@pytest.fixture
def broker(server: Server) -> Iterator[BrokerQuestions]:
    with BrokerQuestions(server.broker_addresses[0]) as broker:
        yield broker
    server.faults.clear()


def send_of(body: bytes, **properties: str) -> Command:
    header = SendMessageRequestHeaderV2(
        producer_group="g",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=encode_properties(properties).decode(),
    )
    return Command(SEND, headers.encode(header), body)


def stored(broker: BrokerQuestions, since: int) -> list[bytes]:
    return [message.body for message in broker.queue("t", 0)][since:]


def route(server: Server, topic: str) -> TopicRouteData:
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    answer = ask(server.address, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.encode(header)))
    return bodies.decode(TopicRouteData, answer.body)


def test_a_topic_is_found_on_every_broker(server: Server) -> None:
    found = route(server, "t")
    assert {data.broker_addrs[0] for data in found.broker_datas} == set(server.broker_addresses)
    assert [data.write_queue_nums for data in found.queue_datas] == [1, 1]


def test_a_topic_that_brokers_refuse_is_an_error_of_its_kind(server: Server) -> None:
    with pytest.raises(ResponseError, match="UPDATE_AND_CREATE_TOPIC at"):
        server.create_topic("a b")


def test_an_hour_passes_at_once_and_delayed_messages_are_there(server: Server, broker: BrokerQuestions) -> None:
    before = len(stored(broker, 0))
    broker.ask(send_of(b"late", DELAY="17"))  # an hour
    server.advance(3599)
    assert stored(broker, before) == []
    server.advance(1)
    assert stored(broker, before) == [b"late"]


def test_messages_of_three_days_ago_are_gone() -> None:
    # Only what is flushed is deleted.
    settings = {"mappedFileSizeCommitLog": "65536", "deleteWhen": "04", "flushDiskType": "SYNC_FLUSH"}
    with Server(settings=settings) as server:
        server.create_topic("t", queues=1)
        with BrokerQuestions(server.broker_addresses[0]) as broker:
            for _ in range(3):
                broker.ask(send_of(bytes(60_000)))
            server.advance(72 * 3600 + 60)
            header = headers.encode(GetMinOffsetRequestHeader(topic="t", queue_id=0))
            assert broker.ask(Command(RequestCode.GET_MIN_OFFSET, header)).ext["offset"] == "2"


@pytest.mark.parametrize("is_merged", [False, True])
def test_popped_messages_come_again_by_the_hour_that_is_turned(is_merged: bool) -> None:
    """They are there when `advance` returns: the one that was neither acknowledged nor extended."""
    settings = {"enablePopBufferMerge": str(is_merged).lower(), "reviveInterval": "3600000"}
    with Server(settings=settings) as server, SimpleConsumer(server.address, group="workers") as worker:
        server.create_topic("t", queues=1)
        worker.subscribe("t")
        with Producer(server.address, group="g") as producer:
            for body in (b"done", b"lost", b"kept"):
                producer.send(Message("t", body))
        done, _, kept = worker.receive(3, 3600)
        worker.ack(done)
        worker.extend(kept, 7200)
        server.advance(3601)
        assert worker.receive(wait_s=0) == []
        for turned_s, body in ((3, b"lost"), (3600, b"kept")):
            server.advance(turned_s)
            (again,) = worker.receive(3, 7200, wait_s=0)
            assert (again.body, again.attempt) == (body, 2)


def test_queue_popped_in_order_opens_by_the_hour_that_is_turned(server: Server) -> None:
    server.create_topic("in-order", queues=1)
    with Producer(server.address, group="g") as producer:
        queue = MessageQueue("in-order", "broker-a", 0)
        producer.send(Message("in-order", b"1"), queue=queue)
    with BrokerQuestions(server.broker_addresses[0]) as broker:
        popping = pop(topic="in-order", invisible_ms=3_600_000, order="true")
        assert [broker.ask(popping).code for _ in range(2)] == [0, 210]
        server.advance(3600)
        assert broker.ask(popping).code == 0


def test_trace_of_clients_with_the_clock_tells_the_hour_that_was_turned() -> None:
    with Server() as server, Admin(server.address) as admin:
        with Producer(server.address, group="g", trace=True, clock=server.clock) as producer:
            producer.send(Message("t", b"1"))
            server.advance(3600)
            late = producer.send(Message("t", b"2"))
        sent = admin.messages.trace(late.message_id).events[0]
        assert sent.at_ms is not None
        assert sent.at_ms - SystemClock().wall_ms() > 3_590_000


def test_the_nth_request_of_a_code_is_refused_and_no_other(server: Server, broker: BrokerQuestions) -> None:
    before = len(stored(broker, 0))
    fault = server.faults.refuse(SEND, 2, "busy", nth=2, times=2)
    answers = [broker.ask(send_of(b"%d" % number)) for number in range(4)]
    assert [(answer.code, answer.remark) for answer in answers] == [(0, None), (2, "busy"), (2, "busy"), (0, None)]
    assert fault.is_over
    assert stored(broker, before) == [b"0", b"3"]


def test_a_delayed_request_is_answered_later(server: Server, broker: BrokerQuestions) -> None:
    server.faults.delay(SEND, 0.2)
    begin = time.monotonic()
    assert broker.ask(send_of(b"x")).code == 0
    assert time.monotonic() - begin > 0.199  # the loop's timers count whole milliseconds


def test_a_connection_that_drops_after_the_append_has_stored_the_message(
    server: Server, broker: BrokerQuestions
) -> None:
    before = len(stored(broker, 0))
    server.faults.drop_after(SEND)
    with pytest.raises(ConnectionError):
        broker.ask(send_of(b"stored"))
    server.faults.drop_before(SEND)
    with Exchange(broker.address) as second, pytest.raises(ConnectionError):
        second.ask(send_of(b"not stored"))
    with BrokerQuestions(broker.address) as third:
        assert stored(third, before) == [b"stored"]


def test_a_flush_timeout_is_told_and_the_message_stored(server: Server, broker: BrokerQuestions) -> None:
    before = len(stored(broker, 0))
    server.faults.flush_timeout()
    answer = broker.ask(send_of(b"x"))
    assert (answer.code, int(answer.ext["queueOffset"])) == (10, before)
    assert stored(broker, before) == [b"x"]


def test_a_duplicate_is_stored_twice_and_answered_once(server: Server, broker: BrokerQuestions) -> None:
    before = len(stored(broker, 0))
    server.faults.duplicate()
    assert int(broker.ask(send_of(b"x")).ext["queueOffset"]) == before + 1
    assert broker.ask(send_of(b"y")).code == 0
    assert stored(broker, before) == [b"x", b"x", b"y"]


def test_an_ignored_request_is_never_answered(server: Server, broker: BrokerQuestions) -> None:
    server.faults.ignore(SEND)
    with Exchange(broker.address, timeout_s=0.1) as impatient, pytest.raises(TimeoutError):
        impatient.ask(send_of(b"x"))


def test_a_stale_route_stays_until_faults_are_cleared(server: Server) -> None:
    server.create_topic("moving", queues=1)
    server.faults.stale_route("moving")
    assert [data.write_queue_nums for data in route(server, "moving").queue_datas] == [1, 1]
    with BrokerQuestions(server.broker_addresses[0]) as broker:
        broker.create_topic("moving", queues=2)
    assert [data.write_queue_nums for data in route(server, "moving").queue_datas] == [1, 1]
    server.faults.clear()
    server.create_topic("moving", queues=2)
    assert [data.write_queue_nums for data in route(server, "moving").queue_datas] == [2, 2]


def test_without_faults_the_hot_path_serves_again(server: Server, broker: BrokerQuestions) -> None:
    server.faults.refuse(SEND, 1)
    broker.ask(send_of(b"x"))
    assert broker.send(Message("t", b"y"), 0).queue_offset == len(stored(broker, 0)) - 1


def test_a_folder_keeps_messages_for_the_next_server(tmp_path: Path) -> None:
    for number in range(2):
        with Server(folder=tmp_path) as server:
            server.create_topic("t", queues=1)
            with BrokerQuestions(server.broker_addresses[0]) as broker:
                assert int(broker.ask(send_of(b"x")).ext["queueOffset"]) == number


def test_a_child_process_serves_can_be_paused_and_says_what_it_cannot_do() -> None:
    with Server(process=True, brokers=2) as server:
        server.create_topic("t", queues=1)
        assert len(route(server, "t").broker_datas) == 2
        with pytest.raises(ConfigError, match="leave out process=True"):
            server.advance(1)
        server.process.pause()
        with Exchange(server.address, timeout_s=0.1) as asking, pytest.raises(TimeoutError):
            asking.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        server.process.resume()
    with pytest.raises(ConfigError, match="does not run"):
        _ = server.address


def test_wrong_settings_are_an_error_of_the_start(server: Server) -> None:
    with pytest.raises(ConfigError, match="flushDiskType"):
        Server(settings={"flushDiskType": "SOMETIMES"}).start()
    with pytest.raises(ConfigError, match=r"Server\(process=True\)"):
        _ = server.process
    with pytest.raises(ConfigError, match="1 to 26"):
        Server(brokers=0)
    with pytest.raises(ConfigError, match="runs already"):
        server.start()


def test_a_server_that_nobody_closes_ends_with_its_process_in_silence() -> None:
    program = "from rocketline.testing import Server; print(Server().start().address)"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("127.0.0.1:")


def test_groups_are_made_on_every_broker(server: Server) -> None:
    server.create_group("g", retry_max_times=3)
    for address in server.broker_addresses:
        with BrokerQuestions(address) as broker:
            assert broker.group("g").retry_max_times == 3
            assert "%RETRY%g" in broker.topics()


def test_a_server_is_there_in_less_than_a_second() -> None:
    """Must hold 7 of the clients. What it imports is imported by now; a first start takes half a second more."""
    begin_s = time.monotonic()
    with Server() as server:
        assert server.address
        assert time.monotonic() - begin_s < 1


@pytest.mark.parametrize("days", [3, 10])
def test_messages_come_within_a_step_after_their_moment_when_time_is_turned(days: int) -> None:
    """S149, on the virtual clock: by three days, and by ten with the limit raised, which is beyond the wheel."""
    moments_s = [1, 3600, 30 * 3600, 47 * 3600, 49 * 3600, days * 86_400 - 7200, days * 86_400 - 60]
    with (
        Server(settings={"timerMaxDelaySec": str(days * 86_400)}) as server,
        Producer(server.address, group="calendar") as producer,
        PullConsumer(server.address, group="look") as consumer,
    ):
        server.create_topic("timed", queues=1)
        begin_ms = server.clock.wall_ms()
        moments = [datetime.fromtimestamp(begin_ms / 1000 + seconds, UTC) for seconds in moments_s]
        queue = producer.send(Message("timed", b"0", deliver_at=moments[0])).queue
        for number, moment in enumerate(moments[1:], 1):
            producer.send(Message("timed", b"%d" % number, deliver_at=moment))
        for number, seconds in enumerate(moments_s):
            left_s = seconds - (server.clock.wall_ms() - begin_ms) / 1000
            if left_s > 30:
                server.advance(left_s - 30)
                assert consumer.max_offset(queue) == number
            server.advance(max(0.0, seconds - (server.clock.wall_ms() - begin_ms) / 1000) + 1)
            assert consumer.max_offset(queue) == number + 1
        found = consumer.pull(queue, 0).messages
        assert [int(message.body) for message in found] == list(range(len(moments)))
        for message, moment in zip(found, moments, strict=True):
            assert message.store_ms >= moment.timestamp() * 1000
