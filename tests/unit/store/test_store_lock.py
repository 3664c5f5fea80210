"""A store's folder has one owner, and shows whether the last one came to an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketline.errors import StoreLockedError
from rocketline.store.store_lock import StoreLock
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival

ROOT = Path("store")


def test_a_folder_in_use_is_refused_and_one_let_go_is_not() -> None:
    files = FaultyFileSystem(FakeClock())
    lock = StoreLock(files, ROOT)
    with pytest.raises(StoreLockedError, match="store/lock is locked by process"):
        StoreLock(files, ROOT)
    lock.release()
    StoreLock(files, ROOT).release()


def test_an_end_without_closing_shows_at_the_next_start() -> None:
    files = FaultyFileSystem(FakeClock())
    lock = StoreLock(files, ROOT)
    assert lock.is_clean
    lock.mark_in_use()
    assert files.read_file(ROOT / "abort") == str(os.getpid()).encode()
    files = files.crash(Survival.NOTHING, seed=0)
    lock = StoreLock(files, ROOT)
    assert not lock.is_clean
    lock.mark_in_use()
    lock.mark_closed()
    assert StoreLock(files.crash(Survival.NOTHING, seed=0), ROOT).is_clean
