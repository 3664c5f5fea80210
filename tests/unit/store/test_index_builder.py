"""The index kept in step with the log: record by record, or behind the back of a running store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rocketline.store.index import key_hashes, key_index
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.long_steps import outcome
from support.stores.small import (
    ROOT,
    SYNC,
    catch_up,
    die,
    fill,
    find_keys,
    flush,
    flush_queues,
    memory,
    message,
    open_store,
)

INDEX = ROOT / "index"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def reopened(store: MessageStore, files: MemoryFileSystem, clock: FakeClock) -> MessageStore:
    """After the death of the process."""
    die(store)
    return open_store(files, clock)


def test_dispatched_records_are_found_at_once_by_every_kind_of_key(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    sent = store.append(message("T", b"x", UNIQ_KEY="u", KEYS="a b", TAGS="t"))
    for kind, key in [("U", "u"), ("K", "a"), ("K", "b"), ("T", "t")]:
        assert outcome(store.index.find("T", key, 9, 0, 1 << 60, kind)) == [sent.log_offset], key
    assert outcome(store.index.find("T", "c", 9, 0, 1 << 60, "K")) == []
    assert (store.index.is_behind, store.index.behind_bytes) == (False, 0)
    assert store.index.last_update == (sent.store_ms, sent.log_offset)
    store.close()


def test_store_without_an_index_finds_nothing_and_is_never_behind(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, message_index_enable=False)
    fill(store, 3)
    assert find_keys(store, "k1") == []
    assert (store.index.is_behind, store.index.last_update, store.index.begin_sync()) == (False, (0, 0), None)
    assert not store.catch_up(10)
    store.close()
    assert not files.exists(INDEX)


def test_index_that_a_crash_took_is_rebuilt_in_steps_and_new_records_follow(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = open_store(files, clock)
    sent = fill(store, 8)
    store = reopened(store, files, clock)
    assert (store.index.is_behind, store.index.behind_bytes) == (True, store.max_log_offset)
    new = fill(store, 2)
    assert find_keys(store, "k8") == [], "the rebuilding will come to it"
    steps = 0
    while store.catch_up(40):
        steps += 1
        assert store.index.is_behind
    assert steps == 3
    assert not store.index.is_behind
    expected = [one.log_offset for one in (*sent, *new)]
    assert [find_keys(store, f"k{number}") for number in range(10)] == [[place] for place in expected]
    later = store.append(message("T", KEYS="later"))
    assert find_keys(store, "later") == [later.log_offset]
    store.close()


def test_rebuilding_waits_for_the_flush_of_what_nobody_may_read_yet(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, flush_disk_type=SYNC)
    fill(store, 2)
    die(store)
    store = open_store(files, clock, flush_disk_type=SYNC)
    fill(store, 1)
    catch_up(store)
    assert (find_keys(store, "k1") != [], find_keys(store, "k2")) == (True, [])
    flush(store)
    catch_up(store)
    assert find_keys(store, "k2") != []
    store.close()


def test_full_files_are_synced_and_the_checkpoint_says_until_when(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, max_index_num=4)
    fill(store, 1)
    assert store.index.begin_sync() is None, "no file is full"
    clock.advance(10)
    sent = fill(store, 6)
    flush_queues(store)
    assert sent[0].store_ms <= store.checkpoint.index_msg_timestamp <= sent[-1].store_ms
    store.close()


def test_rolled_back_records_are_not_in_a_rebuilt_index(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    fill(store, 1)
    half = message("T", b"x", KEYS="half")
    half.sys_flag = 0xC
    store.append(half)
    store = reopened(store, files, clock)
    catch_up(store)
    assert (find_keys(store, "k0"), find_keys(store, "half")) == ([0], [])
    store.close()


def test_entries_of_records_that_are_gone_leave_with_their_files(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, max_index_num=4)
    sent = fill(store, 12)
    flush_queues(store)
    before = len(files.list(INDEX))
    store.index.remove_before(sent[-1].log_offset)
    assert len(files.list(INDEX)) < before
    assert find_keys(store, "k11") == [sent[-1].log_offset]
    store.close()


def rich(store: MessageStore, number: int, keys: int = 10_000) -> int:
    """A message with so many keys, and one that no other has; its log offset."""
    return store.append(message("T", KEYS=" ".join([f"only{number}", *["k"] * keys]))).log_offset


def test_message_with_thousands_of_keys_costs_its_sender_nothing_and_is_found_soon(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds count keys, not records: neither an append nor a step of catching up hashes more than some."""
    hashed: list[int] = []
    hash_keys = key_hashes.hash_keys

    def counted(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
        hashed.append(len(keys))
        return hash_keys(topics, keys)

    monkeypatch.setattr(key_index, "hash_keys", counted)
    store = open_store(files, clock, max_index_num=300_000, max_hash_slot_num=5003, mapped_file_size_commit_log=2**20)
    told: list[bool] = []
    store.index.on_behind = lambda: told.append(True)
    fill(store, 1)
    places = [rich(store, number) for number in range(20)]
    after = store.append(message("T", KEYS="after"))
    assert (hashed, told, store.index.is_behind) == ([], [True], True)
    steps = 1
    while store.catch_up(4096):
        steps += 1
    assert steps >= 40
    assert find_keys(store, "k0") != []
    assert [find_keys(store, f"only{number}") for number in range(20)] == [[place] for place in places]
    assert find_keys(store, "after") == [after.log_offset]
    assert max(hashed) <= 3 * 2048
    store.close()


def test_keys_that_wait_in_memory_are_few_whatever_the_records(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, max_index_num=300_000, max_hash_slot_num=5003, mapped_file_size_commit_log=2**20)
    index = store.index._index
    assert index is not None
    for number in range(2000):
        rich(store, number, keys=90)
        assert sum(len(keys) for _, keys, _, _ in index._waiting) <= 32_768 * 16
        assert index._waiting_effort < 32_768
    assert not store.index.is_behind
    store.close()
