"""Where a message belongs that waits in a topic of the broker's own: half, delayed, or a timer."""

from __future__ import annotations

from rocketline.model import names, property_names
from rocketline.model.message import StoredMessage


def real_place(parked: StoredMessage) -> tuple[str, int] | None:
    """The topic and queue that the message is meant for; None if it does not say so, or if no client sends there: what
    goes from where messages wait to where messages wait comes to no end."""
    topic, queue = (parked.properties.get(name, "") for name in (property_names.REAL_TOPIC, property_names.REAL_QID))
    if not (topic and queue.isascii() and queue.isdecimal() and len(queue) <= 10 and int(queue) < 2**31):
        return None
    if not names.is_sendable_topic(topic):
        return None
    return topic, int(queue)
