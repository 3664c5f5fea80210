"""What many idle topics and groups cost a broker: `python -m benchmarks.idle`, a part of `make bench-broker`.

Eight callers make the topics, one after the other each; every queue gets a message. Then the broker is killed and
starts; every queue gets a message again, so that all are new to it; it stops, and starts again. CPU seconds are beside
the times: on a busy machine they are what can be compared.

    python -m benchmarks.idle --topics 1000 --groups 1000 --only ours
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.brokers import Questions, StartBroker, start_apache, start_rocketline
from benchmarks.servers import Server, cpu_s, rss_mb
from rocketline.testing import apache

_CALLERS: Final = 8
_QUEUES: Final = 4
_STOP_TIMEOUT_S: Final = 600


@dataclass(frozen=True, slots=True)
class Figures:
    """One broker with so many topics, or groups."""

    label: str
    create_per_s: float
    create_cpu_ms: float
    """Of the broker, for each."""
    last_per_s: float
    """The last tenth of them."""
    killed_start_s: float
    """Until a message is stored."""
    stop_s: float
    start_s: float
    """After the clean stop."""
    start_cpu_s: float
    rss_mb: float
    """The most of what was seen: when all queues had got their messages, and after each start."""
    open_files: int
    """Likewise."""


def measure(start: StartBroker, home: Path, topics: int, groups: int) -> Figures:
    """Fill a broker, kill and start it, fill it again, stop and start it."""
    server = start(home)
    try:
        rate, last, cpu_ms = _made(server, topics, groups)
        _send_to_all(server, topics)
        seen = [_taken(server.pid)]
        server.process.kill()
        server = killed = start(home)
        seen.append(_taken(server.pid))
        _send_to_all(server, topics)
        seen.append(_taken(server.pid))
        began = time.perf_counter()
        server.process.close(timeout_s=_STOP_TIMEOUT_S)
        stop_s = time.perf_counter() - began
        server = start(home)
        start_cpu_s = cpu_s(server.pid)
        seen.append(_taken(server.pid))
        most_mb, most_files = (max(figures) for figures in zip(*seen, strict=True))
        return Figures(
            label=server.label, create_per_s=rate, create_cpu_ms=cpu_ms, last_per_s=last,
            killed_start_s=killed.start_s, stop_s=stop_s, start_s=server.start_s, start_cpu_s=start_cpu_s,
            rss_mb=most_mb, open_files=int(most_files),
        )  # fmt: skip
    finally:
        server.process.kill()


def _made(server: Server, topics: int, groups: int) -> tuple[float, float, float]:
    """Topics and groups made in a second, the last tenth of them, and the broker's CPU for each, in milliseconds."""
    cpu_before_s = cpu_s(server.pid)
    took_s = _by_callers(server, _topics(topics), lambda questions, name: questions.create_topic(name, _QUEUES))
    members = [f"idle-group-{number}" for number in range(groups)]
    took_s += _by_callers(server, members, lambda questions, name: questions.create_group(name))
    made_cpu_s = cpu_s(server.pid) - cpu_before_s
    made = sorted(took_s)
    tenth = max(1, len(made) // 10)
    last_s = made[-1] - made[-tenth - 1] if len(made) > tenth else made[-1]
    return len(made) / made[-1], tenth / last_s, made_cpu_s / len(made) * 1000


def _topics(count: int) -> list[str]:
    return [f"idle-{number}" for number in range(count)]


def _send_to_all(server: Server, topics: int) -> None:
    _by_callers(server, _topics(topics), lambda questions, name: questions.send_to_each(name, _QUEUES))


def _by_callers(server: Server, names: Sequence[str], work: Callable[[Questions, str], None]) -> list[float]:
    """Every name worked on once, by several callers; when each was done, in seconds from the beginning."""
    began = time.perf_counter()

    def call(mine: Sequence[str]) -> list[float]:
        done_s = []
        with Questions(server.port) as questions:
            for name in mine:
                work(questions, name)
                done_s.append(time.perf_counter() - began)
        return done_s

    with ThreadPoolExecutor(_CALLERS) as pool:
        shares = pool.map(call, [names[caller::_CALLERS] for caller in range(_CALLERS)])
        return [done_s for share in shares for done_s in share]


def _taken(pid: int) -> tuple[float, int]:
    """Memory in MB, and open files."""
    return rss_mb(pid), len([*Path(f"/proc/{pid}/fd").iterdir()])


def _row(figures: Figures) -> list[str]:
    return [
        figures.label,
        f"{figures.create_per_s:.0f}",
        f"{figures.last_per_s:.0f}",
        f"{figures.create_cpu_ms:.2f}",
        f"{figures.killed_start_s:.1f}",
        f"{figures.stop_s:.1f}",
        f"{figures.start_s:.1f}",
        f"{figures.start_cpu_s:.1f}",
        f"{figures.rss_mb:.0f}",
        f"{figures.open_files:,}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000, help="of ours")
    parser.add_argument("--groups", type=int, default=10_000, help="of ours")
    parser.add_argument(
        "--apache-topics", type=int, default=1_000, help="of Apache's: each of its queues is an open file"
    )
    parser.add_argument("--only", choices=["ours", "apache"])
    chosen = parser.parse_args()
    table = Table(title="Idle topics and groups: four queues a topic, a message in each")
    columns = "broker|made/s|last tenth|CPU ms each|start after a kill, s|stop, s|start, s|its CPU s|MB|open files"
    for column in columns.split("|"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idle-")))
        if chosen.only != "apache":
            start: StartBroker = partial(start_rocketline, has_speed=True)
            for topics, groups in ((chosen.topics, 0), (0, chosen.groups)):
                figures = measure(start, home / f"ours-{topics}-{groups}", topics, groups)
                table.add_row(*_row(figures), end_section=True)
                Console().print("  ".join(_row(figures)))
        if chosen.only != "ours":
            release = apache.fetch()
            name_server = stack.enter_context(apache.ApacheNameServer(release, home / "name-server"))
            start = partial(start_apache, release, [name_server.address])
            for topics, groups in ((chosen.apache_topics, 0), (0, chosen.groups)):
                table.add_row(*_row(measure(start, home / f"apache-{topics}-{groups}", topics, groups)))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
