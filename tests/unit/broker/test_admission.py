"""A stalled disk, and requests that were read before it moved again."""

from __future__ import annotations

from broker_clients import channel
from broker_tables import tables
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command
from sends import Sends, send_v2
from slow_files import SlowFileSystem


async def test_what_was_read_before_a_write_of_over_a_second_ended_is_refused(clock: FakeClock) -> None:
    """H.16 225"""
    files = SlowFileSystem(clock)
    with tables(clock, files) as made:
        sends, (peer, _) = Sends(made), channel(clock)
        async with sends.flusher:
            peer.read_s = clock.monotonic()
            files.seconds = 1.5
            first = sends.handle(peer, send_v2())
            assert isinstance(first, Command)
            assert first.code == 0
            files.seconds = 0.0
            second = sends.handle(peer, send_v2())
            assert isinstance(second, Command)
            assert second.code == 2
            assert str(second.remark).startswith("[PCBUSY_CLEAN_QUEUE]")
            assert not sends.admission.takes_sends(peer.read_s)
            peer.read_s = clock.monotonic()
            third = sends.handle(peer, send_v2())
            assert isinstance(third, Command)
            assert third.code == 0
            assert sends.admission.takes_sends(peer.read_s)
