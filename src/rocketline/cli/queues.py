"""A queue as people write it."""

from __future__ import annotations

import click

from rocketline.model.queue import MessageQueue


def parse_queue(topic: str, text: str) -> MessageQueue:
    """The queue that `broker-a:3` means of a topic. Raises `click.UsageError`.

    >>> parse_queue("orders", "broker-a:3")
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not (broker and number.isascii() and number.isdigit()):
        raise click.UsageError(f"{text!r} is no queue: write it as broker-a:3, the broker's name and the number")
    return MessageQueue(topic, broker, int(number))
