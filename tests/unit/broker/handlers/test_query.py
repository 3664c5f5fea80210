"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rocketline.broker.handlers.query import QueryHandlers
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.frame import FRAME_BYTES_MAX
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import Tables, tables
from support.long_steps import one_step


class Scene:
    """A store with messages, and the handlers that find them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._by_code = QueryHandlers(tables.store, tables.settings, one_step(tables.clock)).by_code()

    def ask(self, code: int, **ext: str) -> Command:
        channel: Any = None
        answer = self._by_code[code](channel, Command(code, ext))
        assert isinstance(answer, Command)
        return answer

    def query(self, key: str, **ext: str) -> Command:
        now_ms = self.tables.clock.wall_ms()
        span = {"beginTimestamp": str(now_ms - 60_000), "endTimestamp": str(now_ms + 60_000)}
        return self.ask(RequestCode.QUERY_MESSAGE, **{"topic": "T", "key": key, "maxNum": "10", **span, **ext})

    def found(self, key: str, **ext: str) -> list[bytes]:
        answer = self.query(key, **ext)
        assert answer.code == 0, answer.remark
        return [message.body for message in decode_records(answer.body)]


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with tables(clock) as made:
        yield Scene(made)


def test_key_finds_its_messages_in_log_order(scene: Scene) -> None:
    """S209."""
    scene.tables.append(b"one", KEYS="k other")
    scene.tables.append(b"two", KEYS="else")
    scene.tables.append(b"three", KEYS="k", queue_id=1)
    assert scene.found("k") == [b"one", b"three"]
    assert scene.found("other", indexType="K", lastKey="ignored") == [b"one"]


def test_unknown_key_and_wrong_time_find_nothing(scene: Scene) -> None:
    """S209."""
    scene.tables.append(KEYS="k")
    assert scene.query("unknown").code == 22
    assert scene.query("k", topic="U").code == 22
    late = {"beginTimestamp": "2000000000000", "endTimestamp": "2000000001000"}
    answer = scene.query("k", **late)
    assert (answer.code, answer.remark) == (22, "nothing found for k in that topic and time")
    assert answer.ext.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}


def test_unique_key_is_found_whatever_number_is_asked_for(scene: Scene) -> None:
    """S210."""
    scene.tables.append(b"one", UNIQ_KEY="AC11")
    assert scene.found("AC11", _UNIQUE_KEY_QUERY="true", maxNum="0") == [b"one"]
    assert scene.found("AC11", indexType="U") == [b"one"]


def test_no_message_asked_for_is_none_found_and_fewer_is_an_error(scene: Scene) -> None:
    scene.tables.append(KEYS="k")
    assert scene.query("k", maxNum="0").code == 22
    assert scene.query("k", maxNum="-1").code == 1


def test_tag_is_found_by_its_own_kind_of_query(scene: Scene) -> None:
    scene.tables.append(b"one", TAGS="red")
    assert scene.found("red", indexType="T") == [b"one"]
    assert scene.query("red").code == 22


def test_header_tells_how_far_the_index_is(scene: Scene) -> None:
    last = scene.tables.append(KEYS="k")
    ext = scene.query("k").ext
    assert ext["indexLastUpdatePhyoffset"] == str(last.log_offset)
    assert ext["indexLastUpdateTimestamp"] == str(last.store_ms)


def test_answer_holds_what_a_frame_carries(clock: FakeClock) -> None:
    with tables(clock, mappedFileSizeCommitLog=str(32 * 1024 * 1024)) as made:
        scene = Scene(made)
        for _ in range(6):
            made.append(b"x" * 4_000_000, KEYS="k")
        assert len(scene.found("k")) == 4
        assert len(scene.query("k").body) < FRAME_BYTES_MAX


def test_query_without_an_index_says_so(clock: FakeClock) -> None:
    with tables(clock, messageIndexEnable="false") as made:
        answer = Scene(made).query("k")
    assert answer.code == 22
    assert "messageIndexEnable=false" in str(answer.remark)


def test_message_is_found_by_its_place_in_the_log(scene: Scene) -> None:
    """S211."""
    scene.tables.append(b"one")
    second = scene.tables.append(b"two")
    answer = scene.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=str(second.log_offset))
    assert answer.code == 0
    assert [message.body for message in decode_records(answer.body)] == [b"two"]


@pytest.mark.parametrize("place", ["1", "-1", "99999999", "9223372036854775807"])
def test_place_where_no_message_begins_finds_none(scene: Scene, place: str) -> None:
    """S211."""
    scene.tables.append(b"one")
    answer = scene.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)
    assert (answer.code, answer.remark) == (1, f"there is no message at the log offset {place}")
