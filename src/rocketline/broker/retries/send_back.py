"""A message that its consumer could not handle: when it comes again, or that it has come often enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rocketline.model import property_names
from rocketline.model.delay_levels import FIRST_RETRY_LEVEL
from rocketline.model.ids import HostAddress, LogOffset
from rocketline.model.message import StoredMessage

_TIMES_MAX = 2**31 - 1
"""What a record can hold; the number comes from a client."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Where a message goes that was sent back."""

    topic: str
    queue_id: int
    delay_level: int
    """Zero: it does not wait."""


def is_dead(message: StoredMessage, delay_level: int, times_max: int) -> bool:
    """The message has been retried often enough, or its consumer does not want it again.

    It is the message as it was consumed, so `reconsume_times` does not count this failure yet: with as many retries as
    there may be it is dead. `sends.handler` compares otherwise, because there the failure is counted.
    """
    return message.reconsume_times >= times_max or delay_level < 0


def next_level(message: StoredMessage, delay_level: int) -> int:
    """The level that the consumer asks for; zero leaves it to the number of retries so far."""
    return delay_level or FIRST_RETRY_LEVEL + message.reconsume_times


def sent_back(message: StoredMessage, retry: Retry, store_host: HostAddress) -> StoredMessage:
    """The message as it is stored again: the same body, and properties that tell where it first was."""
    properties = {**message.properties, property_names.DELAY: str(retry.delay_level)}
    properties.setdefault(property_names.RETRY_TOPIC, message.topic)
    if not properties.get(property_names.ORIGIN_MESSAGE_ID, "").strip():
        properties[property_names.ORIGIN_MESSAGE_ID] = message.offset_message_id
    return replace(
        message,
        topic=retry.topic,
        queue_id=retry.queue_id,
        properties=properties,
        store_host=store_host,
        reconsume_times=min(message.reconsume_times + 1, _TIMES_MAX),
        prepared_log_offset=LogOffset(0),
        version=1,
    )
