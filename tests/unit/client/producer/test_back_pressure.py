from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from rocketline.client.producer.back_pressure import Permits, SendRoom


def test_message_bigger_than_all_the_room_goes_alone() -> None:
    room = SendRoom(count_max=10, bytes_max=100)
    assert room.take(500)
    assert not room.take(1)
    room.give(500)
    assert room.take(1)
    assert not room.take(500)
    assert room.count == 1


def test_permits_are_exact_whichever_threads_take_them() -> None:
    permits = Permits(1000)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(5):
                assert sum(threads.map(lambda _: _take_all(permits), range(8))) == 1000
                list(threads.map(lambda _: permits.give(), range(1000)))
    finally:
        sys.setswitchinterval(before)


def _take_all(permits: Permits) -> int:
    count = 0
    while permits.take():
        count += 1
    return count
