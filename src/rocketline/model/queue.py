"""A queue of a topic: what messages are appended to and consumers share out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketline.model.integers import Int32

QUEUES_MAX: Final = 16_384
"""Queues that one of our brokers gives a topic, and that any broker is believed to give. Apache's takes any number;
many commands go through all queues of a topic one by one."""


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue, named by its topic, its broker and its number. Java: MessageQueue."""

    topic: str
    broker_name: str
    queue_id: Int32
