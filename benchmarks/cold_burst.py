"""A burst on a client that knows nobody yet: many sends at once, without a route and without a connection, and the same
again once it has both.

    python -m benchmarks.cold_burst --rounds 5

Shown is the processor's time of this process for a message, the least of all rounds: with Python's collector and
without it. All who wait for the same thing wait together, then go the warm way: cold is to cost no more than half as
much again. What the collector takes depends on all else in a process: in one as small as this it looks through the
burst again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rocketline import Admin
from rocketline.aio import Message, Producer
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess

TOPIC: Final = "burst"
RATIO_MAX: Final = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=5_000, help="of a burst")
    parser.add_argument("--rounds", type=int, default=5, help="each with a client of its own")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        NameServerProcess(Path(home) / "name-server") as name_server,
        BrokerProcess(Path(home) / "broker", name_servers=(name_server.address,)) as broker,
    ):
        broker.wait_until_ready()
        with Admin(name_server.address) as admin:
            admin.topics.create(TOPIC, queue_count=4)
        asyncio.run(_measured(name_server.address, 100))  # imports, and whatever else only a process's first one pays
        for is_collecting in (True, False):
            rounds = [
                asyncio.run(_measured(name_server.address, arguments.messages, is_collecting=is_collecting))
                for _ in range(arguments.rounds)
            ]
            _show(rounds, "with the collector" if is_collecting else "without it")


def _show(rounds: Sequence[tuple[float, float]], how: str) -> None:
    cold_us, warm_us = (min(column) for column in zip(*rounds, strict=True))
    ratio = cold_us / warm_us
    verdict = "as it should be" if ratio <= RATIO_MAX else f"more than {RATIO_MAX}"
    sys.stdout.write(
        f"{how:18} cold {cold_us:5.1f} us, warm {warm_us:5.1f} us a message: {ratio:.2f} times, {verdict}\n"
    )
    sys.stdout.flush()


async def _measured(name_server: str, messages: int, *, is_collecting: bool = True) -> tuple[float, float]:
    """Microseconds a message, cold and warm."""
    async with Producer(name_server, group="bursts") as producer:
        if not is_collecting:
            gc.disable()
        try:
            return await _burst(producer, messages), await _burst(producer, messages)
        finally:
            gc.enable()


async def _burst(producer: Producer, messages: int) -> float:
    burst = [Message(TOPIC, b"x" * 100) for _ in range(messages)]
    gc.collect()
    begin_s = time.process_time()
    await asyncio.gather(*map(producer.send, burst))
    return (time.process_time() - begin_s) * 1_000_000 / messages


if __name__ == "__main__":
    main()
