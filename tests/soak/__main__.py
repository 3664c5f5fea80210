"""`make soak`: clients under load for SOAK_SECONDS; memory, tasks, threads and descriptors must stay flat."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from rocketline.testing import Server
from soak.load import Load
from soak.sampling import Sample, growth, take_sample
from support.clients.chaos import BEHIND

_LOOKS, _LINES = 600, 60
"""How often we look, and how often we say so. Connections are cut every three seconds: some looks come right after."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    with Server(process=True, brokers=2, settings={"bindAddress": BEHIND}) as server:
        samples = asyncio.run(soak(server, seconds))
    problems = growth(samples)
    print("\n".join(problems) or f"flat over {seconds:g} s")
    sys.exit(bool(problems))


async def soak(server: Server, seconds: float) -> list[Sample]:
    load, samples, begin_s = Load(server), [], time.monotonic()
    print(f"{'s':>5} {'MiB':>7} {'tasks':>6} {'threads':>8} {'fds':>5}  counts")
    async with load.running():
        for number in range(1, _LOOKS + 1):
            await asyncio.sleep(begin_s + number * seconds / _LOOKS - time.monotonic())
            sample = take_sample(time.monotonic() - begin_s)
            samples.append(sample)
            if number % (_LOOKS // _LINES) == 0:
                show(sample, load)
    return samples


def show(sample: Sample, load: Load) -> None:
    print(
        f"{sample.second:5.0f} {sample.memory_mib:7.1f} {sample.tasks:6} {sample.threads:8} "
        f"{sample.descriptors:5}  {dict(load.counts)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
