from __future__ import annotations

import asyncio

from soak.sampling import Sample, growth, take_sample


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
    loop = asyncio.get_running_loop()
    before = take_sample(0, [loop])
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0.01))
        assert take_sample(1, [loop]).tasks == before.tasks + 1
    assert before.memory_mib > 1
    assert before.descriptors > 0
