"""What consumers must agree on with those in Java: who reads which queue, and what a file of offsets says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from rocketline.client.consumer.local_offsets import LocalFileOffsets, offset_path
from rocketline.model.queue import MessageQueue
from rocketline.testing.apache import Release
from support.apache.java_programs import run_java
from support.clients import allocations

pytestmark = pytest.mark.interop

CASES = 2000
CLIENT_ID, GROUP = "10.0.0.1@DEFAULT", "g"
ONE, TWO, THREE = (MessageQueue("Bestellung-ü", "b", number) for number in range(3))


def a_case(chance: random.Random) -> tuple[str, str, list[str], list[str]]:
    strategy = chance.choice(list(allocations.BY_NAME))
    rooms = ["r1", "r2", "r3"]
    brokers = {f"{chance.choice(rooms)}@broker-{chance.choice('abcü')}" for _ in range(chance.randint(1, 4))}
    clients = [
        f"{chance.choice(rooms)}@10.0.0.{chance.randint(1, 5)}#{chance.randint(1, 10**12)}"
        for _ in range(chance.randint(1, 8))
    ]
    queues = [
        f"T{chance.randint(0, 1)}:{broker}:{number}" for broker in brokers for number in range(chance.randint(1, 9))
    ]
    return strategy, chance.choice([*clients, "r1@stranger"]), clients, queues


def test_queues_are_shared_out_as_by_the_java_client(release: Release, tmp_path: Path) -> None:
    """C135, for all strategies."""
    chance = random.Random(135)
    cases = [a_case(chance) for _ in range(CASES)]
    text = "".join(
        f"{name}\t{client}\t{','.join(clients)}\t{','.join(queues)}\n" for name, client, clients, queues in cases
    )
    answers = run_java(release, tmp_path, "AllocateQueues", text=text)
    assert len(answers) == CASES
    for case, answer in zip(cases, answers, strict=True):
        expected = None if answer == "error" else answer.split(",") if answer else []
        assert allocations.allocate(*case) == expected, case


def text_of(queue: MessageQueue) -> str:
    return f"{queue.topic}:{queue.broker_name}:{queue.queue_id}"


def java_reads(release: Release, home: Path, *queues: MessageQueue) -> list[int]:
    return list(map(int, run_java(release, home, "KeepOffsets", CLIENT_ID, GROUP, *map(text_of, queues))))


def java_writes(release: Release, home: Path, offsets: Mapping[MessageQueue, int]) -> None:
    wanted = [f"{text_of(queue)}={offset}" for queue, offset in offsets.items()]
    run_java(release, home, "KeepOffsets", CLIENT_ID, GROUP, *wanted)


def test_file_of_offsets_goes_to_and_fro_between_java_and_us(release: Release, tmp_path: Path) -> None:
    """C194."""
    path = offset_path(CLIENT_ID, GROUP, tmp_path)
    offsets = LocalFileOffsets(path)
    offsets.save({ONE: 5, TWO: 2**40})
    assert java_reads(release, tmp_path, ONE, TWO, THREE) == [5, 2**40, -1]
    java_writes(release, tmp_path, {TWO: 7, THREE: 8})
    assert offsets.load() == {ONE: 5, TWO: 7, THREE: 8}
    offsets.save({ONE: 6})
    path.write_bytes(b"{")
    assert java_reads(release, tmp_path, ONE, TWO, THREE) == [5, 7, 8], "from our backup"
