"""`rocketline store` on stores of Apache's broker, and Apache's broker on a store that was repaired."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.clock import SystemClock
from rocketline.errors import StoreLockedError
from rocketline.model.message import Message
from rocketline.store.config import StoreConfig
from rocketline.store.filesystem import DiskFileSystem
from rocketline.store.inspection.check import check_store
from rocketline.store.inspection.repair import repair_store
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from support.brokers.questions import BrokerQuestions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240, func_only=True)]

TOPIC, QUEUES, MESSAGES = "Orders", 4, 400
LOG_BYTES = 1 << 16
SETTINGS = {
    "mappedFileSizeCommitLog": str(LOG_BYTES),
    "mappedFileSizeConsumeQueue": str(20 * 50),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "600",
    "fileReservedTime": "720",
}


def store_config(home: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=home / "store",
        mapped_file_size_commit_log=LOG_BYTES,
        mapped_file_size_consume_queue=20 * 50,
        max_hash_slot_num=1000,
        max_index_num=600,
    )


def numbered(number: int) -> Message:
    properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number}", "TAGS": f"tag{number % 3}"}
    return Message.of(TOPIC, f"{number:010}".encode() * (1 + number % 8 * 20), properties)


def fill(broker: BrokerQuestions) -> None:
    broker.create_topic(TOPIC, queues=QUEUES)
    for number in range(MESSAGES):
        broker.send(numbered(number), number % QUEUES)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def place(store: Path, log_offset: int) -> tuple[Path, int]:
    """In which file, and where there."""
    at = log_offset % LOG_BYTES
    return store / "commitlog" / f"{log_offset - at:020}", at


def test_apaches_store_has_no_damage_and_is_refused_while_it_runs(release: Release, tmp_path: Path) -> None:
    with ApacheBroker(release, tmp_path, name_servers=(), settings=SETTINGS) as process:
        with BrokerQuestions(process.address, timeout_s=20) as broker:
            fill(broker)
            wait_until(lambda: sum(len(broker.queue(TOPIC, queue)) for queue in range(QUEUES)) == MESSAGES)
            wait_until(lambda: bool(broker.by_key(TOPIC, f"k{MESSAGES - 1}")))
        for work in (check_store, repair_store):
            with pytest.raises(StoreLockedError):
                work(DiskFileSystem(), SystemClock(), store_config(tmp_path))
        process.kill()
    killed = check_store(DiskFileSystem(), SystemClock(), store_config(tmp_path))
    assert killed.findings.is_clean, killed.findings.kept
    assert killed.records >= MESSAGES

    with ApacheBroker(release, tmp_path, name_servers=(), settings=SETTINGS) as process:
        process.close(timeout_s=60)
    stopped = check_store(DiskFileSystem(), SystemClock(), store_config(tmp_path))
    assert stopped.findings.is_clean, stopped.findings.kept
    assert stopped.units >= MESSAGES


def test_both_brokers_serve_a_repaired_store(release: Release, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, name_servers=(), settings=SETTINGS) as ours:
        with BrokerQuestions(ours.address, timeout_s=20) as broker:
            fill(broker)
            before = {queue: broker.queue(TOPIC, queue) for queue in range(QUEUES)}
        ours.close(timeout_s=60)
    store = tmp_path / "store"
    flipped, first_of_sector = before[0][5], before[1][60]
    overwrite(*place(store, flipped.log_offset + 90), b"\xff")
    sector = first_of_sector.log_offset
    overwrite(*place(store, sector + 10), b"\x55" * 512)
    overwrite(store / "consumequeue" / TOPIC / "2" / f"{0:020}", 100, b"\x77" * 200)
    missing = {2 * LOG_BYTES, max(int(path.name) for path in (store / "commitlog").iterdir())}
    for begin in missing:
        (store / "commitlog" / f"{begin:020}").unlink()
    lost = {
        message.log_offset
        for queue in before.values()
        for message in queue
        if message is flipped
        or sector <= message.log_offset < sector + 600
        or message.log_offset - message.log_offset % LOG_BYTES in missing
    }

    repaired = repair_store(DiskFileSystem(), SystemClock(), store_config(tmp_path))

    assert repaired.after.findings.is_clean, repaired.after.findings.kept
    port = free_port()
    for turn in range(3):  # Apache's is killed, which ends sooner, and ours has to recover
        server: ServerProcess = (
            BrokerProcess(tmp_path, name_servers=(), port=port, settings=SETTINGS)
            if turn == 1
            else ApacheBroker(release, tmp_path, name_servers=(), port=port, settings=SETTINGS)
        )
        with server as process:
            with BrokerQuestions(process.address, timeout_s=20) as broker:
                for queue, messages in before.items():
                    served = {message.queue_offset: message for message in broker.queue(TOPIC, queue)}
                    for message in messages:
                        if message.log_offset not in lost:
                            assert served.pop(message.queue_offset) == message
                    rest = [message for message in served.values() if message.queue_offset < len(messages)]
                    assert all(message.properties.get("DAMAGED") for message in rest)
                    assert broker.send(numbered(1000), queue).queue_offset == len(messages) + turn
            if turn == 1:
                process.close(timeout_s=60)
