"""A stalled disk, requests that were read before it moved again, and those that wait however long."""

from __future__ import annotations

import pytest

from rocketline.broker.storing.admission import Admission
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command, response
from support.brokers.connections import channel
from support.brokers.sends import Sends, send_v2
from support.brokers.tables import tables
from support.stores.slow_files import SlowFileSystem


async def test_what_was_read_before_a_write_of_over_a_second_ended_is_refused(clock: FakeClock) -> None:
    """S225."""
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


LIMITS_S = {
    RequestCode.PULL_MESSAGE: 5,
    RequestCode.LITE_PULL_MESSAGE: 5,
    RequestCode.HEART_BEAT: 31,
    RequestCode.GET_BROKER_CONFIG: 5,
    RequestCode.LOCK_BATCH_MQ: 5,
    RequestCode.QUERY_MESSAGE: None,
    RequestCode.VIEW_MESSAGE_BY_ID: None,
    RequestCode.UNREGISTER_CLIENT: None,
    RequestCode.CHECK_CLIENT_CONFIG: None,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: None,
    RequestCode.UPDATE_CONSUMER_OFFSET: None,
    RequestCode.QUERY_CONSUMER_OFFSET: None,
    RequestCode.QUERY_ASSIGNMENT: None,
    RequestCode.SET_MESSAGE_REQUEST_MODE: None,
}


@pytest.mark.parametrize(("code", "limit_s"), LIMITS_S.items())
async def test_requests_wait_as_long_as_the_queue_of_their_kind_lets_them(
    clock: FakeClock, code: int, limit_s: int | None
) -> None:
    """Those of Apache's thread pools."""
    with tables(clock) as made:
        admission = Admission(made.store, lambda: 0, made.settings, clock)
        (handle,) = admission.guarded({code: lambda channel, request: response(0)}).values()
        peer, _ = channel(clock)
        clock.advance(3600 if limit_s is None else limit_s - 0.001)
        taken = handle(peer, Command(code))
        assert isinstance(taken, Command)
        assert taken.code == 0
        if limit_s is not None:
            clock.advance(0.001)
            refused = handle(peer, Command(code))
            assert isinstance(refused, Command)
            assert refused.code == 2
            assert str(refused.remark).startswith("[TIMEOUT_CLEAN_QUEUE]")
