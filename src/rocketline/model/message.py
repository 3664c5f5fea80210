"""Messages: as a producer hands them over, and as a broker has stored them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rocketline.errors import InvalidMessageError
from rocketline.model import property_names
from rocketline.model.delivery_time import delay_of, moment_of, timer_property
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset

_NOWHERE = LogOffset(0)
_OWN_NAMES: Final = property_names.REFUSED_FOR_USERS | {property_names.SHARDING_KEY}


@dataclass(slots=True, init=False)
class Message:
    """What a producer sends. Java: Message.

    Sending leaves it as it is: the same message may be sent again and gets another id.

    >>> message = Message("orders", b"{}", tags="new", keys=["42", "43"], properties={"color": "red"}, delay_level=3)
    >>> message.tags, message.keys, message.delay_level, message.user_properties
    ('new', ['42', '43'], 3, {'color': 'red'})
    >>> Message("orders", b"{}", properties={"TAGS": "new"})
    Traceback (most recent call last):
        ...
    rocketline.errors.InvalidMessageError: message for topic 'orders': property 'TAGS' is RocketMQ's own: choose another
    """

    topic: str
    body: bytes
    flag: int
    """The application's own number; RocketMQ only carries it."""
    properties: dict[str, str]
    """All that travels with the message: the application's properties and RocketMQ's own."""

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        deliver_at: datetime | None = None,
        deliver_after: timedelta | float | None = None,
        sharding_key: str | None = None,
        waits_for_store: bool = True,
    ) -> None:
        """`properties` are the application's own. Raises `InvalidMessageError` for what could not be sent as meant.

        - `tags`: what consumers filter by. RocketMQ knows one tag for a message, for all its name.
        - `keys`: what the message can be found by in the broker's index; in one text, blanks divide them.
        - `delay_level`: 1 to 18 keeps the message back for 1 s to 2 h, as the broker has set its levels; 0 does not.
        - `deliver_at`: the moment of delivery, a datetime with its time zone; brokers take three days ahead by default.
        - `deliver_after`: the same counted from when the broker gets it, as a timedelta or in seconds.
        - `sharding_key`: notes by what an ordered message was given its queue.
        - `waits_for_store`: the broker answers only once the message is as safe as it is set up to make it.
        """
        self.topic, self.flag = topic, flag
        self.body = body if type(body) is bytes else as_bytes(topic, body)
        self.properties = found = {}
        if properties:
            for name, value in properties.items():
                _check_property(topic, name, value)
                found[name] = value
        if tags:
            if not isinstance(tags, str):
                raise InvalidMessageError(topic, f"tags {tags!r}: a message has one tag, which is text")
            found[property_names.TAGS] = tags
        if keys:
            found[property_names.KEYS] = keys if isinstance(keys, str) else " ".join(_checked_keys(topic, keys))
        if delay_level:
            found[property_names.DELAY] = str(_checked_level(topic, delay_level))
        if deliver_at is not None or deliver_after is not None:
            name, value = timer_property(topic, deliver_at, deliver_after, has_level=bool(delay_level))
            found[name] = value
        if sharding_key:
            found[property_names.SHARDING_KEY] = sharding_key
        if not waits_for_store:
            found[property_names.WAIT] = "false"

    @classmethod
    def of(cls, topic: str, body: bytes, properties: Mapping[str, str] | None = None, flag: int = 0) -> Message:
        """A message whose properties are taken as they are, RocketMQ's own among them."""
        made = cls(topic, body, flag=flag)
        if properties:
            made.properties.update(properties)
        return made

    @property
    def tags(self) -> str | None:
        return self.properties.get(property_names.TAGS)

    @property
    def keys(self) -> list[str]:
        """What the message can be found by in the broker's index."""
        return [key for key in self.properties.get(property_names.KEYS, "").split(" ") if key]

    @property
    def delay_level(self) -> int:
        return int(self.properties.get(property_names.DELAY, "0"))

    @property
    def deliver_at(self) -> datetime | None:
        """The moment of delivery, in UTC; None if it is not for a given one."""
        return moment_of(self.properties.get(property_names.TIMER_DELIVER_MS))

    @property
    def deliver_after(self) -> timedelta | None:
        """How long the broker keeps it back; None if it is not for a given time."""
        return delay_of(self.properties.get(property_names.TIMER_DELAY_MS))

    @property
    def waits_for_store(self) -> bool:
        """Java: isWaitStoreMsgOK."""
        return self.properties.get(property_names.WAIT, "true") == "true"

    @property
    def user_properties(self) -> dict[str, str]:
        """The application's own properties alone."""
        return {name: value for name, value in self.properties.items() if name not in _OWN_NAMES}


def as_bytes(topic: str, body: object) -> bytes:
    """The body of a message. Raises `InvalidMessageError` if it is none."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidMessageError(topic, f"the body is {type(body).__name__}, not bytes: encode it first")


def _check_property(topic: str, name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidMessageError(topic, f"property {name!r} = {value!r}: name and value must both be text")
    if name in property_names.REFUSED_FOR_USERS:
        raise InvalidMessageError(topic, f"property {name!r} is RocketMQ's own: choose another")
    if not name.strip() or not value.strip():
        raise InvalidMessageError(topic, f"property {name!r} = {value!r}: neither name nor value may be blank")


def _checked_level(topic: str, level: object) -> int:
    if not isinstance(level, int) or level < 0:
        raise InvalidMessageError(topic, f"delay level {level!r}: levels count from 1, and 0 is no delay")
    return level


def _checked_keys(topic: str, keys: Iterable[object]) -> Iterator[str]:
    for key in keys:
        if not isinstance(key, str) or not key or " " in key:
            raise InvalidMessageError(
                topic, f"key {key!r}: a key is text with no blanks, which divide keys, and not empty"
            )
        yield key


@dataclass(slots=True)
class StoredMessage:
    """One record of a commit log, as a broker keeps and delivers it. Java: MessageExt.

    Not frozen, because one is made for every message read; by habit nobody changes one that has been handed on.
    """

    topic: str
    body: bytes
    """As `sys_flag` says: compressed or not."""
    properties: dict[str, str]
    flag: int
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    """Java: physicalOffset, commitLogOffset."""
    sys_flag: int
    born_ms: int
    born_host: HostAddress
    store_ms: int
    store_host: HostAddress
    reconsume_times: int = 0
    prepared_log_offset: LogOffset = _NOWHERE
    """Of a committed transaction: where its half message lies. Java: preparedTransactionOffset."""
    version: int = 1
    """The record's layout: 1, or 2 if the topic's length takes two bytes."""

    @property
    def offset_message_id(self) -> str:
        return str(OffsetMessageId(self.store_host, self.log_offset))

    @property
    def message_id(self) -> str:
        """The id that the application sees: the producer's own, or else the broker's."""
        return self.properties.get(property_names.UNIQ_KEY) or self.offset_message_id

    @property
    def tag(self) -> str | None:
        return self.properties.get(property_names.TAGS)

    @property
    def keys(self) -> list[str]:
        """What the message can be found by in the broker's index."""
        return [key for key in self.properties.get(property_names.KEYS, "").split(" ") if key]
