"""Peers that misbehave, against the name server as a process of its own: it keeps answering, and stays small.

Must hold 3 of the foundation: garbage at the port, huge lengths, half frames, TLS to a plain port, a thousand connects
and drops. And the two bounds of the network layer: many idle connections, and a peer that asks and never reads.
"""

from __future__ import annotations

import random
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.testing.name_server import NameServerProcess
from rocketline.wire import frame
from rocketline.wire.bodies import RegisterBrokerBody, encode_register_body
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import RegisterBrokerRequestHeader, encode

pytestmark = pytest.mark.timeout(90)

MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NameServerProcess]:
    with NameServerProcess(tmp_path) as process:
        yield process


def dial(server: NameServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def read_frame(sock: socket.socket) -> Command:
    with sock.makefile("rb") as stream:
        size = stream.read(4)
        return frame.decode(size + stream.read(int.from_bytes(size, "big")))


def assert_answers(server: NameServerProcess) -> float:
    """One request on a fresh connection; how long it took."""
    began = time.perf_counter()
    with dial(server) as sock:
        sock.sendall(frame.encode(Command(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=7)))
        answer = read_frame(sock)
    assert (answer.code, answer.opaque) == (0, 7)
    return time.perf_counter() - began


def resident_bytes(server: NameServerProcess) -> int:
    return int(psutil.Process(server.pid).memory_info().rss)


def assert_dropped(sock: socket.socket) -> None:
    """The server hangs up; with bytes of ours unread that is a reset."""
    with suppress(ConnectionError):
        assert sock.recv(65536) == b""


def garbage(seed: int) -> list[bytes]:
    """What nobody should send: noise, absurd lengths, broken headers, half frames, other protocols."""
    noise = random.Random(seed)
    good = frame.encode(Command(105, {"topic": "T"}, opaque=1))
    broken = bytearray(good)
    broken[12] ^= 0xFF
    return [
        noise.randbytes(noise.randint(1, 4096)),
        b"\x7f\xff\xff\xff" + noise.randbytes(64),
        b"\xff" * 64,
        b"\x00\x00\x00\x00" * 8,
        b"\x00\x00\x00\x08\x00\xff\xff\xff" + noise.randbytes(64),
        b"\x00\x00\x00\x10\x09\x00\x00\x04" + noise.randbytes(64),
        bytes(broken),
        b"\x00\x00\x00\x14\x01\x00\x00\x10" + noise.randbytes(16),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PROXY NONSENSE\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise.randbytes(64),
        good[: noise.randint(1, len(good) - 1)],
    ]


def test_garbage_leaves_the_server_answering_small_and_nearly_silent(server: NameServerProcess) -> None:
    for seed in range(5):
        _throw_garbage(server, seed)  # so that memory has found its level
    before = resident_bytes(server)
    began = time.monotonic()
    for seed in range(5, 105):
        _throw_garbage(server, seed)
        if seed % 20 == 0:
            assert_answers(server)
    seconds = time.monotonic() - began
    assert_answers(server)
    assert resident_bytes(server) - before < MIB
    server.close()
    lines = [line for line in server.output.read_text("utf-8").splitlines() if "peer dropped" in line]
    assert lines, "misbehaviour is worth a line"
    assert len(lines) <= seconds + 8, "one line per second and cause, and one at the end"
    assert any("suppressed=" in line for line in lines), "what was held back is counted"
    assert "Traceback" not in server.output.read_text("utf-8")


def _throw_garbage(server: NameServerProcess, seed: int) -> None:
    for data in garbage(seed):
        with dial(server) as sock, suppress(ConnectionError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            assert_dropped(sock)


def test_tls_hello_at_a_server_without_a_certificate_is_dropped(server: NameServerProcess) -> None:
    context = ssl.create_default_context()
    with dial(server) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(sock, server_hostname="localhost")
    assert_answers(server)


def test_a_thousand_connects_and_drops_leave_nothing_behind(server: NameServerProcess) -> None:
    assert_answers(server)
    before, descriptors = resident_bytes(server), psutil.Process(server.pid).num_fds()
    for number in range(1000):
        sock = dial(server)
        if number % 2:  # half of them with a reset
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        sock.close()
    assert_answers(server)
    _wait_for_descriptors(server, descriptors)
    assert resident_bytes(server) - before < 4 * MIB


def _wait_for_descriptors(server: NameServerProcess, expected: int) -> None:
    """The last closes reach the server when its loop next turns."""
    server.wait_until(lambda: psutil.Process(server.pid).num_fds() <= expected, "rid of its connections", timeout_s=10)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_more_connections_than_file_descriptors_fill_no_log_and_are_survived(tmp_path: Path, loop: str) -> None:
    with NameServerProcess(tmp_path, environment={"ROCKETLINE_LOOP": loop}) as server:
        assert_answers(server)
        descriptors = psutil.Process(server.pid).num_fds()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 64))
        began = time.monotonic()
        with ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(dial(server))
            server.wait_until(lambda: psutil.Process(server.pid).num_fds() > 60, "short of descriptors", timeout_s=10)
        # Until the server has noticed that its peers are gone, uvloop closes whoever comes.
        _wait_for_descriptors(server, descriptors)
        assert_answers(server)
        seconds = time.monotonic() - began
        server.close()
    lines = [line for line in server.output.read_text("utf-8").splitlines() if "out of system resource" in line]
    assert len(lines) <= seconds + 2


def test_announced_lengths_cost_only_what_was_sent(server: NameServerProcess) -> None:
    before = resident_bytes(server)
    with ExitStack() as stack:
        for _ in range(200):
            sock = stack.enter_context(dial(server))
            sock.sendall((16 * MIB - 4).to_bytes(4, "big") + b"\x00\x00\x10\x00" + bytes(1024))
        assert_answers(server)
        assert resident_bytes(server) - before < 8 * MIB, "200 frames of 16 MiB announced, 1 KiB of each sent"


def test_five_thousand_idle_connections_stay_under_150_mb_and_a_request_under_100_ms(server: NameServerProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 6000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8000), hard))
    with ExitStack() as stack:
        for _ in range(5000):
            stack.enter_context(dial(server))
        took = min(assert_answers(server) for _ in range(5))
        assert psutil.Process(server.pid).num_fds() > 5000
        assert resident_bytes(server) < 150 * 1_000_000
        # A bound that the issue sets for a quiet machine; the best of five tells the server from its neighbours.
        assert took < 0.1


def test_peer_that_asks_for_100_mb_and_reads_nothing_costs_under_10_mb(server: NameServerProcess) -> None:
    with dial(server) as broker, dial(server) as greedy:
        broker.sendall(_registration(topics=1000))
        assert read_frame(broker).code == 0
        ask = frame.encode(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        with dial(server) as sock:
            sock.sendall(ask)
            answer_bytes = len(read_frame(sock).body)
        assert answer_bytes > 100_000
        before = resident_bytes(server)
        greedy.setblocking(False)
        flood = ask * (100 * MIB // answer_bytes + 1)
        _send_what_it_takes(greedy, flood)
        for _ in range(10):
            assert_answers(server)
        assert resident_bytes(server) - before < 10 * 1_000_000


def _send_what_it_takes(sock: socket.socket, data: bytes) -> None:
    """Push until the server has stopped reading for a while."""
    view, waits = memoryview(data), 0
    while view and waits < 20:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            waits += 1
            time.sleep(0.05)


def _registration(*, topics: int) -> bytes:
    names = [
        f"{'a-topic-with-a-rather-long-name-so-that-the-list-is-long-':.<110}{n:05}".replace(".", "-")
        for n in range(topics)
    ]
    table = {name: TopicConfig(name) for name in names}
    body = encode_register_body(
        RegisterBrokerBody(TopicConfigTable(data_version=DataVersion(1, 0, 1), topic_config_table=table)),
        compressed=False,
    )
    header = RegisterBrokerRequestHeader(
        broker_name="broker-a",
        broker_addr="127.0.0.1:10911",
        cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
    )
    return frame.encode(Command(RequestCode.REGISTER_BROKER, encode(header), body))
