"""What a broker keeps, opened and closed as a whole."""

from __future__ import annotations

import pytest

from rocketline.broker.storage import BrokerStorage
from rocketline.logs import Throttle
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.store.filesystem import FileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.message_codec import decode_records
from support.brokers.connections import broker_settings
from support.brokers.tables import HOST, ROOT, SMALL, message
from support.stores.small import flush


def opened(files: FileSystem, clock: FakeClock) -> BrokerStorage:
    settings = broker_settings(storePathRootDir=str(ROOT), **SMALL)
    return BrokerStorage(settings, files, clock, HOST, Throttle(clock))


def delivered(kept: BrokerStorage) -> list[bytes]:
    """What was delivered to the topic T."""
    return [
        message.body for record in kept.store.read("T", 0, 0, 32, None).records for message in decode_records(record)
    ]


def park(kept: BrokerStorage) -> None:
    """A message for T that is due in a second."""
    kept.store.append(message(SCHEDULE_TOPIC, b"late", DELAY="1", REAL_TOPIC="T", REAL_QID="0"))


@pytest.mark.parametrize("is_failing", [False, True])
def test_delayed_message_comes_after_the_next_start_if_its_delivery_did_not_reach_the_disk(is_failing: bool) -> None:
    clock = FakeClock()
    disk = FaultyFileSystem(clock)
    kept = opened(disk, clock)
    park(kept)
    flush(kept.store)
    clock.advance(2)
    kept.schedule.deliver()
    assert delivered(kept) == [b"late"]
    if is_failing:
        disk.fail(at=1, calls=["sync"])  # of the log, which loses the delivery
    kept.close()
    again = opened(disk.crash(Survival.NOTHING, seed=1), clock)
    again.schedule.deliver()

    assert delivered(again) == [b"late"]
    again.close()


def test_closed_broker_lets_go_of_its_folder() -> None:
    clock = FakeClock()
    disk = FaultyFileSystem(clock)
    opened(disk, clock).close()
    opened(disk, clock).close()
