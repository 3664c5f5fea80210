"""When files are deleted, and when messages are refused."""

from __future__ import annotations

import time

import pytest

from rocketline.store.retention import Decision, Retention, is_expired, is_hour
from support.stores.small import store_config

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def other_hour() -> str:
    return f"{(time.localtime(NOW_MS / 1000).tm_hour + 5) % 24:02}"


def decide(log_ratio: float, queue_ratio: float = 0.0, **changes: object) -> Decision:
    config = store_config(**{"delete_when": other_hour()} | changes)
    return Retention().decide(config, log_ratio=log_ratio, queue_ratio=queue_ratio, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("ratio", "decision"),
    [
        (0.10, Decision(is_disk_full=False, deletes_expired=False, deletes_any=False)),
        (0.75, Decision(is_disk_full=False, deletes_expired=False, deletes_any=False)),
        (0.76, Decision(is_disk_full=False, deletes_expired=True, deletes_any=False)),
        (0.85, Decision(is_disk_full=False, deletes_expired=True, deletes_any=False)),
        (0.86, Decision(is_disk_full=False, deletes_expired=True, deletes_any=True)),
        (0.90, Decision(is_disk_full=False, deletes_expired=True, deletes_any=True)),
        (0.91, Decision(is_disk_full=True, deletes_expired=True, deletes_any=True)),
        (1.00, Decision(is_disk_full=True, deletes_expired=True, deletes_any=True)),
    ],
)
def test_a_fuller_disk_leads_to_more(ratio: float, decision: Decision) -> None:
    assert decide(ratio) == decision
    assert decide(0.0, ratio) == decision, "the disk of the queues counts as much"


def test_marks_beyond_their_bounds_count_as_the_bounds() -> None:
    assert decide(0.91, disk_space_warning_level_ratio=99).is_disk_full
    assert not decide(0.35, disk_space_warning_level_ratio=1).is_disk_full
    assert decide(0.36, disk_space_warning_level_ratio=1).is_disk_full
    assert decide(0.11, disk_max_used_space_ratio=1).deletes_expired
    assert decide(0.86, disk_space_clean_forcibly_ratio=99).deletes_any


def test_files_are_not_deleted_before_their_time_if_that_is_forbidden() -> None:
    decision = decide(0.95, clean_file_forcibly_enable=False)
    assert decision == Decision(is_disk_full=True, deletes_expired=True, deletes_any=False)


def test_expired_files_are_deleted_at_their_hours() -> None:
    hour = time.localtime(NOW_MS / 1000).tm_hour
    assert decide(0.1, delete_when=f"{hour:02}").deletes_expired
    assert decide(0.1, delete_when=f"{other_hour()}; {hour}").deletes_expired
    assert not is_hour("", NOW_MS)
    assert not is_hour("noon;;", NOW_MS)


def test_an_administrator_asks_for_twenty_rounds() -> None:
    config, retention = store_config(delete_when=other_hour()), Retention()
    retention.delete_soon()
    rounds = [
        retention.decide(config, log_ratio=0.1, queue_ratio=0.1, now_ms=NOW_MS).deletes_expired for _ in range(22)
    ]
    assert rounds == [True] * 20 + [False] * 2


def test_a_file_expires_so_many_hours_after_its_last_change() -> None:
    config = store_config(file_reserved_time=72)
    assert is_expired(NOW_MS - 72 * HOUR_MS, config, NOW_MS)
    assert not is_expired(NOW_MS - 72 * HOUR_MS + 1, config, NOW_MS)
