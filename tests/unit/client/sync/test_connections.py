"""Blocking connections against a server of our own in another thread."""

from __future__ import annotations

import copy
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import trustme

from rocketline.client.sync import connections
from rocketline.client.sync.connections import BlockingConnections, BusyPoll
from rocketline.errors import (
    ClosedError,
    ConnectError,
    ConnectionLostError,
    RemoteProtocolError,
    RequestTimeoutError,
    ResponseError,
)
from rocketline.net.config import TlsConfig
from rocketline.net.tls import ServerTls, TlsLayer, client_context
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.server_process import free_port
from rocketline.wire import frame
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command

Say = Callable[[Command], bytes | None]


def answer(request: Command, code: int = 0, body: bytes = b"") -> bytes:
    return frame.encode(Command(code, {}, body, request.opaque, RESPONSE_FLAG))


class Server:
    """Answers each request with what `say` makes of it; None closes the connection."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.requests: list[Command] = []
        self.accepted: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        reader = frame.FrameReader()
        with connection:
            while True:
                try:
                    data = connection.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                reader.feed(data)
                while (whole := reader.take()) is not None:
                    request = frame.decode(whole)
                    self.requests.append(request)
                    if request.flag & RESPONSE_FLAG:
                        continue
                    said = self._say(request)
                    if said is None:
                        return
                    connection.sendall(said)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self.accepted:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join()


@contextmanager
def serving(say: Say = answer) -> Iterator[Server]:
    server = Server(say)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def pool() -> Iterator[BlockingConnections]:
    pool = BlockingConnections()
    yield pool
    pool.close()


def test_one_caller_uses_one_connection(pool: BlockingConnections) -> None:
    with serving() as server:
        for number in range(5):
            assert pool.request(server.address, Command(100 + number), 3).code == 0
        pool.send_oneway(server.address, Command(7), 3)
        pool.request(server.address, Command(8), 3)
    assert len(server.accepted) == 1
    assert [request.code for request in server.requests] == [100, 101, 102, 103, 104, 7, 8]
    assert server.requests[5].flag == ONEWAY_FLAG


def test_calls_at_once_have_a_connection_each(pool: BlockingConnections) -> None:
    gate = threading.Barrier(4)

    def say(request: Command) -> bytes:
        gate.wait(5)
        return answer(request, body=request.body)

    with serving(say) as server:
        heard: list[bytes] = []

        def ask(body: bytes) -> None:
            heard.append(pool.request(server.address, Command(1, {}, body), 3).body)

        threads = [threading.Thread(target=ask, args=(b"%d" % number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.accepted) == 4
    assert sorted(heard) == [b"0", b"1", b"2", b"3"]


def test_answer_in_pieces_is_put_together(pool: BlockingConnections) -> None:
    with serving(lambda request: answer(request, body=bytes(3_000_000))) as server:
        assert len(pool.request(server.address, Command(1), 3).body) == 3_000_000


def test_servers_own_requests_and_stray_answers_do_not_confuse(pool: BlockingConnections) -> None:
    def say(request: Command) -> bytes:
        asks = frame.encode(Command(40, opaque=request.opaque))
        tells = frame.encode(Command(41, opaque=9, flag=ONEWAY_FLAG))
        stray = frame.encode(Command(0, {}, b"stray", request.opaque + 1000, RESPONSE_FLAG))
        return asks + tells + stray + answer(request, body=b"mine")

    with serving(say) as server:
        assert pool.request(server.address, Command(1), 3).body == b"mine"
        assert pool.request(server.address, Command(1), 3).body == b"mine"
    refusals = [request for request in server.requests if request.flag & RESPONSE_FLAG]
    assert [refusal.code for refusal in refusals] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED] * len(refusals)
    assert refusals


def test_late_answer_goes_to_nobody(pool: BlockingConnections) -> None:
    """A connection whose answer did not come in time is closed: its next bytes belong to a call that is over."""
    silent = threading.Event()

    def say(request: Command) -> bytes:
        return b"" if not silent.is_set() else answer(request, body=b"second")

    with serving(say) as server:
        with pytest.raises(RequestTimeoutError, match=r"no answer in (1|0\.\d+) s"):  # less what connecting took
            pool.request(server.address, Command(1), 1)
        silent.set()
        assert pool.request(server.address, Command(2), 3).body == b"second"
        assert len(server.accepted) == 2


def test_sent_away_twice_is_an_error(pool: BlockingConnections) -> None:
    with serving(lambda request: answer(request, ResponseCode.GO_AWAY)) as server:
        with pytest.raises(ResponseError) as caught:
            pool.request(server.address, Command(1), 3)
        assert caught.value.code == ResponseCode.GO_AWAY
        assert len(server.accepted) == 2


def test_lost_connection_takes_the_idle_ones_with_it() -> None:
    pool = BlockingConnections(clock=FakeClock())  # time stands still, so idle ones are not looked at
    with serving(lambda request: answer(request) if request.code < 9 else None) as server:
        first, second = (pool._take(server.address, 1000.0, 3) for _ in range(2))
        pool._give_back(first)
        pool._give_back(second)
        with pytest.raises(ConnectionLostError):
            pool.request(server.address, Command(9), 3)
        pool.request(server.address, Command(1), 3)
        assert len(server.accepted) == 3
    pool.close()


def test_connection_closed_by_the_peer_meanwhile_is_not_used() -> None:
    clock = FakeClock()
    pool = BlockingConnections(clock=clock)
    with serving() as server:
        pool.request(server.address, Command(1), 3)
        server.accepted[0].shutdown(socket.SHUT_RDWR)
        clock.advance(2)
        assert pool.request(server.address, Command(2), 3).code == 0
    pool.close()


def test_idle_connection_is_closed_after_two_minutes() -> None:
    """C223."""
    clock = FakeClock()
    pool = BlockingConnections(clock=clock)
    with serving() as server:
        pool.request(server.address, Command(1), 3)
        clock.advance(119)
        pool.close_idle()
        pool.request(server.address, Command(1), 3)
        assert len(server.accepted) == 1
        clock.advance(120)
        pool.close_idle()
        pool.request(server.address, Command(1), 3)
        assert len(server.accepted) == 2
    pool.close()


def test_nobody_there_is_told(pool: BlockingConnections) -> None:
    with pytest.raises(ConnectError, match="refused"):
        pool.request(f"127.0.0.1:{free_port()}", Command(1), 3)
    with pytest.raises(RequestTimeoutError, match="no time is left"):
        pool.request("127.0.0.1:1", Command(1), 0)


def test_name_with_several_dead_addresses_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        where = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:  # so many that the next one is neither accepted nor refused
                each.setblocking(False)
                each.connect_ex(where)
            entry = (socket.AF_INET, socket.SOCK_STREAM, 0, "", where)
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: [entry] * 10)
            pool, started_s = BlockingConnections(connect_timeout_s=0.2), time.monotonic()
            with pytest.raises(ConnectError, match=r"no connection within 0\.2 s"):
                pool.request(f"127.0.0.1:{where[1]}", Command(1), 3)
            assert time.monotonic() - started_s < 1.5  # ten times 0.2 s is what each address its own time would take
        finally:
            for each in waiting:
                each.close()


def test_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch, pool: BlockingConnections) -> None:
    with serving() as server:
        port = int(server.address.rpartition(":")[2])
        entries = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", each)) for each in (free_port(), port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: entries)
        assert pool.request(server.address, Command(1), 3).code == 0


def test_resolver_that_hangs_holds_up_no_call_and_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, pool: BlockingConnections
) -> None:
    asked: list[str] = []
    goes_on, has_gone_on = threading.Event(), threading.Event()

    def hang(host: str, port: int, *, flags: int = 0, **_more: object) -> list[object]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        asked.append(host)
        goes_on.wait(5)
        has_gone_on.set()
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    for _ in range(3):
        with pytest.raises(ConnectError, match=r"no connection within 0\.05 s"):
            pool.request("slow.example:1", Command(1), 0.05)
    assert not has_gone_on.is_set(), "the calls have ended before the resolver"
    assert asked == ["slow.example"]
    goes_on.set()
    for _ in range(2):
        with pytest.raises(ConnectError, match="unknown"):
            pool.request("slow.example:1", Command(1), 3)


def test_address_of_a_kind_that_the_system_does_not_know_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, pool: BlockingConnections
) -> None:
    with serving() as server:
        where = ("127.0.0.1", int(server.address.rpartition(":")[2]))
        entries = [(family, socket.SOCK_STREAM, 0, "", where) for family in (9999, socket.AF_INET)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: entries)
        assert pool.request(server.address, Command(1), 3).code == 0


def test_peer_that_speaks_something_else_loses_its_connection(pool: BlockingConnections) -> None:
    """As on asyncio: an error that names the peer."""
    with serving(lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        with pytest.raises(ConnectionLostError, match="frame of 1213486164 bytes announced") as lost:
            pool.request(server.address, Command(1), 3)
        assert lost.value.address == server.address
    assert not any(pool._idle.values())


def test_closed_pool_takes_no_calls() -> None:
    pool = BlockingConnections()
    with serving() as server:
        pool.request(server.address, Command(1), 3)
        pool.close()
        with pytest.raises(ClosedError):
            pool.request(server.address, Command(1), 3)


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> tuple[trustme.CA, TlsConfig]:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(tmp_path / "key.pem")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        config = TlsConfig(
            server_cert_path=str(tmp_path / "cert.pem"),
            server_key_path=str(tmp_path / "key.pem"),
            client_trust_cert_path=str(tmp_path / "ca.pem"),
        )
        return authority, config

    def test_encrypted_calls_work_like_others(self, authority: tuple[trustme.CA, TlsConfig]) -> None:
        _, config = authority
        with tls_echo(config) as address:
            pool = BlockingConnections(tls=client_context(config))
            for size in (3, 300_000):
                assert len(pool.request(address, Command(1, {}, bytes(size)), 3).body) == size
            pool.close()

    def test_forked_child_that_closes_says_no_farewell_on_the_parents_connection(
        self, authority: tuple[trustme.CA, TlsConfig], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, config = authority
        with tls_echo(config) as address:
            pool = BlockingConnections(tls=client_context(config))
            pool.request(address, Command(1), 3)
            with monkeypatch.context() as child:
                child.setattr(connections, "_forks", 1)
                copy.copy(pool).close()
            assert pool.request(address, Command(1, {}, b"still here"), 3).body == b"still here"
            pool.close()

    def test_stranger_is_not_trusted(self, authority: tuple[trustme.CA, TlsConfig]) -> None:
        _, config = authority
        with tls_echo(config) as address:
            pool = BlockingConnections(tls=client_context(TlsConfig()))
            with pytest.raises(ConnectError, match="certificate is not accepted"):
                pool.request(address, Command(1), 3)
            pool.close()


@contextmanager
def tls_echo(config: TlsConfig) -> Iterator[str]:
    """One connection in TLS whose requests are answered with their own bodies."""
    context = ServerTls(config).context()
    assert context is not None
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        layer, reader = TlsLayer(context), frame.FrameReader()
        with connection:
            while data := connection.recv(65536):
                try:
                    plain = layer.receive(data)
                except RemoteProtocolError:
                    return
                connection.sendall(layer.take_output())
                reader.feed(plain)
                while (whole := reader.take()) is not None:
                    request = frame.decode(whole)
                    connection.sendall(layer.send(answer(request, body=request.body)))

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{listening.getsockname()[1]}"
    thread.join()
    listening.close()


def test_large_request_to_a_peer_that_is_slow_ends_in_its_time(pool: BlockingConnections) -> None:
    """The peer takes a little now and then: each time the system's own limit begins anew."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        is_over = threading.Event()

        def take_slowly() -> None:
            connection, _ = listening.accept()
            with connection:
                while not is_over.wait(0.1):
                    connection.recv(20_000)

        thread = threading.Thread(target=take_slowly)
        thread.start()
        begin_s = time.monotonic()
        try:
            with pytest.raises(RequestTimeoutError):
                pool.request(f"127.0.0.1:{listening.getsockname()[1]}", Command(10, {}, bytes(12_000_000)), 0.5)
        finally:
            took_s = time.monotonic() - begin_s
            is_over.set()
            thread.join()
    assert took_s < 5  # with a limit that begins anew with each write it would take 40


class Counting:
    """A peer whose answer is there after so many looks; counts them."""

    def __init__(self, looks: int) -> None:
        self._looks, self.looked = looks, 0

    def recv(self, _size: int, _flags: int) -> bytes:
        self.looked += 1
        if self.looked < self._looks:
            raise BlockingIOError
        return b"x"


class TestBusyPoll:
    """Whoever is alone looks for the answer for a moment, and does not where that is in vain."""

    def watch(self, busy_poll: BusyPoll, looks: int) -> tuple[bytes, int]:
        peer = Counting(looks)
        return busy_poll.watch(cast("socket.socket", peer)), peer.looked

    def test_answer_that_comes_meanwhile_is_seen(self) -> None:
        busy_poll = BusyPoll(30.0)
        assert [self.watch(busy_poll, 3) for _ in range(100)] == [(b"x", 3)] * 100

    def test_no_moment_is_no_look(self) -> None:
        assert self.watch(BusyPoll(0.0), 1) == (b"", 0)

    def test_looking_in_vain_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now_s = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: now_s)

        class Slow(Counting):
            def recv(self, size: int, flags: int) -> bytes:
                nonlocal now_s
                now_s += 0.001
                return super().recv(size, flags)

        def looks_of(calls: int) -> int:
            peer = Slow(10**9)
            for _ in range(calls):
                assert not busy_poll.watch(cast("socket.socket", peer))
            return peer.looked

        busy_poll = BusyPoll(0.0005)
        assert looks_of(1000) == 16  # then it pauses
        now_s += 0.11
        assert looks_of(1000) == 16
        now_s += 0.11
        assert looks_of(1000) == 0  # twice as long
        now_s += 0.11
        assert looks_of(1000) == 16
        now_s += 0.41
        assert [self.watch(busy_poll, 1) for _ in range(100)] == [(b"x", 1)] * 100  # and goes on where it pays

    @pytest.mark.parametrize(("processors", "is_watched"), [(2, True), (1, False)])
    def test_only_caller_looks_if_a_processor_is_to_spare(
        self, processors: int, is_watched: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watched: list[object] = []

        def watch(self: BusyPoll, peer: socket.socket) -> bytes:
            watched.append(self._moment_s)
            return b""

        monkeypatch.setattr(BusyPoll, "watch", watch)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(processors)), raising=False)
        pool = BlockingConnections(busy_wait_s=0.01)
        with serving() as server:
            pool.request(server.address, Command(1), 3)
            pool.close()
        assert watched == [0.01 if is_watched else 0.0]

    def test_several_callers_do_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        watched: list[BusyPoll] = []

        def watch(self: BusyPoll, peer: socket.socket) -> bytes:
            watched.append(self)
            return b""

        monkeypatch.setattr(BusyPoll, "watch", watch)
        together = threading.Barrier(2)

        def say(request: Command) -> bytes:
            if request.code == 1:
                together.wait(10)
            return answer(request)

        pool = BlockingConnections(busy_wait_s=0.01)
        with serving(say) as server:
            threads = [threading.Thread(target=pool.request, args=(server.address, Command(1), 10)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(watched) <= 1  # the first may have been alone when it asked
            watched.clear()
            pool.request(server.address, Command(2), 3)
            assert not watched  # another one asked a moment ago
            pool.close()
