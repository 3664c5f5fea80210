from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rocketline.errors import InvalidMessageError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage


def stored(**properties: str) -> StoredMessage:
    host = HostAddress.parse("127.0.0.1:10911")
    return StoredMessage("T", b"", properties, 0, 0, QueueOffset(0), LogOffset(4096), 0, 0, host, 0, host)


def test_message_id_is_the_producers_own_if_there_is_one() -> None:
    assert stored(UNIQ_KEY="mine").message_id == "mine"
    assert stored().message_id == stored().offset_message_id == "7F00000100002A9F0000000000001000"


def test_tag_and_keys_come_from_properties() -> None:
    assert (stored().tag, stored().keys) == (None, [])
    message = stored(TAGS="TagA", KEYS=" k1  k2\tk3 ")
    assert (message.tag, message.keys) == ("TagA", ["k1", "k2\tk3"])


def test_messages_do_not_share_properties() -> None:
    one, other = Message("T", b""), Message("T", b"")
    one.properties["a"] = "b"
    assert other.properties == {}


def test_message_has_what_it_was_made_of() -> None:
    message = Message("T", bytearray(b"x"), tags="a", keys=["k1", "k2"], properties={"p": "v"}, sharding_key="s")
    assert (message.body, message.tags, message.keys, message.delay_level) == (b"x", "a", ["k1", "k2"], 0)
    assert message.properties == {"p": "v", "TAGS": "a", "KEYS": "k1 k2", "__SHARDINGKEY": "s"}
    assert message.user_properties == {"p": "v"}
    assert Message("T", b"x", keys="k1 k2").keys == ["k1", "k2"]
    assert message == Message("T", b"x", tags="a", keys="k1 k2", properties={"p": "v"}, sharding_key="s")


def test_message_waits_for_the_store_unless_told_otherwise() -> None:
    assert Message("T", b"x").waits_for_store
    assert "WAIT" not in Message("T", b"x").properties
    assert not Message("T", b"x", waits_for_store=False).waits_for_store


@pytest.mark.parametrize("name", ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "TRACE_ON"])
def test_property_names_of_rocketmq_are_refused(name: str) -> None:
    """C88."""
    with pytest.raises(InvalidMessageError, match="RocketMQ's own") as caught:
        Message("T", b"x", properties={name: "value"})
    assert caught.value.code == 13


@pytest.mark.parametrize(("name", "value"), [("", "v"), (" ", "v"), ("n", ""), ("n", " "), ("n", 3), (3, "v")])
def test_blank_or_odd_properties_are_refused(name: str, value: str) -> None:
    """C88."""
    with pytest.raises(InvalidMessageError, match="property"):
        Message("T", b"x", properties={name: value})


@pytest.mark.parametrize("body", ["text", None, 3])
def test_body_that_is_no_bytes_is_refused(body: bytes) -> None:
    """C82."""
    with pytest.raises(InvalidMessageError, match="not bytes"):
        Message("T", body)


def test_keys_with_blanks_and_negative_delays_are_refused() -> None:
    with pytest.raises(InvalidMessageError, match="blanks"):
        Message("T", b"x", keys=["a b"])
    with pytest.raises(InvalidMessageError, match="levels count from 1"):
        Message("T", b"x", delay_level=-1)


def test_tags_keys_and_delays_of_another_type_are_refused() -> None:
    with pytest.raises(InvalidMessageError, match=r"tags \['a', 'b'\]: a message has one tag"):
        Message("T", b"x", tags=["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match="key 42: a key is text"):
        Message("T", b"x", keys=[42])  # type: ignore[list-item]
    with pytest.raises(InvalidMessageError, match="delay level '3'"):
        Message("T", b"x", delay_level="3")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"deliver_at": datetime(2030, 1, 1)}, "has no time zone"),
        ({"deliver_at": 5}, "take deliver_after"),
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC), "deliver_after": 5}, "exclude each other"),
        ({"deliver_after": 5, "delay_level": 3}, "exclude each other"),
        ({"deliver_after": -0.001}, "later than it is sent"),
        ({"deliver_after": 1e30}, "longer than can be told"),
        ({"deliver_after": float("nan")}, "neither a timedelta nor a number"),
        ({"deliver_after": True}, "neither a timedelta nor a number"),
        ({"deliver_after": "5s"}, "neither a timedelta nor a number"),
    ],
)
def test_what_is_no_moment_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidMessageError, match=problem):
        Message("T", b"x", **given)


def test_moment_is_told_in_milliseconds_and_never_too_early() -> None:
    moment = datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))) + timedelta(microseconds=1)
    message = Message("T", b"x", deliver_at=moment)
    assert message.properties == {"TIMER_DELIVER_MS": "1893456000001"}
    assert message.deliver_at == datetime(2030, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    assert message.deliver_after is None


def test_time_from_now_is_seconds_or_a_timedelta() -> None:
    assert Message("T", b"x", deliver_after=0.1).properties == {"TIMER_DELAY_MS": "100"}
    message = Message("T", b"x", deliver_after=timedelta(days=2, microseconds=1))
    assert message.properties == {"TIMER_DELAY_MS": "172800001"}
    assert message.deliver_after == timedelta(days=2, milliseconds=1)
