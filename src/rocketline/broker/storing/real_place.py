"""Where a message belongs that waits in a topic of the broker's own: half, delayed, or a timer."""

from __future__ import annotations

from typing import Final

from rocketline.model import names, property_names
from rocketline.model.message import StoredMessage

_NAME_BYTES_MAX: Final = 255


def real_place(parked: StoredMessage) -> tuple[str, int] | None:
    """The topic and queue that the message is meant for; None if it does not say so.

    None, too, for a topic that no client sends to: what goes from where messages wait to where messages wait comes to
    no end.
    """
    topic, queue = (parked.properties.get(name, "") for name in (property_names.REAL_TOPIC, property_names.REAL_QID))
    if not (queue.isascii() and queue.isdecimal() and len(queue) <= 10 and int(queue) < 2**31):
        return None
    return (topic, int(queue)) if names.is_sendable_topic(topic) and _is_name(topic) else None


def _is_name(topic: str) -> bool:
    """There can be a folder of this name for the topic's queues. Apache's broker has topics that no client may name,
    and takes plain messages for the timer topic with whatever they say."""
    is_path = "/" in topic or "\0" in topic or topic in ("", ".", "..")
    return not is_path and len(topic.encode("utf-8", "replace")) <= _NAME_BYTES_MAX
