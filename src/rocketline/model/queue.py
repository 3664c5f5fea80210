"""A queue of a topic: what messages are appended to and consumers share out."""

from __future__ import annotations

from dataclasses import dataclass

from rocketline.model.integers import Int32


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue, named by its topic, its broker and its number. Java: MessageQueue."""

    topic: str
    broker_name: str
    queue_id: Int32
