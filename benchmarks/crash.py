"""How long a broker takes to come back after `kill -9`, with every message that it had acknowledged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import loadgen
from benchmarks.brokers import Questions, StartBroker
from benchmarks.loadgen import LoadError, Shape, Span
from benchmarks.servers import Server, cpu_s
from rocketline.errors import ResponseError

_TOPIC = "bench-crash"
_QUEUES = 4
_SHAPE = Shape(8, 64)
_SAMPLE_MESSAGES = 1_000
_FILL_TIMEOUT_S = 300
_BACK_TIMEOUT_S = 120
_FILLED = 0.98
"""Of the log's size: all of it in one file, so that no broker may skip a part as safe."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A broker came back."""

    messages: int
    seconds: float
    """From the start of the process until it stored a new message and gave the first and last one of every queue."""
    cpu_s: float
    """That it used for this."""

    def __str__(self) -> str:
        return f"{self.messages:,} messages back after {self.seconds:.1f} s, {self.cpu_s:.1f} s of CPU"


def restart(program: Path, start: StartBroker, home: Path, *, body: int, log_bytes: int) -> Restart:
    """Fill a log of about `log_bytes`, kill the broker at once, and start it again."""
    server = start(home)
    try:
        depths = _fill(program, server, body, log_bytes)
    finally:
        server.process.kill()
    began = time.perf_counter()
    server = start(home)
    try:
        _wait_until_back(server, depths)
        return Restart(sum(depths), time.perf_counter() - began, cpu_s(server.pid))
    finally:
        server.process.kill()


def _fill(program: Path, server: Server, body: int, log_bytes: int) -> list[int]:
    with Questions(server.port) as questions:
        questions.create_topic(_TOPIC, _QUEUES)
    acknowledged = _send(program, server, body, _SAMPLE_MESSAGES)
    with Questions(server.port) as questions:
        record_bytes = len(questions.pull_one(_TOPIC, 0, 0))
    acknowledged += _send(program, server, body, int(log_bytes * _FILLED) // record_bytes - acknowledged)
    with Questions(server.port) as questions:
        depths = questions.depths(_TOPIC, _QUEUES)
    if sum(depths) < acknowledged:
        raise LoadError(f"{server.label} acknowledged {acknowledged} messages and has {sum(depths)}")
    return depths


def _send(program: Path, server: Server, body: int, messages: int) -> int:
    """Send at least so many; how many were acknowledged."""
    span = Span(0, _FILL_TIMEOUT_S, messages)
    result = loadgen.send_messages(program, server.target, _SHAPE, span, topic=_TOPIC, queues=_QUEUES, body=body)
    if result.succeeded < messages:
        raise LoadError(f"{server.label} stored {result.succeeded} of {messages} messages in {_FILL_TIMEOUT_S} s")
    return result.succeeded


def _wait_until_back(server: Server, depths: Sequence[int]) -> None:
    deadline = time.monotonic() + _BACK_TIMEOUT_S
    with Questions(server.port) as questions:
        while not _is_back(questions, depths):
            if time.monotonic() > deadline:
                raise LoadError(f"{server.label} had {depths} and has {questions.depths(_TOPIC, _QUEUES)}")
            time.sleep(0.01)


def _is_back(questions: Questions, depths: Sequence[int]) -> bool:
    if questions.depths(_TOPIC, _QUEUES) != list(depths):
        return False
    try:
        for queue_id, depth in enumerate(depths):
            for offset in (0, depth - 1):
                questions.pull_one(_TOPIC, queue_id, offset)
    except ResponseError:
        return False
    return True
