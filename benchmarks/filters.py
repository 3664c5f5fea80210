"""A filter in SQL that one message in a hundred passes: `python -m benchmarks.filters`, of `make bench-broker`.

A topic is filled with messages of five properties, and read from its beginning to its end by pulls that bring their
expression along, one after the other for each of four queues. Shown is how many messages a broker looks at in a second,
and what one costs it. Every pull must find exactly what it should.

    python -m benchmarks.filters --count 100000 --only ours
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import Questions
from benchmarks.servers import cpu_s
from rocketline.model.message import Message
from rocketline.net.remote import Remote
from rocketline.testing import apache
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records

Result = TypeVar("Result")

TOPIC: Final = "Filtered"
EXPRESSION: Final = "a > 98 AND b = 'x'"
"""Of the numbers from 0 to 99 one fulfils it."""
QUEUES: Final = 4
_BATCH: Final = 500
_ROUNDS: Final = 3
_GOAL: Final = 0.5
_SETTINGS: Final = {"enablePropertyFilter": "true", "mappedFileSizeCommitLog": str(1 << 30)}


@dataclass(frozen=True, slots=True)
class Figures:
    """One broker, in the fastest of its rounds."""

    label: str
    messages_per_s: float
    cpu_us: float
    """Of the broker, for each message that it looks at."""
    pulls: int


def _batch(first: int) -> bytes:
    return encode_batch([_message(number) for number in range(first, first + _BATCH)])


def _message(number: int) -> Message:
    properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number}", "a": str(number % 100), "b": "x", "WAIT": "true"}
    return Message.of(TOPIC, bytes(100), properties, 0)


async def fill(remote: Remote, queue_id: int, count: int) -> None:
    """Store `count` messages in the queue."""
    for first in range(0, count, _BATCH):
        ext = {
            "a": "bench", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1", "h": "0",
            "i": "", "j": "0", "k": "false", "m": "true",
        }  # fmt: skip
        answer = await remote.request(Command(RequestCode.SEND_BATCH_MESSAGE, ext, _batch(first)), 60)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def read(remote: Remote, queue_id: int, count: int) -> int:
    """Pull all that the expression chooses in the queue; how many pulls that took."""
    offset = found = pulls = 0
    while offset < count:
        ext = {
            "consumerGroup": "bench-filters", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": str(offset),
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "1",
            "subscription": EXPRESSION, "expressionType": "SQL92",
        }  # fmt: skip
        answer = await remote.request(Command(RequestCode.PULL_MESSAGE, ext), 60)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
        offset, pulls = int(answer.ext["nextBeginOffset"]), pulls + 1
        found += len(decode_records(answer.body))
    assert found == count // 100, f"{found} messages of {count} were chosen"
    return pulls


async def measure(label: str, server: ServerProcess, count: int) -> Figures:
    """Fill the topic, wait until all can be read, and read it some times."""
    each = count // QUEUES
    with Questions(server.port) as questions:
        questions.create_topic(TOPIC, QUEUES)
        async with asyncio.TaskGroup() as group:
            for queue_id in range(QUEUES):
                group.create_task(_on_own_connection(server, fill, queue_id, each))
        _wait_for(questions, each)
    rounds = []
    for _ in range(_ROUNDS):
        before_s, began_s = cpu_s(server.pid), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(_on_own_connection(server, read, number, each)) for number in range(QUEUES)]
        took_s, used_s = time.perf_counter() - began_s, cpu_s(server.pid) - before_s
        rounds.append(Figures(label, count / took_s, used_s / count * 1e6, sum(each.result() for each in reading)))
    return max(rounds, key=lambda figures: figures.messages_per_s)


def _wait_for(questions: Questions, each: int) -> None:
    """Apache answers a send before the message is in its queue."""
    while questions.depths(TOPIC, QUEUES) != [each] * QUEUES:
        time.sleep(0.1)


async def _on_own_connection(
    server: ServerProcess, work: Callable[[Remote, int, int], Coroutine[Any, Any, Result]], queue_id: int, count: int
) -> Result:
    async with Remote(server.address) as remote:
        return await work(remote, queue_id, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages")
    parser.add_argument("--only", choices=["ours", "apache"])
    chosen = parser.parse_args()
    step = QUEUES * _BATCH
    count = max(chosen.count // step, 1) * step
    table = Table(title=f"{count:,} messages, one in 100 passes (goal: {_GOAL} of Apache's rate)")
    for column in ("broker", "messages/s", "CPU us each", "pulls"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    with tempfile.TemporaryDirectory(prefix="filters-") as folder:
        starts: dict[str, Callable[[], ServerProcess]] = {}
        if chosen.only != "apache":
            starts["Rocketline"] = partial(BrokerProcess, Path(folder) / "ours", name_servers=(), settings=_SETTINGS)
        if chosen.only != "ours":
            release, home = apache.fetch(), Path(folder) / "apache"
            starts[f"Apache {release.version}"] = partial(
                apache.ApacheBroker, release, home, name_servers=(), settings=_SETTINGS
            )
        for label, start in starts.items():
            with start() as server:
                figures = asyncio.run(measure(label, server, count))
            table.add_row(label, f"{figures.messages_per_s:,.0f}", f"{figures.cpu_us:.2f}", f"{figures.pulls:,}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
