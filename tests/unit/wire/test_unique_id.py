from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.unique_id import UniqueIdGenerator, UniqueIdParts, month_span_ms

SHANGHAI = timezone(timedelta(hours=8))
IPV4, IPV6 = bytes([10, 1, 2, 3]), bytes.fromhex("fd000000000000000000000000000002")


def ms(year: int, month: int, day: int, second: int = 0, zone: timezone = UTC) -> int:
    return round(datetime(year, month, day, tzinfo=zone).timestamp() + second) * 1000


@pytest.fixture
def local_time_of_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rule is written out, because a bare machine has no table of zones."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def test_id_holds_address_process_time_and_counter() -> None:
    clock = FakeClock(wall_ms=ms(2026, 11, 1, second=1) + 5)
    ids = UniqueIdGenerator(IPV4, 0x12345, 0xDEADBEEF, clock, UTC)
    assert ids.make() == "0A0102032345DEADBEEF000003ED0000"
    assert ids.make() == "0A0102032345DEADBEEF000003ED0001"


def test_id_of_an_ipv6_host_has_56_characters() -> None:
    made = UniqueIdGenerator(IPV6, 1, 2, FakeClock(), UTC).make()
    assert len(made) == 56
    assert UniqueIdParts.parse(made).ip == IPV6


def test_negative_process_number_is_a_java_int() -> None:
    assert UniqueIdGenerator(IPV4, 1, -1, FakeClock(), UTC).make()[12:20] == "FFFFFFFF"


def test_counter_wraps_at_16_bits() -> None:
    ids = UniqueIdGenerator(IPV4, 1, 2, FakeClock(), UTC)
    made = [ids.make()[-4:] for _ in range(65537)]
    assert (made[65535], made[65536]) == ("FFFF", "0000")
    assert len(set(made)) == 65536


def test_time_starts_again_with_each_month_of_the_zone() -> None:
    last_ms = ms(2026, 12, 1, zone=SHANGHAI) - 1
    clock = FakeClock(wall_ms=last_ms)
    ids = UniqueIdGenerator(IPV4, 1, 2, clock, SHANGHAI)
    assert UniqueIdParts.parse(ids.make()).month_ms == 30 * 86_400_000 - 1
    clock.advance(0.001)
    assert UniqueIdParts.parse(ids.make()).month_ms == 0


def test_time_at_the_end_of_a_long_month_needs_all_32_bits() -> None:
    """Java's int is negative from the 25th day on; the digits are the same."""
    clock = FakeClock(wall_ms=ms(2027, 1, 1) - 1000)
    made = UniqueIdGenerator(IPV4, 1, 2, clock, UTC).make()
    assert UniqueIdParts.parse(made).month_ms == 31 * 86_400_000 - 1000 > 2**31


def test_clock_set_far_back_into_the_last_month_still_gives_ids() -> None:
    clock = FakeClock(wall_ms=ms(2026, 12, 1))
    ids = UniqueIdGenerator(IPV4, 1, 2, clock, UTC)
    first = ids.make()
    clock.advance(-3600)
    assert UniqueIdParts.parse(ids.make()).month_ms == 30 * 86_400_000 - 3_600_000
    clock.advance(3600)
    assert ids.make() != first


def test_clock_set_back_a_little_repeats_no_id() -> None:
    """C228: more ids than the counter has, at a time that was before."""
    clock = FakeClock(wall_ms=ms(2026, 12, 2))
    ids = UniqueIdGenerator(IPV4, 1, 2, clock, UTC)
    made = {ids.make() for _ in range(65_536)}
    clock.advance(-10)
    made |= {ids.make() for _ in range(70_000)}
    clock.advance(10)
    made |= {ids.make() for _ in range(1000)}
    assert len(made) == 65_536 + 70_000 + 1000


@pytest.mark.parametrize("ip", [b"", bytes(5), bytes(17)])
def test_address_that_is_none_is_refused(ip: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="4 or 16 bytes"):
        UniqueIdGenerator(ip, 1, 2, FakeClock())


def test_month_of_december_ends_in_january() -> None:
    assert month_span_ms(ms(2026, 12, 24), UTC) == (ms(2026, 12, 1), ms(2027, 1, 1))


@pytest.mark.usefixtures("local_time_of_berlin")
def test_month_is_by_local_time_unless_a_zone_is_given() -> None:
    """October has an hour more there: summer time ends."""
    start_ms, end_ms = month_span_ms(ms(2026, 10, 30))
    assert start_ms == ms(2026, 10, 1) - 2 * 3_600_000
    assert end_ms - start_ms == (31 * 24 + 1) * 3_600_000


def test_id_made_by_java_is_taken_apart() -> None:
    """From a Java 5.5.0 client at 1794788465631, on a machine in UTC."""
    parts = UniqueIdParts.parse("FD000000000000000000000000000002660830946E094D52B3DF0000")
    assert (parts.ip, parts.pid, parts.counter) == (IPV6, 0x6608, 0)
    assert month_span_ms(1794788465631, UTC)[0] + parts.month_ms == 1794788465631


@pytest.mark.parametrize("text", ["", "UB0", "FD0" * 10, "G" * 32])
def test_id_that_an_application_chose_cannot_be_taken_apart(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="32 or 56 hexadecimal digits"):
        UniqueIdParts.parse(text)
