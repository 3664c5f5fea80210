"""The two ways to share queues out that brokers know as well as clients. Both sides count alike."""

from __future__ import annotations

from collections.abc import Sequence

from rocketline.model.queue import MessageQueue


def contiguous_share(place: int, count: int, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """Neighbouring queues for the client at `place` of `count`; the first clients get one more if need be.

    Java: AllocateMessageQueueAveragely.
    """
    size, rest = divmod(len(queues), count)
    start = place * size + min(place, rest)
    return queues[start : start + size + (place < rest)]


def circular_share(place: int, count: int, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """Every `count`-th queue, beginning at `place`. Java: AllocateMessageQueueAveragelyByCircle."""
    return queues[place::count]
