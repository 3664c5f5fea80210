"""A connection that behaves well, with a clock; and connections that do not, in a process of their own."""

from __future__ import annotations

import multiprocessing
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Event
from typing import Final

from benchmarks import stall_rows
from benchmarks.stall_rows import PROBED, ROWS, Row, create_topic, send
from rocketline.testing.server_process import LOOPBACK
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

_PERIOD_S: Final = 0.01
_TIMEOUT_S: Final = 120
_AT_ONCE: Final = 24
"""Requests of the preparation that are in flight: fewer than of long work may wait."""
_LARGE_BYTES: Final = 8 * 1024
_TAKEN: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.POLLING_TIMEOUT,
)
_PARKED: Final = 1_000_000_000
"""The opaque of what is parked: its answers are nobody's."""
_SPAWN = multiprocessing.get_context("spawn")


def probe(row: Row, port: int, seconds: float, topic: str = PROBED) -> list[float]:
    """A send (at a name server, a question for a route) every 10 ms: the milliseconds until each was answered.

    None waits for the answer of the one before, so that each tells how long it was held up itself.
    Raises `RuntimeError` if a send is refused: that may be quick, and says nothing.
    """
    question = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}) if row.at_name_server else send(topic)
    sent_s: dict[int, float] = {}
    took_ms: list[float] = []
    with socket.create_connection((LOOPBACK, port), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = frame.FrameReader()
        begin_s = due_s = time.perf_counter()
        while due_s < begin_s + seconds or sent_s:
            now_s = time.perf_counter()
            if due_s <= now_s and due_s < begin_s + seconds:
                question.opaque += 1
                sent_s[question.opaque] = now_s
                connection.sendall(frame.encode(question))
                due_s += _PERIOD_S
                continue
            wait_s = due_s - now_s if due_s < begin_s + seconds else _TIMEOUT_S
            if select.select([connection], [], [], wait_s)[0]:
                reader.feed(_received(connection))
            elif not wait_s < _TIMEOUT_S:
                raise TimeoutError(f"{len(sent_s)} sends were not answered in {_TIMEOUT_S} s")
            while (data := reader.take()) is not None:
                answer = frame.decode(data)
                if (begun_s := sent_s.pop(answer.opaque, None)) is not None:
                    if is_refusal(answer) and not row.at_name_server:
                        raise RuntimeError(f"{row.name}: a send was refused: {answer.code} {answer.remark}")
                    took_ms.append((time.perf_counter() - begun_s) * 1000)
    return took_ms


def _received(connection: socket.socket) -> bytes:
    if not (data := connection.recv(1 << 16)):
        raise ConnectionError("the server closed the connection of the one that behaves well")
    return data


def prepare(row: Row, port: int) -> None:
    """Ask what the row needs beforehand. Raises `RuntimeError` for what is refused, unless that is for lack of time."""
    commands = row.prepared() if row.at_name_server else (create_topic(PROBED, 1), *row.prepared())
    with socket.create_connection((LOOPBACK, port), _TIMEOUT_S) as connection:
        answers, waiting = _answers(connection), 0
        for command in commands:
            connection.sendall(frame.encode(command))
            waiting += 1
            # What follows a large body may need what it makes, and would overtake it.
            while waiting > (0 if len(command.body) >= _LARGE_BYTES else _AT_ONCE):
                _check(next(answers))
                waiting -= 1
        for _ in range(waiting):
            _check(next(answers))


def _check(answer: Command) -> None:
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY):
        raise RuntimeError(f"the row could not be prepared: {answer.code} {answer.remark}")


def _answers(connection: socket.socket) -> Iterator[Command]:
    reader = frame.FrameReader()
    while received := connection.recv(1 << 18):
        reader.feed(received)
        while (data := reader.take()) is not None:
            command = frame.decode(data)
            if command.is_response:
                yield command


@contextmanager
def attacked(row: Row, port: int, connections: int) -> Iterator[None]:
    """In the block so many connections do what the row says; what it parks was sent before."""
    is_begun, is_over, is_answered, is_parking_refused = signs = [_SPAWN.Event() for _ in range(4)]
    attacker = _SPAWN.Process(target=_attack, args=(ROWS.index(row), port, connections, *signs), daemon=True)
    attacker.start()
    try:
        is_begun.wait(_TIMEOUT_S)
        yield
    finally:
        is_over.set()
        attacker.join(5)
        attacker.kill()
        attacker.join()
    if not (row.is_refused or row.is_oneway or is_answered.is_set()) and next(row.asked(0), None) is not None:
        raise RuntimeError(f"{row.name}: nothing but refusals, so this shows nothing")
    if is_parking_refused.is_set() and not row.is_bounded:
        raise RuntimeError(f"{row.name}: of what was to be held some was refused, so this shows less than it says")


def _attack(
    number: int, port: int, connections: int, is_begun: Event, is_over: Event, is_answered: Event, is_refused: Event
) -> None:
    row = ROWS[number]
    barrier = threading.Barrier(connections + 1)
    with crowd(row, port):
        for connection in range(connections):
            arguments = row, port, connection, barrier, is_answered, is_refused
            threading.Thread(target=_misbehave, args=arguments, daemon=True).start()
        barrier.wait()
        is_begun.set()
        is_over.wait()


@contextmanager
def crowd(row: Row, port: int) -> Iterator[None]:
    """In the block the connections are there that have only joined."""
    with ExitStack() as stack:
        for command in map(row.joined, range(stall_rows.CROWD)) if row.joined is not None else ():
            connection = stack.enter_context(socket.create_connection((LOOPBACK, port), _TIMEOUT_S))
            _check(next(ask(connection, [command])))
            threading.Thread(target=_listen, args=(connection,), daemon=True).start()
        yield


def _listen(connection: socket.socket) -> None:
    """Take what is told, so that the server need not keep it."""
    with suppress(OSError):
        while connection.recv(1 << 16):
            continue


def _misbehave(
    row: Row, port: int, number: int, barrier: threading.Barrier, is_answered: Event, is_refused: Event
) -> None:
    connection = socket.create_connection((LOOPBACK, port), _TIMEOUT_S)
    try:
        park(connection, row.parked(number))
        barrier.wait()
        if row.is_oneway:
            _tell(connection, row.asked(number))
        else:
            for answer in ask(connection, row.asked(number)):
                if is_refusal(answer):
                    if is_parked(answer):
                        is_refused.set()
                elif not is_answered.is_set():
                    is_answered.set()
    except OSError:
        barrier.abort()  # the server has closed the connection: so be it
    finally:
        connection.close()


def park(connection: socket.socket, commands: Iterable[Command]) -> None:
    """Frames that are the same are made once: the attacker must not be slower than what it attacks."""
    last: Command | None = None
    data = b""
    for command in commands:
        if command is not last:
            command.opaque = _PARKED
            last, data = command, frame.encode(command)
        connection.sendall(data)


def _tell(connection: socket.socket, commands: Iterable[Command]) -> None:
    for command in commands:
        command.flag |= 2
        connection.sendall(frame.encode(command))


def ask(connection: socket.socket, commands: Iterable[Command]) -> Iterator[Command]:
    """One after the other; the answers, and then whatever else is told."""
    encoded: dict[int, bytes] = {}
    answers = _answers(connection)
    for command in commands:
        data = encoded.get(id(command)) or frame.encode(command)
        if len(encoded) < 16:
            encoded[id(command)] = data
        connection.sendall(data)
        while is_parked(answer := next(answers)):
            yield answer
        yield answer
    yield from answers


def is_parked(answer: Command) -> bool:
    return answer.opaque == _PARKED


def is_refusal(answer: Command) -> bool:
    return answer.code not in _TAKEN
