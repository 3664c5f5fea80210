"""`make stalls`: what a well-behaved connection feels while others do their worst.

Each row of `stall_rows` runs against a server of its own, from one connection and from six in a closed loop, while
another connection sends a message every 10 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import brokers, servers
from benchmarks.servers import Server, rss_mb
from benchmarks.stall_peers import attacked, prepare, probe
from benchmarks.stall_rows import ROWS, Row

_CONNECTIONS: Final = (1, 6)
_WARM_S: Final = 2.0
"""A server that has just started still loads what makes it faster."""
_HELD_MS_MAX: Final = 100.0
"""At the 99.9th percentile, on a quiet machine."""


class Felt(NamedTuple):
    """What one run of a row did to a server and to the connection that behaves well."""

    took_ms: Sequence[float]
    before_mb: float
    after_mb: float

    def at(self, share: float) -> float:
        ranked = sorted(self.took_ms)
        return ranked[min(int(share * len(ranked)), len(ranked) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="of each run; 10 are a thousand sends")
    parser.add_argument("--only", default="", help="rows with this text in their names")
    arguments = parser.parse_args()
    console = Console()
    table = Table(title="Milliseconds until a send is answered, one every 10 ms")
    for column in ("row", "connections", "p50", "p99", "p99.9", "max", "MB before", "after"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row in ROWS:
        if arguments.only in row.name:
            for connections in _CONNECTIONS:
                felt = run(row, connections, arguments.seconds)
                table.add_row(*_cells(row, connections, felt))
                console.print("  ".join(_cells(row, connections, felt)))
    console.print(table)


def run(row: Row, connections: int, seconds: float) -> Felt:
    """One row against a server of its own."""
    with tempfile.TemporaryDirectory(prefix="stalls-") as folder, contextlib.ExitStack() as stack:
        home = Path(folder)
        server = stack.enter_context(_started(row, home))
        prepare(row, server.port)
        if row.is_killed:
            server.process.kill()
            server = stack.enter_context(_started(row, home))
        else:
            probe(row, server.port, _WARM_S, topic="warm")
        before_mb = rss_mb(server.pid)
        with attacked(row, server.port, connections):
            took_ms = probe(row, server.port, seconds)
        return Felt(took_ms, before_mb, rss_mb(server.pid))


@contextlib.contextmanager
def _started(row: Row, home: Path) -> Iterator[Server]:
    start = servers.start_rocketline if row.at_name_server else brokers.start_rocketline
    server = start(home, has_speed=True)
    try:
        yield server
    finally:
        server.process.kill()


def _cells(row: Row, connections: int, felt: Felt) -> list[str]:
    held_ms = felt.at(0.999)
    mark = "[red]" if held_ms > _HELD_MS_MAX else ""
    figures = (felt.at(0.5), felt.at(0.99), held_ms, max(felt.took_ms))
    return [
        f"{mark}{row.name}", str(connections), *(f"{figure:,.1f}" for figure in figures),
        f"{felt.before_mb:,.0f}", f"{felt.after_mb:,.0f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
