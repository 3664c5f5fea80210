"""Many messages in flight that are never acknowledged: `python -m benchmarks.pops`, of `make bench-broker`.

Consumers pop messages, 32 at a time, so that all are due at the same moment; then they come again, in one round of
revival. Meanwhile another process sends a message every 10 ms: how long such a one waits tells how long a turn of our
loop lasts.

    python -m benchmarks.pops --count 10000 --only ours
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

from benchmarks import loadgen
from benchmarks.brokers import Questions
from benchmarks.loadgen import Shape, Span, Target
from benchmarks.servers import CACHE, cpu_s, rss_mb
from benchmarks.stall_peers import probe
from benchmarks.stall_rows import PROBED, Row
from rocketline.clock import SystemClock
from rocketline.errors import ResponseError
from rocketline.net.remote import Remote
from rocketline.testing import apache
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import TopicKind, parse_message_offsets

_GOAL_MS: Final = 20.0
_TOPIC: Final = "Popped"
_GROUP: Final = "bench"
_QUEUES: Final = 4
_BODY_BYTES: Final = 256
_CONSUMERS: Final = 8
_POPPED: Final = 32
_FILL_S: Final = 120
_TIMEOUT_S: Final = 600.0
_LOOK_S: Final = 0.05
_PROBE_EARLY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Figures:
    """One broker, and its round of revival."""

    label: str
    popped_per_s: float
    pop_cpu_us: float
    """Of the broker, for each message that was popped."""
    in_flight_mb: float
    """That it took more with all of them in flight."""
    round_s: float
    """From the first message that came again to the last."""
    round_cpu_us: float
    """For each message, from when the first was nearly due: timers and what was sent meanwhile included."""
    waits_ms: list[float]
    """Of messages that were sent meanwhile, in order of length."""


async def _pop_all(remote: Remote, count: int, due_ms: int) -> int:
    """Pop so many messages, all of them due again at one moment; how many it were."""
    popped = 0

    async def pop_some() -> None:
        nonlocal popped
        while popped < count:
            answer = await remote.request(_pop(due_ms - SystemClock().wall_ms()), 60)
            if answer.code == ResponseCode.SUCCESS:
                popped += sum(map(len, parse_message_offsets(answer.ext["msgOffsetInfo"]).values()))
            else:  # others are at all queues just now
                assert answer.code == ResponseCode.POLLING_TIMEOUT, answer.remark

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONSUMERS):
            group.create_task(pop_some())
    return popped


def _pop(invisible_ms: int) -> Command:
    ext = {
        "consumerGroup": _GROUP, "topic": _TOPIC, "queueId": "-1", "maxMsgNums": str(_POPPED),
        "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": str(SystemClock().wall_ms()),
        "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    return Command(RequestCode.POP_MESSAGE, ext)


def _came_again(questions: Questions) -> int:
    """How many messages are in the retry topic, which is made when the first comes."""
    try:
        return sum(questions.depths(TopicKind.RETRY_V1.store_topic(_TOPIC, _GROUP), 1))
    except ResponseError:
        return 0


def _wait_for_all(port: int, count: int) -> float:
    """Return once all came again; how many seconds after the first was seen."""
    due_s, first_s = time.perf_counter() + _TIMEOUT_S, 0.0
    with Questions(port) as questions:
        while (again := _came_again(questions)) < count:
            now_s = time.perf_counter()
            assert now_s < due_s, f"{again} of {count} came again"
            first_s = first_s or (now_s if again else 0.0)
            time.sleep(_LOOK_S)
    return time.perf_counter() - (first_s or time.perf_counter())


def _in_flight_s(count: int) -> int:
    """Until they are due: time enough to pop them all, and for Apache's broker to compile what does it."""
    return 20 + count // 5_000


async def measure(label: str, server: ServerProcess, program: Path, count: int) -> Figures:
    """Fill a topic, pop all of it, wait until it is due, watch the round."""
    port, pid = server.port, server.pid
    with Questions(port) as questions:
        questions.create_topic(_TOPIC, _QUEUES)
        questions.create_topic(PROBED, 1)
        questions.create_group(_GROUP)
    span = Span(0, _FILL_S, count)
    loadgen.send_messages(
        program, Target(port, pid), Shape(8, 64), span, topic=_TOPIC, queues=_QUEUES, body=_BODY_BYTES
    )
    before_mb, before_s, began_s = rss_mb(pid), cpu_s(pid), time.perf_counter()
    due_ms = SystemClock().wall_ms() + _in_flight_s(count) * 1000
    async with Remote(server.address) as remote:
        popped = await _pop_all(remote, count, due_ms)
    took_s, pop_s = time.perf_counter() - began_s, cpu_s(pid) - before_s
    left_s = (due_ms - SystemClock().wall_ms()) / 1000 - _PROBE_EARLY_S
    assert left_s > 0, f"{count} messages took {took_s:.0f} s to pop: the first are due already"
    await asyncio.sleep(left_s)
    in_flight_mb, used_s = rss_mb(pid) - before_mb, cpu_s(pid)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        probing = asyncio.get_running_loop().run_in_executor(pool, _probe, port, count)
        round_s = await asyncio.to_thread(_wait_for_all, port, popped)
        round_cpu_s = cpu_s(pid) - used_s
        waits_ms = sorted(await probing)
    per_message = 1e6 / popped
    return Figures(
        label, popped / took_s, pop_s * per_message, in_flight_mb, round_s, round_cpu_s * per_message, waits_ms
    )


def _probe(port: int, count: int) -> list[float]:
    return probe(Row(name="sends meanwhile"), port, 10 + count / 10_000)


def _row(figures: Figures) -> list[str]:
    waits = figures.waits_ms
    shares = [waits[int(len(waits) * share)] for share in (0.5, 0.99)]
    return [
        figures.label,
        f"{figures.popped_per_s:,.0f}",
        f"{figures.pop_cpu_us:.1f}",
        f"{figures.in_flight_mb:.0f}",
        f"{figures.round_s:.1f}",
        f"{figures.round_cpu_us:.0f}",
        *(f"{wait:.1f}" for wait in (*shares, waits[-1])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="messages in flight")
    parser.add_argument("--only", choices=["ours", "apache"])
    chosen = parser.parse_args()
    title = (
        f"{chosen.count:,} messages in flight, and a round in which all come again (goal: no wait over {_GOAL_MS} ms)"
    )
    table = Table(title=title)
    columns = "broker|popped/s|CPU us each|MB for them|the round, s|CPU us each|a send waits, ms|99 %|longest"
    for column in columns.split("|"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    program = loadgen.build(CACHE)
    with tempfile.TemporaryDirectory(prefix="pops-") as folder:
        starts: dict[str, Callable[[], ServerProcess]] = {}
        settings = {"mappedFileSizeCommitLog": str(1 << 30)}
        if chosen.only != "apache":
            starts["Rocketline"] = partial(BrokerProcess, Path(folder) / "ours", name_servers=(), settings=settings)
        if chosen.only != "ours":
            release, home = apache.fetch(), Path(folder) / "apache"
            starts[f"Apache {release.version}"] = partial(
                apache.ApacheBroker, release, home, name_servers=(), settings=settings
            )
        for label, start in starts.items():
            with start() as server:
                table.add_row(*_row(asyncio.run(measure(label, server, program, chosen.count))))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
