"""What a process holds, looked at again and again, and whether that grows."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import psutil


@dataclass(frozen=True, slots=True)
class Sample:
    """One look."""

    second: float
    memory_mib: float
    tasks: int
    threads: int
    descriptors: int


def take_sample(second: float, loops: Sequence[asyncio.AbstractEventLoop]) -> Sample:
    """A look at this process, and at the tasks of these loops."""
    gc.collect()
    process = psutil.Process()
    tasks = sum(len(asyncio.all_tasks(loop)) for loop in loops)
    return Sample(second, process.memory_info().rss / 2**20, tasks, threading.active_count(), process.num_fds())


def growth(samples: Sequence[Sample]) -> list[str]:
    """What is not flat: each figure's last third against its middle one. The first third is for warming up.

    Single looks vary, because work comes and goes; the medians of many may differ by a little all the same.
    """
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    figures: list[tuple[str, Callable[[Sample], float], float, float]] = [
        ("memory in MiB", lambda sample: sample.memory_mib, 0.05, 4.0),
        ("tasks", lambda sample: sample.tasks, 0.0, 2.0),
        ("threads", lambda sample: sample.threads, 0.0, 1.0),
        ("descriptors", lambda sample: sample.descriptors, 0.0, 2.0),
    ]
    problems = []
    for name, figure, share, slack in figures:
        was, now = median(map(figure, before)), median(map(figure, after))
        if now > was * (1 + share) + slack:
            problems.append(f"{name}: {was:.1f} in the middle, {now:.1f} in the end")
    return problems
