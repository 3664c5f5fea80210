"""What no server would accept, found before anything is sent. Java: Validators."""

from __future__ import annotations

from typing import Final

from rocketline.errors import InvalidMessageError, InvalidNameError
from rocketline.model.message import Message, as_bytes
from rocketline.model.names import group_problem, is_sendable_topic, topic_problem
from rocketline.model.property_names import INNER_MULTI_DISPATCH

DEFAULT_GROUPS: Final = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})
"""What Java's clients are called until they get a name of their own."""


def check_group(group: str) -> None:
    """Raise `InvalidNameError` unless `group` can be the name of a producer's or consumer's group."""
    if problem := group_problem(group):
        raise InvalidNameError("group", group, problem)
    if group in DEFAULT_GROUPS:
        raise InvalidNameError("group", group, "this name stands for a group that has none yet: choose one of your own")


def check_topic(topic: str) -> None:
    """Raise `InvalidNameError` unless brokers accept `topic` as a name."""
    if problem := topic_problem(topic):
        raise InvalidNameError("topic", topic, problem)


def check_topic_to_send(topic: str) -> None:
    """Raise `InvalidNameError` unless clients may send to `topic`."""
    check_topic(topic)
    if not is_sendable_topic(topic):
        raise InvalidNameError("topic", topic, "only brokers write to this one: choose a topic of your own")


def check_message(message: Message, bytes_max: int) -> None:
    """Raise `InvalidMessageError` unless brokers accept a message like this. Its topic is not looked at."""
    size = len(as_bytes(message.topic, message.body))
    if not 0 < size <= bytes_max:
        raise InvalidMessageError(
            message.topic,
            f"the body has {size} bytes: {bytes_max} are allowed (message_bytes_max)" if size else "the body is empty",
        )
    if not -(2**31) <= message.flag < 2**31:
        raise InvalidMessageError(message.topic, f"the flag {message.flag} does not fit 32 bits")
    if INNER_MULTI_DISPATCH in message.properties and "/" in message.properties[INNER_MULTI_DISPATCH]:
        raise InvalidMessageError(message.topic, f"a queue named in {INNER_MULTI_DISPATCH} must not hold a slash")
