"""How long `rocketline serve` takes to start, on nothing and after a crash with a large log, and what it weighs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
from benchmarks.brokers import start_rocketline
from benchmarks.servers import Server
from rich.console import Console
from rich.table import Table

from crash import requests
from crash.fill import TOPIC, unique_key
from rocketline.testing.exchange import Exchange

_BODIES = (1024, 100)
_INDEX_S = 1800.0
_POLL_S = 0.1


def measure(home: Path, log_bytes: int, console: Console) -> None:
    """Print a table. Raises `ServerFailedError` if a broker does not come up."""
    table = Table("start", "messages", "serving", "CPU", "index complete", "memory", title="rocketline serve")
    server = start_rocketline(home / "empty", has_speed=True)
    try:
        table.add_row("on an empty store", "0", f"{server.start_s:.2f} s", _cpu(server), "", _memory(server))
    finally:
        server.process.close()
    for body in _BODIES:
        what = f"after a crash, {log_bytes >> 20} MiB of {body} B bodies"
        with console.status(f"{what}: filling …"):
            store = home / f"filled-{body}"
            command = [sys.executable, "-m", "crash.fill", str(store / "data" / "store"), str(body), str(log_bytes)]
            messages = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        with console.status(f"{what}: starting …"):
            table.add_row(what, f"{messages:,}", *_restart(store, messages))
    console.print(table)


def _restart(home: Path, messages: int) -> tuple[str, str, str, str]:
    began = time.perf_counter()
    server = start_rocketline(home, has_speed=True)
    try:
        cpu = _cpu(server)
        with Exchange(server.process.address, timeout_s=60) as exchange:
            while exchange.ask(requests.query(TOPIC, unique_key(messages - 1))).code != 0:
                assert time.perf_counter() - began < _INDEX_S, f"no complete index after {_INDEX_S:g} s"
                time.sleep(_POLL_S)
        complete_s = time.perf_counter() - began
        return f"{server.start_s:.2f} s", cpu, f"{complete_s:.1f} s", _memory(server)
    finally:
        server.process.kill()


def _cpu(server: Server) -> str:
    times = psutil.Process(server.pid).cpu_times()
    return f"{times.user + times.system:.2f} s"


def _memory(server: Server) -> str:
    return f"{psutil.Process(server.pid).memory_info().rss / 1e6:.0f} MB"
