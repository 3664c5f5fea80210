"""Delay levels: from the setting's text to milliseconds."""

from __future__ import annotations

import pytest

from rocketline.errors import ConfigError
from rocketline.model.delay_levels import DelayLevels
from rocketline.store.config import StoreConfig


def test_default_levels_run_from_one_second_to_two_hours() -> None:
    levels = DelayLevels.parse(StoreConfig().message_delay_level)
    assert [levels.delay_ms(level) for level in (1, 3, 5, 18)] == [1_000, 10_000, 60_000, 7_200_000]
    assert levels.max_level == 18


def test_level_beyond_the_last_is_the_last() -> None:
    """S147: DELAY=99 means level 18, which is two hours."""
    levels = DelayLevels.parse(StoreConfig().message_delay_level)
    assert levels.capped(99) == 18
    assert levels.capped(2) == 2


def test_days_are_a_unit_too() -> None:
    assert DelayLevels.parse(" 2d  1s ").delay_ms(1) == 2 * 86_400_000


@pytest.mark.parametrize("text", ["", "  ", "5", "s", "5x", "-1s", "1.5s", "٣s", "1 s", "9999999999999s"])
def test_text_that_is_no_time_is_refused_and_named(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        DelayLevels.parse(text)
