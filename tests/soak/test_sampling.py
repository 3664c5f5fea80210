from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rocketline.client.sync.portal import Portal
from soak.sampling import Sample, growth, take_sample, unfinished_tasks


def samples(count: int, **per_sample: float) -> list[Sample]:
    return [
        Sample(
            n,
            100 + n * per_sample.get("memory_mib", 0) + n % 3,
            int(20 + n * per_sample.get("tasks", 0)) + n % 2,
            int(8 + n * per_sample.get("threads", 0)),
            int(30 + n * per_sample.get("descriptors", 0)) + n % 2,
        )
        for n in range(count)
    ]


def test_what_stays_is_flat() -> None:
    assert growth(samples(60)) == []


def test_whatever_grows_is_named() -> None:
    assert growth(samples(60, memory_mib=1))[0].startswith("memory in MiB: 13")
    for name in ("tasks", "threads", "descriptors"):
        assert [problem.split(":")[0] for problem in growth(samples(60, **{name: 0.2}))] == [name]


async def test_a_look_counts_tasks_and_threads() -> None:
    before = take_sample(0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(asyncio.sleep(0.01))
        assert {task, asyncio.current_task()} <= set(unfinished_tasks())
    assert task not in unfinished_tasks()
    assert before.tasks > 0
    assert before.threads > 0
    assert before.memory_mib > 1
    assert before.descriptors > 0


def test_tasks_of_loops_in_other_threads_count() -> None:
    async def look() -> tuple[asyncio.Task[Any] | None, Sample]:
        return asyncio.current_task(), await asyncio.wrap_future(elsewhere.submit(take_sample, 0))

    with ThreadPoolExecutor(1) as elsewhere, Portal("soak") as portal:
        before = take_sample(0)
        task, during = portal.call(look())
        assert during.tasks > before.tasks
    assert task not in unfinished_tasks()
