"""Peers that misbehave, against a broker as a process of its own: it keeps serving, and stays small."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from rocketline.testing.broker import BrokerProcess
from rocketline.testing.exchange import Exchange
from rocketline.wire import frame
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, pull
from support.brokers.sends import send_v2

pytestmark = pytest.mark.timeout(90)

MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, name_servers=[]) as process:
        yield process
        assert process.close() == 0
        assert "Traceback" not in process.log()


def dial(server: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def resident_bytes(server: BrokerProcess) -> int:
    return int(psutil.Process(server.pid).memory_info().rss)


def send(server: BrokerProcess, topic: str, body: bytes) -> int:
    """Store a message in queue 0; its offset."""
    with Exchange(server.address, timeout_s=20) as exchange:
        answer = exchange.ask(send_v2(body, {"b": topic}))
    assert answer.code == 0, answer.remark
    return int(answer.ext["queueOffset"])


def assert_serves(server: BrokerProcess) -> None:
    """A message goes in and comes out again."""
    offset = send(server, "Canary", b"canary")
    with Exchange(server.address, timeout_s=20) as exchange:
        assert b"canary" in exchange.ask(pull(offset, topic="Canary")).body


def waiting_pulls(offset: int, count: int) -> bytes:
    """Pulls of T that wait at `offset` for ten minutes."""
    request = pull(offset, flags=SUBSCRIPTION | SUSPEND, suspendTimeoutMillis="600000")
    return frame.encode(request) * count


def push(sock: socket.socket, data: bytes) -> None:
    """Send until everything is gone or the server has stopped reading for a while."""
    sock.setblocking(False)
    view, waits = memoryview(data), 0
    while view and waits < 4:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            waits += 1
            time.sleep(0.05)


def connections(server: BrokerProcess) -> int:
    """How many the server holds, those included whose peers are gone."""
    return sum(each.status != psutil.CONN_LISTEN for each in psutil.Process(server.pid).net_connections("tcp"))


def test_pulls_that_wait_are_forgotten_with_their_connections(server: BrokerProcess) -> None:
    end = send(server, "T", b"x") + 1
    for _ in range(2):  # the second time memory must not grow again
        before = resident_bytes(server)
        with ExitStack() as stack:
            push(stack.enter_context(dial(server)), waiting_pulls(end, 4000))
            for _ in range(50):
                push(stack.enter_context(dial(server)), waiting_pulls(end, 50))
            assert_serves(server)
        server.wait_until(lambda: not connections(server), "rid of its connections", timeout_s=20)
        time.sleep(1.5)  # what waits is looked at every second, and only then forgotten
    assert resident_bytes(server) - before < 10 * MIB
    assert send(server, "T", b"wakes nobody") == end


def test_connection_with_more_pulls_than_may_wait_is_closed_once_it_is_idle(tmp_path: Path) -> None:
    """Nothing is read from it any more, so that its end is not seen before."""
    settings = {"serverChannelMaxIdleTimeSeconds": "2"}
    with BrokerProcess(tmp_path, name_servers=[], settings=settings) as server:
        end = send(server, "T", b"x") + 1
        with dial(server) as sock:
            push(sock, waiting_pulls(end, 10_000))
            assert_serves(server)
        server.wait_until(lambda: not connections(server), "rid of its connections", timeout_s=20)


def test_pullers_that_read_nothing_cost_one_answer_each(server: BrokerProcess) -> None:
    """Each asks for 8 GB in pieces of 4 MiB."""
    for _ in range(45):
        send(server, "T", bytes(100_000))
    before = resident_bytes(server)
    with ExitStack() as stack:
        for _ in range(10):
            push(stack.enter_context(dial(server)), frame.encode(pull(0, maxMsgNums="1000")) * 2000)
        assert_serves(server)
        assert resident_bytes(server) - before < 10 * 5 * MIB + 10 * MIB


def test_one_big_message_for_many_pulls_of_peers_that_read_nothing_is_not_copied_for_each(
    server: BrokerProcess,
) -> None:
    end = send(server, "T", b"x") + 1
    with ExitStack() as stack:
        for _ in range(10):
            push(stack.enter_context(dial(server)), waiting_pulls(end, 200))
        assert_serves(server)
        before = resident_bytes(server)
        send(server, "T", bytes(MIB))
        assert_serves(server)
        assert resident_bytes(server) - before < 100 * MIB, "2,000 pulls of 1 MiB waited on 10 connections"


def test_slow_frames_and_other_protocols_leave_the_broker_serving(server: BrokerProcess) -> None:
    whole = frame.encode(send_v2(b"slow"))
    with ExitStack() as stack:
        slow = [stack.enter_context(dial(server)) for _ in range(100)]
        for at in range(40):
            for sock in slow:
                sock.send(whole[at : at + 1])
        assert_serves(server)
        for sock in slow:  # slow is not wrong
            sock.sendall(whole[40:])
        assert all(sock.recv(4) for sock in slow)
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"PROXY NONSENSE\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 64,
    ):
        with dial(server) as sock, suppress(ConnectionError):
            sock.sendall(data + os.urandom(64))
            assert sock.recv(65536) == b""
    assert_serves(server)


def test_client_behind_a_balancer_is_known_by_its_own_address(server: BrokerProcess) -> None:
    with dial(server) as sock:
        sock.sendall(b"PROXY TCP4 192.0.2.7 127.0.0.1 5555 10911\r\n" + frame.encode(send_v2(b"via")))
        assert b'"code":0' in sock.recv(65536)
    with Exchange(server.address) as exchange:
        assert bytes([192, 0, 2, 7]) in exchange.ask(pull(0)).body
