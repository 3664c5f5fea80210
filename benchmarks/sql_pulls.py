"""Pulls by SQL that pass few messages: `python -m benchmarks.sql_pulls`, of `make bench-broker`.

A topic of a million messages with five properties each, on our broker and on Apache's; an expression over two of them
passes one in a hundred. One client reads the four queues from their start to their end, all at the same time, the
brokers in turn. Shown is how many messages a second a broker passes over, and what one costs it.

    python -m benchmarks.sql_pulls --count 100000 --rounds 1
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.servers import cpu_s
from rocketline import Admin, Message, MessageQueue, by_sql
from rocketline.aio import Producer, PullConsumer
from rocketline.testing import apache
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, running

_TOPIC: Final = "bench-sql"
_QUEUES: Final = 4
_BATCH: Final = 500
_ONE_IN: Final = 100
_EXPRESSION: Final = "price > 98 AND region = 'north'"
_BODY: Final = bytes(100)
_TIMEOUT_S: Final = 60.0
_GOAL: Final = 0.5
_SETTINGS: Final = {"enablePropertyFilter": "true", "mappedFileSizeCommitLog": str(1 << 30)}


@dataclass(slots=True)
class Contestant:
    """A broker, and what was measured of it, a figure a round."""

    label: str
    name: str
    server: ServerProcess
    passed_per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages")
    parser.add_argument("--rounds", type=int, default=3, help="that the medians are taken of, after one to warm up")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sql-pulls-") as folder, _servers(Path(folder)) as (address, contestants):
        asyncio.run(_measure(address, contestants, chosen.count, chosen.rounds))
    _show(contestants, chosen.count)


@contextmanager
def _servers(home: Path) -> Iterator[tuple[str, list[Contestant]]]:
    release = apache.fetch()
    with NameServerProcess(home / "name-server") as name_server:
        servers = (name_server.address,)
        ours = BrokerProcess(home / "ours", name_servers=servers, broker_name="ours", settings=_SETTINGS)
        theirs = apache.ApacheBroker(
            release, home / "apache", name_servers=servers, broker_name="apache", settings=_SETTINGS, heap="2g"
        )
        with running(ours, theirs):
            with Admin(name_server.address) as admin:
                admin.topics.create(_TOPIC, queue_count=_QUEUES)
            apache_label = f"Apache {release.version}"
            yield (
                name_server.address,
                [Contestant(apache_label, "apache", theirs), Contestant("Rocketline", "ours", ours)],
            )


async def _measure(address: str, contestants: list[Contestant], messages: int, rounds: int) -> None:
    for contestant in contestants:
        await _fill(address, contestant, messages)
    async with PullConsumer(address, group="bench-sql") as consumer:
        for number in range(rounds + 1):
            for contestant in contestants[:: -1 if number % 2 else 1]:
                passed_per_s, cpu_us = await _read(consumer, contestant, messages)
                if number:
                    contestant.passed_per_s.append(passed_per_s)
                    contestant.cpu_us.append(cpu_us)


async def _fill(address: str, contestant: Contestant, messages: int) -> None:
    """The same messages in each queue in turn, batch by batch."""
    async with Producer(address, group="bench-fill", send_timeout_s=_TIMEOUT_S) as producer:
        for first in range(0, messages, _BATCH):
            queue = MessageQueue(_TOPIC, contestant.name, first // _BATCH % _QUEUES)
            await producer.send([_message(number) for number in range(first, first + _BATCH)], queue=queue)


def _message(number: int) -> Message:
    properties = {
        "color": "white",
        "price": str(number % _ONE_IN),
        "size": str(number),
        "region": "north",
        "shop": "main street",
    }
    return Message(_TOPIC, _BODY, properties=properties)


async def _read(consumer: PullConsumer, contestant: Contestant, messages: int) -> tuple[float, float]:
    """All queues once: messages a second that were passed over or given, and microseconds of the broker for each."""
    began_s, used_s = time.perf_counter(), cpu_s(contestant.server.pid)
    queues = [MessageQueue(_TOPIC, contestant.name, queue_id) for queue_id in range(_QUEUES)]
    found = await asyncio.gather(*(_read_queue(consumer, queue) for queue in queues))
    took_s, used_s = time.perf_counter() - began_s, cpu_s(contestant.server.pid) - used_s
    assert sum(found) == messages // _ONE_IN, f"{contestant.label} gave {sum(found)} messages"
    return messages / took_s, used_s / messages * 1e6


async def _read_queue(consumer: PullConsumer, queue: MessageQueue) -> int:
    """How many messages of the queue were given."""
    end, selector = await consumer.max_offset(queue), by_sql(_EXPRESSION)
    offset = found = 0
    while offset < end:
        result = await consumer.pull(queue, offset, 32, selector, timeout_s=_TIMEOUT_S)
        offset = result.next_offset
        found += len(result.messages)
    return found


def _show(contestants: list[Contestant], messages: int) -> None:
    table = Table(
        title=f"{messages:,} messages pulled by SQL that passes one in {_ONE_IN} (goal: {_GOAL}x Apache's rate)"
    )
    for column in ("broker", "messages/s", "", "CPU us each", ""):
        table.add_column(column, justify="left" if column == "broker" else "right")
    first = contestants[0]
    for contestant in contestants:
        rate, cpu_us = statistics.median(contestant.passed_per_s), statistics.median(contestant.cpu_us)
        rate_ratio = rate / statistics.median(first.passed_per_s)
        cpu_ratio = cpu_us / statistics.median(first.cpu_us)
        table.add_row(contestant.label, f"{rate:,.0f}", f"{rate_ratio:.2f}x", f"{cpu_us:.2f}", f"{cpu_ratio:.2f}x")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
