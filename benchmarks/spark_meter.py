"""What one run of Spark takes: rows per second, and processor time on each side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
JVM, PYTHON = "Spark's JVM", "Python workers"


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run."""

    rows: int
    wall_s: float
    cpu_s: Mapping[str, float]
    """By side: the JVM, its Python workers, and each broker by its name."""
    other_cores: float
    """What everything else on this machine took meanwhile."""

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.wall_s

    def cpu_us_per_row(self, side: str) -> float:
        return self.cpu_s.get(side, 0.0) / self.rows * 1e6


class Meter:
    """Measures runs of one Spark session."""

    def __init__(self, jvm_pid: int) -> None:
        self._jvm_pid = jvm_pid

    def measure(self, rows: int, brokers: Mapping[str, int], action: Callable[[], object]) -> Run:
        """Do it, and say what it took. `brokers` are the processes that serve it, by name."""
        before, busy_s, began_s = self._cpu(brokers), machine_cpu_s(), time.perf_counter()
        action()
        wall_s, busy_s = time.perf_counter() - began_s, machine_cpu_s() - busy_s
        after = self._cpu(brokers)
        cpu_s = {side: max(after[side] - before[side], 0.0) for side in after}
        own_s = sum(cpu_s.values())
        return Run(rows, wall_s, cpu_s, max(busy_s - own_s, 0.0) / wall_s)

    def _cpu(self, brokers: Mapping[str, int]) -> dict[str, float]:
        workers = psutil.Process(self._jvm_pid).children(recursive=True)
        jvm_s, ended_workers_s = _cpu_s(self._jvm_pid)
        return {
            JVM: jvm_s,
            PYTHON: ended_workers_s + sum(sum(_cpu_s(worker.pid)) for worker in workers),
            **{name: sum(_cpu_s(pid)) for name, pid in brokers.items()},
        }


def _cpu_s(pid: int) -> tuple[float, float]:
    """Of a process, and of those children that it has outlived; nothing of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    own, outlived = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own * _TICK_S, outlived * _TICK_S


def machine_cpu_s() -> float:
    """User, nice, system, interrupts: all that is neither idle nor waiting."""
    times = [int(number) for number in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(times[:3]) + sum(times[5:8])) * _TICK_S
