"""Where automatic batching pays: many callers with small messages, with and without `auto_batch`, on our own broker.

    python -m benchmarks.batching --seconds 3

For 1, 10, 100 and 1000 callers, asyncio tasks and threads, each sends 100 bytes and waits for its receipt, again and
again. Shown are messages a second, the median and the slowest hundredth of their times, and the processor's time that a
message costs the client and the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.servers import cpu_s
from rocketline import Admin, Message, Producer, aio
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess

TOPIC: Final = "small"
BODY: Final = b"x" * 100
CALLERS: Final = (1, 10, 100, 1000)


class Row(NamedTuple):
    """What one way of sending did in its time."""

    messages_a_second: float
    median_ms: float
    p99_ms: float
    client_us: float
    broker_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    seconds = parser.parse_args().seconds
    with (
        tempfile.TemporaryDirectory() as home,
        NameServerProcess(Path(home) / "name-server") as name_server,
        BrokerProcess(Path(home) / "broker", name_servers=(name_server.address,)) as broker,
    ):
        broker.wait_until_ready()
        with Admin(name_server.address) as admin:
            admin.topics.create(TOPIC, queue_count=4)
        for name, measure in (("asyncio", asyncio_row), ("threads", threads_row)):
            for callers in CALLERS[: None if name == "asyncio" else 3]:
                for is_gathering in (False, True):
                    row = measured(broker.pid, partial(measure, name_server.address, callers, is_gathering, seconds))
                    show(f"{callers:5} {name}", "auto_batch" if is_gathering else "", row)


def show(what: str, how: str, row: Row) -> None:
    sys.stdout.write(
        f"{what:14} {how:11} {row.messages_a_second:9,.0f}/s  median {row.median_ms:7.2f} ms  p99 {row.p99_ms:7.2f} ms"
        f"  client {row.client_us:6.1f} us  broker {row.broker_us:6.1f} us\n"
    )
    sys.stdout.flush()


def measured(broker_pid: int, send: Callable[[], tuple[list[float], float]]) -> Row:
    broker_s, client_s = cpu_s(broker_pid), time.process_time()
    times_s, elapsed_s = send()
    broker_s, client_s = cpu_s(broker_pid) - broker_s, time.process_time() - client_s
    ordered, count = sorted(times_s), len(times_s)
    return Row(
        count / elapsed_s,
        1000 * statistics.median(ordered),
        1000 * ordered[int(count * 0.99)],
        1e6 * client_s / count,
        1e6 * broker_s / count,
    )


def asyncio_row(address: str, callers: int, is_gathering: bool, seconds: float) -> tuple[list[float], float]:
    async def run() -> tuple[list[float], float]:
        times_s: list[float] = []
        async with aio.Producer(address, group="askers", auto_batch=is_gathering, send_timeout_s=30) as producer:
            await producer.send(Message(TOPIC, BODY))
            begin_s = time.monotonic()

            async def call() -> None:
                while (sent_s := time.monotonic()) - begin_s < seconds:
                    await producer.send(Message(TOPIC, BODY))
                    times_s.append(time.monotonic() - sent_s)

            async with asyncio.TaskGroup() as group:
                for _ in range(callers):
                    group.create_task(call())
            return times_s, time.monotonic() - begin_s

    return asyncio.run(run())


def threads_row(address: str, callers: int, is_gathering: bool, seconds: float) -> tuple[list[float], float]:
    times_s: list[float] = []
    with Producer(address, group="askers", auto_batch=is_gathering, send_timeout_s=30) as producer:
        producer.send(Message(TOPIC, BODY))
        begin_s = time.monotonic()

        def call() -> None:
            while (sent_s := time.monotonic()) - begin_s < seconds:
                producer.send(Message(TOPIC, BODY))
                times_s.append(time.monotonic() - sent_s)

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return times_s, time.monotonic() - begin_s


if __name__ == "__main__":
    main()
