"""The store's settings: what counts where Apache clamps, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.settings import Flag, load
from rocketline.store.config import FlushDiskType, StoreConfig


def config(**values: str) -> StoreConfig:
    return load(StoreConfig, flags=[Flag("test", key, text) for key, text in values.items()]).value


@pytest.mark.parametrize(("given", "counts"), [("0", 35), ("50", 50), ("100", 90)])
def test_warning_level_counts_within_its_bounds(given: str, counts: int) -> None:
    assert config(diskSpaceWarningLevelRatio=given).disk_warning_percent == counts


@pytest.mark.parametrize(("given", "counts"), [("0", 30), ("50", 50), ("100", 85)])
def test_forcible_cleaning_level_counts_within_its_bounds(given: str, counts: int) -> None:
    assert config(diskSpaceCleanForciblyRatio=given).disk_clean_forcibly_percent == counts


@pytest.mark.parametrize(("given", "counts"), [("0", 10), ("50", 50), ("100", 95)])
def test_cleaning_level_counts_within_its_bounds(given: str, counts: int) -> None:
    assert config(diskMaxUsedSpaceRatio=given).disk_max_used_percent == counts


def test_log_lies_in_the_store_unless_it_is_put_elsewhere() -> None:
    assert config(storePathRootDir="/s").commit_log_path == Path("/s/commitlog")
    assert config(storePathRootDir="/s", storePathCommitLog="/fast/log").commit_log_path == Path("/fast/log")


def test_log_on_several_paths_is_refused() -> None:
    with pytest.raises(ConfigError, match="storePathCommitLog=/a,/b: a log on several paths is not supported"):
        config(storePathCommitLog="/a,/b")


@pytest.mark.parametrize("levels", ["1x", "1s 5s 10", "", "1s,5s"])
def test_delay_levels_that_no_store_could_start_with_are_refused(levels: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        config(messageDelayLevel=levels)


@pytest.mark.parametrize("hours", ["4,16", "24", "", "4;;16", "-1", "four", "²"])
def test_hours_that_never_come_are_refused(hours: str) -> None:
    with pytest.raises(ConfigError, match=f"deleteWhen={hours}: write hours from 0 to 23"):
        config(deleteWhen=hours)


@pytest.mark.parametrize("hours", ["04", "4", "0;23", "04; 16", "04;16;"])
def test_hours_of_the_day_are_taken(hours: str) -> None:
    assert config(deleteWhen=hours).delete_when == hours


def test_queue_files_hold_whole_units() -> None:
    assert config(mappedFileSizeConsumeQueue="41").consume_queue_file_bytes == 60


def test_flush_type_goes_by_apaches_names() -> None:
    assert config(flushDiskType="SYNC_FLUSH").flush_disk_type is FlushDiskType.SYNC_FLUSH
