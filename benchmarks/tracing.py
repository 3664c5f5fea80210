"""What message trace costs a producer: each way to send with it and without, in turns, ours and Java's, on our broker.

    python -m benchmarks.tracing --seconds 3 --rounds 5

Shown is the processor's time of the client's process for a message, the least of all rounds: on a busy machine the
others have more of other programs' doings in them. With trace that includes all that becomes of the records.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.client_programs import Program, start_java, start_own
from rocketline import Admin
from rocketline.testing import apache
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess

TOPIC: Final = "small"
BODY_BYTES: Final = 100
WAYS: Final = {
    "one blocking caller": ("sync", 1),
    "1,000 in flight": ("async", 1000),
}
SWITCH: Final = "ROCKETLINE_TRACED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["own", "java"])
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        NameServerProcess(Path(home) / "name-server") as name_server,
        BrokerProcess(Path(home) / "broker", name_servers=(name_server.address,)) as broker,
    ):
        broker.wait_until_ready()
        with Admin(name_server.address) as admin:
            admin.topics.create(TOPIC, queue_count=4)
        for name, start in starts(name_server.address, Path(home)).items():
            if arguments.only in (None, name):
                compare(name, start, arguments.seconds, arguments.rounds)


def starts(name_server: str, home: Path) -> dict[str, Callable[[], Program]]:
    own = partial(start_own, name_server, home / "own", has_speed=True)
    return {"own": own, "java": lambda: start_java(apache.fetch(), name_server, home / "java")}


@contextmanager
def switched(is_on: bool) -> Iterator[None]:
    """For the programs that are started meanwhile."""
    if is_on:
        os.environ[SWITCH] = "yes"
    try:
        yield
    finally:
        os.environ.pop(SWITCH, None)


def compare(name: str, start: Callable[[], Program], seconds: float, rounds: int) -> None:
    with switched(False):
        without = start()
    with switched(True):
        traced = start()
    with without, traced:
        for way, (how, callers) in WAYS.items():
            words = ("send", TOPIC, how, callers, seconds, BODY_BYTES)
            for program in (without, traced):  # a JVM compiles what it finds to be hot
                program.run(*words)
            figures = [(without.run(*words).cpu_us, traced.run(*words).cpu_us) for _ in range(rounds)]
            off_us, on_us = (min(column) for column in zip(*figures, strict=True))
            show(f"{name}, {way}", off_us, on_us)


def show(what: str, off_us: float, on_us: float) -> None:
    sys.stdout.write(
        f"{what:28} {off_us:7.2f} us a message, traced {on_us:7.2f} us: {on_us - off_us:+6.2f} us,"
        f" {on_us / off_us - 1:+7.1%}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
