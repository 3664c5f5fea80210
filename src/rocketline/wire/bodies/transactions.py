"""What a broker keeps of the half messages that wait."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.topic_config import DataVersion
from rocketline.record import record


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
