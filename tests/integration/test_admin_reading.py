"""What administrators read of many and large messages."""

from __future__ import annotations

import random
import tracemalloc

from rocketline import Admin, Message, Producer
from rocketline.testing import Server


def test_looking_at_what_waits_keeps_no_message() -> None:
    """Ten thousand are looked at, which may have four megabytes each: all of them were in memory."""
    chance = random.Random(1)
    with Server() as server, Producer(server.address, group="g") as producer, Admin(server.address) as admin:
        server.create_topic("large", queues=1)
        for _ in range(100):
            producer.send(Message("large", chance.randbytes(400_000), deliver_after=3600))
        tracemalloc.start()
        try:
            assert len(admin.timers.moments().due_ms) == 100
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 25_000_000
