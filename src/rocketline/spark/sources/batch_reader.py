"""Reading a topic once: `spark.read.format("rocketmq")`.

What is read is fixed when the frame is planned, at its first action: messages that come later are in the next frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketline.errors import ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import QueueExtent
from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.planning import data_loss
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.planning.planner import QueueRange, QueueRanges, plan
from rocketline.spark.planning.positions import resolve

if TYPE_CHECKING:
    import pyarrow as pa


class RocketMQBatchReader(DataSourceReader):
    """Reads the messages between two positions. Plain values only: it travels to executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    def partitions(self) -> list[InputPartition]:
        """The tasks. Raises for whatever is wrong, so that none of them starts."""
        from rocketline.spark.cluster.cluster import RocketMQCluster

        options = self._options
        with RocketMQCluster(options) as cluster:
            bounds = cluster.look().bounds
            if not bounds:
                raise ConfigError([f"subscribePattern={options.pattern!r}: no topic has such a name"])
            cluster.check_reading(bounds)
            starts = resolve(options.starting, bounds, cluster, option="starting")
            ends = resolve(options.ending, bounds, cluster, option="ending")
        ranges = batch_ranges(starts, ends, bounds, fails_on_data_loss=options.fail_on_data_loss)
        tasks = plan(
            ranges,
            min_partitions=options.min_partitions,
            records_max=options.records_per_partition_max,
            records_min=options.records_per_partition_min,
        )
        return list(tasks or [QueueRanges(())])  # without any, Spark would make one up that is none of ours

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor: the messages of one task."""
        from rocketline.spark.pulling.range_reader import read_ranges

        assert isinstance(partition, QueueRanges)
        yield from read_ranges(partition, self._options, self._columns)


def batch_ranges(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, QueueExtent],
    *,
    fails_on_data_loss: bool,
) -> list[QueueRange]:
    """What to read of each queue, kept within its bounds. Raises `DataLossError` if something would be left out."""
    ranges = []
    for queue, at in sorted(bounds.items()):
        start, end = starts[queue], ends[queue]
        is_empty = start >= end
        # No reader can have been where the queue never was, even if it wants nothing more.
        if start > at.high or (not is_empty and (start < at.low or end > at.high)):
            cause = data_loss.EXPIRED if start < at.low else data_loss.BEYOND_THE_END
            loss = DataLossError(queue, start, None if is_empty else end, (at.low, at.high), cause)
            data_loss.report(loss, fails=fails_on_data_loss)
        low, high = (min(max(offset, at.low), at.high) for offset in (start, end))
        ranges.append(QueueRange(queue.topic, queue.broker_name, queue.queue_id, low, max(low, high)))
    return ranges
