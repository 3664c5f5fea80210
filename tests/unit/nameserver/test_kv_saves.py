"""Changes of the KV configuration: saved off the loop, many by one write, within bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketline.nameserver import kv_saves
from rocketline.nameserver.kv_config import KvChange, KvConfig, Namespaces
from rocketline.nameserver.kv_saves import KEYS_MAX, KvSaves
from support.name_servers.kv_changes import put


class CountedKv(KvConfig):
    """Counts its writes, and can be made to fail."""

    writes = 0
    problem: OSError | None = None

    def write(self, namespaces: Namespaces) -> None:
        self.writes += 1
        if self.problem is not None:
            raise self.problem
        super().write(namespaces)


@pytest.fixture
def kv(tmp_path: Path) -> CountedKv:
    return CountedKv(tmp_path / "kvConfig.json")


def change(saves: KvSaves, *change: str) -> asyncio.Future[OSError | None]:
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    refusal = saves.change(KvChange(*change), done.set_result)
    if refusal:
        done.set_exception(ValueError(refusal))
    return done


async def test_many_changes_of_one_turn_are_one_write(kv: CountedKv) -> None:
    async with KvSaves(kv) as saves:
        outcomes = await asyncio.gather(*(change(saves, "ns", f"k{number % 10}", str(number)) for number in range(500)))
    assert set(outcomes) == {None}
    assert kv.writes <= 2
    assert kv.table("ns") == {f"k{number}": str(490 + number) for number in range(10)}
    assert KvConfig.load(kv._path).namespaces == kv.namespaces


async def test_change_is_seen_when_it_is_saved_and_not_before(kv: CountedKv) -> None:
    async with KvSaves(kv) as saves:
        saved = change(saves, "ns", "k", "v")
        assert kv.get("ns", "k") is None
        assert await saved is None
        assert kv.get("ns", "k") == "v"


async def test_failed_write_changes_nothing_and_everybody_is_told(kv: CountedKv) -> None:
    async with KvSaves(kv) as saves:
        kv.problem = OSError(28, "full")
        told = await asyncio.gather(change(saves, "ns", "a", "1"), change(saves, "ns", "b", "2"))
        assert set(told) == {kv.problem}
        assert (kv.namespaces, kv.version) == ({}, 0)
        kv.problem = None
        assert await change(saves, "ns", "a", "1") is None


async def test_leaving_waits_for_what_is_being_saved(kv: CountedKv) -> None:
    async with KvSaves(kv) as saves:
        saved = change(saves, "ns", "k", "v")
    assert saved.done()
    assert KvConfig.load(kv._path).get("ns", "k") == "v"


async def test_keys_and_characters_have_a_bound(kv: CountedKv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_saves, "SIZE_MAX", 2000)
    async with KvSaves(kv) as saves:
        assert await change(saves, "ns", "long", "x" * 1500) is None
        with pytest.raises(ValueError, match="more than 2000 characters"):
            await change(saves, "ns", "other", "x" * 600)
        with pytest.raises(ValueError, match="wait to be saved"):
            await asyncio.gather(*(change(saves, "ns", f"k{number}") for number in range(100)))
        await saves._is_idle.wait()
        assert await change(saves, "ns", "long", "short") is None, "what takes less room is taken"
        assert await change(saves, "ns", "other", "x" * 600) is None
    monkeypatch.setattr(kv_saves, "KEYS_MAX", 2)
    async with KvSaves(kv) as saves:
        with pytest.raises(ValueError, match="2 keys already"):
            await change(saves, "ns", "third", "")
    assert KEYS_MAX == 10_000


async def test_namespaces_without_keys_have_a_bound(kv: CountedKv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_saves, "KEYS_MAX", 10)
    async with KvSaves(kv) as saves:
        for number in range(10):
            await change(saves, f"ns{number}", "k", "v")
            await change(saves, f"ns{number}", "k")
        with pytest.raises(ValueError, match="10 keys already"):
            await change(saves, "another", "k", "v")
    assert kv.size == sum(len(namespace) for namespace in kv.namespaces)
    assert len(kv.namespaces) == 10


async def test_what_is_being_saved_counts(kv: CountedKv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_saves, "KEYS_MAX", 10)
    async with KvSaves(kv) as saves:
        first = [change(saves, "ns", f"a{number}", "v") for number in range(8)]
        await asyncio.sleep(0)
        assert not saves._waiting, "they are being saved"
        more = [change(saves, "ns", f"b{number}", "v") for number in range(8)]
        outcomes = await asyncio.gather(*first, *more, return_exceptions=True)
        assert [isinstance(outcome, ValueError) for outcome in outcomes] == [False] * 10 + [True] * 6
    assert kv.key_count == 10


def test_body_is_encoded_once_for_each_change(kv: CountedKv) -> None:
    assert kv.body("ns") is None
    put(kv, "ns", "k", "v")
    body = kv.body("ns")
    assert body == b'{"table":{"k":"v"}}'
    assert kv.body("ns") is body
    put(kv, "ns", "k", "w")
    assert kv.body("ns") == b'{"table":{"k":"w"}}'
