from __future__ import annotations

import pytest

from rocketline.client.validation import check_group, check_message, check_topic, check_topic_to_send
from rocketline.errors import InvalidMessageError, InvalidNameError
from rocketline.model.message import Message


@pytest.mark.parametrize("group", ["G", "g" * 120, "%RETRY%x", "a|b-c_d"])
def test_group_with_a_proper_name_passes(group: str) -> None:
    check_group(group)


@pytest.mark.parametrize("group", ["", "g" * 121, "a b", "ü", "DEFAULT_PRODUCER", "DEFAULT_CONSUMER"])
def test_other_groups_are_named(group: str) -> None:
    with pytest.raises(InvalidNameError, match="group") as caught:
        check_group(group)
    assert (caught.value.name, caught.value.code) == (group, -1)


def test_topic_that_only_brokers_write_to_can_be_read() -> None:
    check_topic("SCHEDULE_TOPIC_XXXX")
    with pytest.raises(InvalidNameError, match="only brokers write"):
        check_topic_to_send("SCHEDULE_TOPIC_XXXX")


def test_body_has_its_bounds() -> None:
    check_message(Message("T", b"12345"), 5)
    with pytest.raises(InvalidMessageError, match="6 bytes: 5 are allowed"):
        check_message(Message("T", b"123456"), 5)
    with pytest.raises(InvalidMessageError, match="empty"):
        check_message(Message("T", b""), 5)


def test_body_is_bytes_whatever_was_put_there_later() -> None:
    message = Message("T", b"x")
    message.body = "text"  # type: ignore[assignment]
    with pytest.raises(InvalidMessageError, match="the body is str, not bytes: encode it first"):
        check_message(message, 5)
    message.body = bytearray(b"12345")  # type: ignore[assignment]
    check_message(message, 5)
