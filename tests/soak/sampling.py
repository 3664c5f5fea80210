"""What a process holds, looked at again and again, and whether that grows."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class Sample:
    """One look."""

    second: float
    memory_mib: float
    tasks: int
    threads: int
    descriptors: int


def unfinished_tasks() -> list[asyncio.Task[Any]]:
    """Those of all loops in all threads: blocking clients have loops of their own, which nobody outside them names.

    The collector knows every task, also one that its loop has left behind. It lists them in one go, so that a thread
    that begins or ends a task meanwhile does not mind.
    """
    return [thing for thing in gc.get_objects() if issubclass(type(thing), asyncio.Task) and not thing.done()]


def take_sample(second: float) -> Sample:
    """A look at this process."""
    gc.collect()
    process = psutil.Process()
    memory_mib = process.memory_info().rss / 2**20  # before the list of tasks, which is a long one at first
    return Sample(second, memory_mib, len(unfinished_tasks()), threading.active_count(), process.num_fds())


def growth(samples: Sequence[Sample]) -> list[str]:
    """What is not flat: each figure's last third against its middle one. The first third is for warming up.

    Single looks vary, because work and connections come and go; the means of many may differ by a little all the same.
    Not medians: those jump from one common figure to the next if each is seen about half of the time.
    """
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    figures: list[tuple[str, Callable[[Sample], float], float, float]] = [
        ("memory in MiB", lambda sample: sample.memory_mib, 0.05, 4.0),
        ("tasks", lambda sample: sample.tasks, 0.0, 3.0),
        ("threads", lambda sample: sample.threads, 0.0, 1.0),
        ("descriptors", lambda sample: sample.descriptors, 0.0, 3.0),
    ]
    problems = []
    for name, figure, share, slack in figures:
        was, now = mean(map(figure, before)), mean(map(figure, after))
        if now > was * (1 + share) + slack:
            problems.append(f"{name}: {was:.1f} in the middle, {now:.1f} in the end")
    return problems
