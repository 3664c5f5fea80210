"""Messages that wait for their time: what many of them cost, and how punctual a broker is.

A delivery's time is that at which the broker stored the message; it and the moments go by the same clock.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import Questions, StartBroker
from benchmarks.loadgen import LoadError
from benchmarks.servers import Server, cpu_s, rss_mb
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.testing.server_process import LOOPBACK
from rocketline.wire import frame, headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import SendMessageRequestHeaderV2
from rocketline.wire.message_codec import decode_records
from rocketline.wire.properties import format_properties

_PENDING, _BURST = "bench-timers", "bench-burst"
_BODY = b"x" * 100
_IN_FLIGHT = 64
_LEAD_S = 15
"""Until the first one is due: all of a burst are parked by then."""
_PATIENCE_S = 120
_FILL_PER_S = 2_500
"""So fast messages are parked at least: a million wait for some minutes before the first is due."""


@dataclass(frozen=True, slots=True)
class Punctuality:
    """How long after its moment a message was delivered, in milliseconds."""

    messages: int
    first_ms: float
    """Below zero: it was early."""
    p50_ms: float
    p99_ms: float
    last_ms: float

    @classmethod
    def of(cls, late_ms: Sequence[int]) -> Punctuality:
        ordered = sorted(late_ms)
        at = [ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] for percent in (0, 50, 99, 100)]
        return cls(len(ordered), *map(float, at))


@dataclass(frozen=True, slots=True)
class Timers:
    """What was measured of one broker."""

    pending: int
    fill_s: float
    rss_mb: float
    """With all of them pending, more than before."""
    start_s: float
    """From the start of the process, with all of them pending, until a message was stored."""
    spread: Punctuality
    """Of those that came due while it was watched: a sample."""
    burst: Punctuality
    """Of many that are due in one second."""
    cpu_us: float
    """For each message that was delivered out of the burst, parking included."""

    def __str__(self) -> str:
        return (
            f"{self.pending:,} pending: {self.rss_mb:.0f} MB more, start {self.start_s:.1f} s, late by "
            f"{self.spread.first_ms:.0f} to {self.spread.last_ms:.0f} ms (99 %: {self.spread.p99_ms:.0f}); of "
            f"{self.burst.messages:,} at once the last came after {self.burst.last_ms:.0f} ms"
        )


def measure(start: StartBroker, home: Path, *, pending: int, spread_s: int, watch_s: int, burst: int) -> Timers:
    """Park messages, start again with them, watch some of them come due; then many in one second."""
    server = start(home)
    try:
        for topic in (_PENDING, _BURST):
            with Questions(server.port) as questions:
                questions.create_topic(topic, 1)
        before_mb, began = rss_mb(server.pid), time.perf_counter()
        # The first is due when the broker has been started again.
        begin_ms = _now_ms() + (pending // _FILL_PER_S + 2 * _LEAD_S) * 1000
        _send(server, _PENDING, (begin_ms + number * spread_s * 1000 // pending for number in range(pending)))
        fill_s = time.perf_counter() - began
        time.sleep(3)
        waiting_mb = rss_mb(server.pid) - before_mb
        server.process.close(timeout_s=_PATIENCE_S)
        began = time.perf_counter()
        server = start(home)
        start_s = time.perf_counter() - began
        if _now_ms() >= begin_ms:
            raise LoadError(f"the first timer was due before the broker was back: {pending:,} took {fill_s:.0f} s")
        _sleep_until(begin_ms + watch_s * 1000)
        spread = Punctuality.of(_lateness(server, _PENDING, pending * watch_s // spread_s // 2))
        used_s = cpu_s(server.pid)
        due_ms = _now_ms() // 1000 * 1000 + _LEAD_S * 1000
        _send(server, _BURST, (due_ms + number * 1000 // burst for number in range(burst)))
        _sleep_until(due_ms + 1000)
        late = Punctuality.of(_lateness(server, _BURST, burst))
        cpu_us = (cpu_s(server.pid) - used_s) / burst * 1e6
        return Timers(pending, fill_s, waiting_mb, start_s, spread, late, cpu_us)
    finally:
        server.process.kill()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000  # brokers go by the machine's clock


def _sleep_until(time_ms: int) -> None:
    time.sleep(max(time_ms - _now_ms(), 0) / 1000)


def _send(server: Server, topic: str, moments: Iterator[int]) -> None:
    """Send a message for each moment, many in flight; again if the broker is busy. Raises `LoadError` if refused."""
    with socket.create_connection((LOOPBACK, server.port), _PATIENCE_S) as connection:
        reader = frame.FrameReader()
        while frames := {number: _frame(topic, moment, number) for number, moment in enumerate(_some(moments))}:
            connection.sendall(b"".join(frames.values()))
            while frames:
                if (data := reader.take()) is None:
                    reader.feed(connection.recv(1 << 18))
                    continue
                answer = frame.decode(data)
                if answer.code == ResponseCode.SYSTEM_BUSY:
                    connection.sendall(frames[answer.opaque])
                elif answer.code == ResponseCode.SUCCESS:
                    del frames[answer.opaque]
                else:
                    raise LoadError(f"a timer message was refused: code {answer.code}, {answer.remark}")


def _some(moments: Iterator[int]) -> Iterator[int]:
    for _, moment in zip(range(_IN_FLIGHT), moments, strict=False):
        yield moment


def _frame(topic: str, moment_ms: int, number: int) -> bytes:
    header = SendMessageRequestHeaderV2(
        producer_group="bench",
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=_now_ms(),
        flag=0,
        properties=format_properties(
            {
                "TIMER_DELIVER_MS": str(moment_ms),
                "UNIQ_KEY": f"{moment_ms:016X}{number:016X}",
            }
        ),
    )
    return frame.encode(Command(RequestCode.SEND_MESSAGE_V2, headers.encode(header), _BODY, opaque=number))


def _lateness(server: Server, topic: str, count_min: int) -> list[int]:
    """How late each message of the topic was; waits until there are so many."""
    late: list[int] = []
    offset, end_s = 0, time.perf_counter() + _PATIENCE_S
    with Questions(server.port) as questions:
        while True:
            answer = questions.pull(topic, offset)
            if not answer:
                if len(late) >= count_min:
                    return late
                if time.perf_counter() > end_s:
                    raise LoadError(f"only {len(late)} of {count_min} timer messages came")
                time.sleep(0.05)
                continue
            messages = decode_records(answer)
            late += [message.store_ms - int(message.properties["TIMER_DELIVER_MS"]) for message in messages]
            offset = messages[-1].queue_offset + 1
