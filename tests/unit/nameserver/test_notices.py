"""Notices of a new smallest id: bounded, and none after the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketline.logs import Throttle
from rocketline.nameserver.notices import Notices
from rocketline.nameserver.registration import MinBrokerIdChange
from rocketline.testing.fake_clock import FakeClock

CHANGE = MinBrokerIdChange(0, "127.0.0.1:1", None, None, ("no address", "no address either"))


def make(clock: FakeClock, *, unsent_max: int) -> Notices:
    return Notices(unsent_max=unsent_max, tls=None, clock=clock, log=Throttle(clock, name="notices"))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without what a loop in debug mode says of steps that took long."""
    return [record.getMessage() for record in caplog.records if record.name == "notices"]


async def test_notice_over_the_bound_is_dropped_with_a_line_in_the_log(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "notices"):
        async with make(clock, unsent_max=1) as notices:
            notices.send(CHANGE)
    assert told(caplog) == ['notice dropped: 1 are on their way broker="no address either"']


async def test_recipient_that_is_no_address_costs_a_line_in_the_log(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "notices"):
        async with make(clock, unsent_max=9) as notices:
            notices.send(CHANGE)
            await asyncio.sleep(0)
    assert "notice not delivered" in told(caplog)[0]


async def test_nothing_is_sent_after_the_end(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    notices = make(clock, unsent_max=9)
    async with notices:
        pass
    with caplog.at_level(logging.WARNING, "notices"):
        notices.send(CHANGE)
    assert caplog.records == []
