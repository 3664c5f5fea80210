"""Open transactions and a round of questions about them: `python -m benchmarks.transactions`, of `make bench-broker`.

A producer leaves half messages open, all of the same age; when they are old enough the broker asks about each of them
in one round. Meanwhile another process sends a message every 10 ms: how long such a one waits tells how long a turn of
our loop lasts. What the questions ask for is never answered.

    python -m benchmarks.transactions --count 10000 --only ours
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.servers import cpu_s, rss_mb
from benchmarks.stall_peers import probe
from benchmarks.stall_rows import Row
from rocketline.clock import SystemClock
from rocketline.model.heartbeat import HeartbeatData, ProducerData
from rocketline.net.channel import Channel, Outcome
from rocketline.net.remote import Remote
from rocketline.testing import apache
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess
from rocketline.wire.bodies import encode
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties

_GOAL_MS: Final = 20.0
_IN_FLIGHT: Final = 64
_BODY: Final = bytes(256)
_TIMEOUT_S: Final = 600.0
_PROBE_S: Final = 2.0
"""Between two looks whether the round is over."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One broker and its round of questions."""

    label: str
    sent_per_s: float
    questions_per_s: float
    cpu_us: float
    """Of the broker, for each question."""
    waits_ms: list[float]
    """Of messages that were sent meanwhile, in order of length."""
    rss_mb: float


class Producer:
    """One connection that sends half messages and counts the questions about them."""

    def __init__(self) -> None:
        self.questions = 0
        self.first_s = self.last_s = 0.0

    def count(self, channel: Channel, request: Command) -> Outcome:
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self.last_s = time.perf_counter()
            self.first_s = self.first_s or self.last_s
            self.questions += 1
        return None

    async def fill(self, remote: Remote, count: int, age_s: float) -> float:
        """Send them, before the first are `age_s` old; how many a second."""
        born_ms, began_s = SystemClock().wall_ms(), time.perf_counter()
        numbers = iter(range(count))

        async def send_some() -> None:
            for number in numbers:
                answer = await remote.request(_half(number, born_ms), 60)
                assert answer.code == 0, answer.remark

        async with asyncio.TaskGroup() as group:
            for _ in range(_IN_FLIGHT):
                group.create_task(send_some())
        took_s = time.perf_counter() - began_s
        assert took_s < age_s, f"{count} half messages took {took_s:.0f} s: the first are asked for already"
        return count / took_s

    async def wait(self, remote: Remote, count: int) -> None:
        """Return once all were asked for. A heartbeat keeps the producer known."""
        due_s = time.perf_counter() + _TIMEOUT_S
        while self.questions < count:
            assert time.perf_counter() < due_s, f"{self.questions} of {count} were asked for"
            heartbeat = HeartbeatData("bench", [ProducerData("bench")], [])
            await remote.request(Command(RequestCode.HEART_BEAT, body=encode(heartbeat)), 60)
            await asyncio.sleep(1)


def _half(number: int, born_ms: int) -> Command:
    properties = {"TRAN_MSG": "true", "PGROUP": "bench", "UNIQ_KEY": f"{number:032X}"}
    ext = {
        "producerGroup": "bench", "topic": "Half", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "0", "sysFlag": "4", "bornTimestamp": str(born_ms), "flag": "0",
        "properties": format_properties(properties), "reconsumeTimes": "0",
    }  # fmt: skip
    return Command(RequestCode.SEND_MESSAGE, ext, _BODY)


def _age_s(count: int) -> int:
    """So old they are when they are asked for: time enough to send them all."""
    return 30 + count // 800


def _settings(count: int) -> dict[str, str]:
    return {
        "transactionTimeOut": str(_age_s(count) * 1000),
        "transactionCheckInterval": "2000",
        "mappedFileSizeCommitLog": str(1 << 30),
    }


async def measure(label: str, server: ServerProcess, count: int) -> Figures:
    """Fill a broker with half messages, wait until they are due, watch the round."""
    producer, pid = Producer(), server.pid
    spawn = multiprocessing.get_context("spawn")
    async with Remote(server.address, dispatch=producer.count) as remote:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            probing = partial(asyncio.get_running_loop().run_in_executor, pool, _probe, server.port)
            await probing()  # to have its topic, and to be awake
            began_s = time.perf_counter()
            sent_per_s = await producer.fill(remote, count, _age_s(count))
            await asyncio.sleep(max(0.0, began_s + _age_s(count) - 2 - time.perf_counter()))
            before_s = cpu_s(pid)
            waits_ms: list[float] = []
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(producer.wait(remote, count))
                while not asking.done():
                    waits_ms += await probing()
            round_s, used_s = producer.last_s - producer.first_s, cpu_s(pid) - before_s
    return Figures(label, sent_per_s, count / round_s, used_s / count * 1e6, sorted(waits_ms), rss_mb(pid))


def _probe(port: int) -> list[float]:
    return probe(Row(name="sends meanwhile"), port, _PROBE_S)


def _row(figures: Figures) -> list[str]:
    waits = figures.waits_ms
    shares = [waits[int(len(waits) * share)] for share in (0.5, 0.99)]
    return [
        figures.label,
        f"{figures.sent_per_s:,.0f}",
        f"{figures.questions_per_s:,.0f}",
        f"{figures.cpu_us:.0f}",
        *(f"{wait:.1f}" for wait in (*shares, waits[-1])),
        f"{figures.rss_mb:.0f}",
    ]


def _goal_line(figures: Figures) -> str:
    over = sum(wait > _GOAL_MS for wait in figures.waits_ms)
    outcome = f"[red]missed by {over:,}[/]" if over else "[green]met[/]"
    return f"{figures.label}: no wait of {len(figures.waits_ms):,} over {_GOAL_MS:.0f} ms: {outcome}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="half messages")
    parser.add_argument("--only", choices=["ours", "apache"])
    chosen = parser.parse_args()
    table = Table(title=f"{chosen.count:,} open half messages, one round of questions")
    columns = "broker|half messages/s|questions/s|CPU us each|a send waits, ms|99 %|longest|MB"
    for column in columns.split("|"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    with tempfile.TemporaryDirectory(prefix="transactions-") as folder:
        goals: list[str] = []
        starts: dict[str, Callable[[], ServerProcess]] = {}
        settings = _settings(chosen.count)
        if chosen.only != "apache":
            starts["Rocketline"] = partial(BrokerProcess, Path(folder) / "ours", name_servers=(), settings=settings)
        if chosen.only != "ours":
            release, home = apache.fetch(), Path(folder) / "apache"
            starts[f"Apache {release.version}"] = partial(
                apache.ApacheBroker, release, home, name_servers=(), settings=settings
            )
        for label, start in starts.items():
            with start() as server:
                figures = asyncio.run(measure(label, server, chosen.count))
            table.add_row(*_row(figures))
            goals.append(_goal_line(figures))
    console = Console(width=140)
    console.print(table)
    for line in goals:
        console.print(line)


if __name__ == "__main__":
    main()
