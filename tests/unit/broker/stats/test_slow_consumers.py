from __future__ import annotations

import pytest

from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.stats.slow_consumers import SlowConsumers
from support.brokers.saved_tables import SavedTables

LIMIT = 1000


def barred_after(behind: dict[str, int], *, is_on: str) -> dict[str, bool]:
    """Whether each group may consume after it was found to be that far behind."""
    tables = SavedTables(consumerFallbehindThreshold=str(LIMIT), disableConsumeIfConsumerReadSlowly=is_on)
    stats = BrokerStats(tables.settings, tables.clock)
    for group, size in behind.items():
        tables.groups.find(group)
        stats.get(group, "T", 0, 1, 100)
        stats.get(group, "T", 1, 1, 100, fall_bytes=size)
    SlowConsumers(stats, tables.groups, tables.settings).bar()
    groups = tables.restarted().groups
    return {group: config.consume_enable for group in behind if (config := groups.get(group)) is not None}


def test_groups_too_far_behind_are_barred_and_stay_so() -> None:
    allowed = barred_after({"fast": LIMIT, "slow": LIMIT + 1}, is_on="true")
    assert allowed == {"fast": True, "slow": False}


def test_many_groups_are_barred_by_one_write_and_told_of_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    tables = SavedTables(consumerFallbehindThreshold="1", disableConsumeIfConsumerReadSlowly="true")
    stats = BrokerStats(tables.settings, tables.clock)
    for number in range(50):
        tables.groups.find(f"g{number}")
        for queue_id in (0, 1):
            stats.get(f"g{number}", "T", queue_id, 1, 100, fall_bytes=LIMIT)
    before = tables.groups.version
    SlowConsumers(stats, tables.groups, tables.settings).bar()
    assert tables.groups.version == before + 1
    assert not any(tables.groups.find(f"g{number}").consume_enable for number in range(50))  # type: ignore[union-attr]
    assert len(caplog.records) == 1


def test_nobody_is_barred_unless_so_configured() -> None:
    assert barred_after({"slow": 2**40}, is_on="false") == {"slow": True}


def test_group_that_was_deleted_meanwhile_is_not_made_again() -> None:
    tables = SavedTables(consumerFallbehindThreshold="1", disableConsumeIfConsumerReadSlowly="true")
    stats = BrokerStats(tables.settings, tables.clock)
    stats.get("gone", "T", 0, 1, 100, fall_bytes=LIMIT)
    SlowConsumers(stats, tables.groups, tables.settings).bar()
    assert tables.groups.get("gone") is None
