"""The fast twin of the pull handler: what it leaves alone, and what it remembers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rocketline.broker.hot_path import BrokerHotPath
from rocketline.broker.pulls import hot_path
from rocketline.broker.storing.admission import Admission
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.command import Command
from support.brokers.pulls import COMMIT, SUBSCRIPTION, SUSPEND, Pulls, bodies, pull
from support.brokers.tables import Tables, tables


class Scene:
    """A broker's tables and the path, over a connection of which nothing is asked."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.pulls = tables, Pulls(tables)

    def answer(self, request: Command) -> Command | None:
        data = self.pulls.answer(None, request.ext, 7)
        return None if data is None else frame.decode(data)


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with tables(clock) as made:
        yield Scene(made)


def test_pull_that_finds_messages_is_answered(scene: Scene) -> None:
    scene.tables.append(b"one")
    answer = scene.answer(pull(0, flags=SUBSCRIPTION | COMMIT, commitOffset="4"))
    assert answer is not None
    assert (bodies(answer), answer.opaque, answer.flag) == ([b"one"], 7, 1)
    assert scene.tables.offsets.query("g", "T", 0) == 4


def test_pull_that_has_to_wait_is_left_alone_and_commits_nothing(scene: Scene) -> None:
    assert scene.answer(pull(0, flags=SUBSCRIPTION | COMMIT | SUSPEND, commitOffset="4")) is None
    assert scene.tables.offsets.query("g", "T", 0) == -1


def test_time_that_reading_took_is_counted(scene: Scene, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.tables.append(b"one")
    read_run, stats = scene.tables.store.read_run, scene.tables.stats

    def read_slowly(*asked: object) -> object:
        clock.advance(0.03125)
        return read_run(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(scene.tables.store, "read_run", read_slowly)
    assert scene.answer(pull(0)) is not None
    for _ in range(10):
        clock.advance(1)
        stats.tick()
    told = stats.data("GROUP_GET_LATENCY", "0@T@g")
    assert told is not None
    assert (told.stats_minute.sum, int(stats.throughput.get_ms_max)) == (31, 31)


def test_refusals_are_left_alone(scene: Scene) -> None:
    assert scene.answer(pull(topic="unknown")) is None
    assert scene.answer(pull(queueId="2")) is None
    assert scene.answer(pull(flags=0)) is None


def test_disk_that_cannot_be_read_is_left_to_the_handler(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(scene.tables.store, "read", fail)
    assert scene.answer(pull()) is None


def test_group_that_cannot_be_saved_is_left_to_the_handler(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(scene.tables.groups, "find", fail)
    assert scene.answer(pull()) is None


def test_checks_run_once_for_pulls_of_a_queue_that_differ_in_their_offsets_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.tables.groups.find("g")  # or the first pull would make it, and forget all that is known of groups
    assert scene.answer(pull(0)) is not None
    monkeypatch.delattr("rocketline.broker.pulls.checks.PullChecks.admit")
    assert scene.answer(pull(3, commitOffset="9")) is not None


def test_no_more_is_remembered_than_the_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_path, "_KEPT_MAX", 10)
    for number in range(100):
        assert scene.answer(pull(0, subscription=f"tag{number}")) is not None
        assert scene.answer(pull(0, subscription=f"tag{number}" + "x" * 5000)) is not None
    assert len(scene.pulls.path._known) <= 10


class Slow:
    """Pulls that look at many messages and find none."""

    def __init__(self, reply: bytes) -> None:
        self.reply, self.asked = reply, 0

    def answer(self, channel: object, asked: object) -> bytes:
        self.asked += 1
        return self.reply


@pytest.mark.parametrize(("reply", "count"), [(b"nothing", 8), (bytes(1000), 100)])
def test_pulls_that_bring_nothing_end_a_call_soon(scene: Scene, clock: FakeClock, reply: bytes, count: int) -> None:
    """One may have looked at thousands of messages, and a read brings hundreds of pulls."""
    tables, pulls = scene.tables, Slow(reply)
    admission = Admission(tables.store, lambda: 0, tables.settings, clock)
    data = frame.encode(pull(0))
    peer: Any = SimpleNamespace(read_s=clock.monotonic())
    nothing = lambda _, __, start, ___: (start, b"", 0)  # noqa: E731
    hot_path = BrokerHotPath(nothing, pulls, {}, admission)
    end, replies, later = hot_path(peer, data * 100, 0, 256 * 1024)
    assert (end, replies, later, pulls.asked) == (count * len(data), reply * count, 0, count)
