"""Where Spark finds `format("rocketmq")`: it imports every top-level package `pyspark_…` for a `DefaultSource`.

The work is done in `rocketline.spark`.
"""

from __future__ import annotations

from rocketline.spark.sources.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
