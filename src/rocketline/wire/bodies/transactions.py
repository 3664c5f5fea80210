"""What a broker keeps of transactions: how many half messages wait, and op messages, which note those that ended."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from rocketline.model.topic_config import DataVersion
from rocketline.record import record

REMOVED_TAG: Final = "d"
"""The half messages that it names have ended. Java: TransactionalMessageUtil.REMOVE_TAG."""
_DIGITS_MAX: Final = 19


@record
class HalfMessages:
    """Of one topic: how many, and when that changed. Java: TransactionMetrics.Metric."""

    count: int = 0
    time_stamp: int = 0


@record
class TransactionMetrics:
    """Of all topics. Java: TransactionMetricsSerializeWrapper."""

    data_version: DataVersion | None = None
    transaction_count: dict[str, HalfMessages] = field(default_factory=dict)


def ended_in(tag: str | None, body: bytes) -> list[int]:
    """The queue offsets that an op message names, each once. Brokers before 5.1 wrote one, without a comma.

    >>> ended_in("d", b"12,15,15,"), ended_in("d", b"7"), ended_in("other", b"7,")
    ([12, 15], [7], [])
    """
    if tag != REMOVED_TAG:
        return []
    texts = body.decode("ascii", "replace").split(",")
    return list(dict.fromkeys(int(text) for text in texts if text.isdecimal() and len(text) <= _DIGITS_MAX))
