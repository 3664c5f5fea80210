"""Replies to messages that are requests: as a handler gives them back, and as they reach whoever asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import InvalidMessageError, NotARequestError
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.names import reply_topic

MSG_TYPE_REPLY: Final = "reply"
"""What the property MSG_TYPE of a reply says. Java: REPLY_MESSAGE_FLAG."""
_COPIED: Final = (property_names.CORRELATION_ID, property_names.REPLY_TO_CLIENT, property_names.TTL)


class Reply(Message):
    """What a handler returns to answer a request, made by `reply`. A producer can send it, too."""

    __slots__ = ("request",)

    request: ReceivedMessage
    """What it answers."""


def reply(
    request: ReceivedMessage,
    body: bytes | bytearray | memoryview,
    *,
    tags: str | None = None,
    keys: str | Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    flag: int = 0,
) -> Reply:
    """The reply to a message that was sent with `producer.request`: what a handler returns. Java: createReplyMessage.

    The other parameters are those of `Message`. Raises `NotARequestError` for a message that nobody waits for an
    answer to, and `InvalidMessageError`.
    """
    if not body:
        raise InvalidMessageError(request.topic, "the reply to it is empty: brokers and Java's clients want one byte")
    cluster = request.properties.get(property_names.CLUSTER)
    missing = [name for name in (property_names.CLUSTER, *_COPIED[:2]) if not request.properties.get(name)]
    if missing or cluster is None:
        raise NotARequestError(request.message_id, request.topic, missing)
    made = Reply(reply_topic(cluster), body, tags=tags, keys=keys, properties=properties, flag=flag)
    made.request = request
    made.properties[property_names.MSG_TYPE] = MSG_TYPE_REPLY
    for name in _COPIED:
        if name in request.properties:
            made.properties[name] = request.properties[name]
    return made


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """What `producer.request` returns. Java: the MessageExt of a request's future.

    A reply is passed on by a broker and has no place in a queue.
    """

    body: bytes
    properties: dict[str, str]
    """The application's and RocketMQ's own, by their names in `property_names`."""
    flag: int
    """The application's own number."""
    topic: str
    """The cluster's reply topic."""
    born_ms: int
    """When the replier made it, by the replier's clock."""
    born_host: str
    """Whom the broker had it from, `ip:port`."""
    store_ms: int
    """When the broker passed it on, by the broker's clock."""
    store_host: str
    """The broker that passed it on, `ip:port`."""

    @property
    def correlation_id(self) -> str:
        """What request and reply have in common."""
        return self.properties.get(property_names.CORRELATION_ID, "")

    @property
    def message_id(self) -> str:
        """The id that the replier gave it; empty if it has none."""
        return self.properties.get(property_names.UNIQ_KEY, "")

    @property
    def tags(self) -> str | None:
        return self.properties.get(property_names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get(property_names.KEYS, "").split())
