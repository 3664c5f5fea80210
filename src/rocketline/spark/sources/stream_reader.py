"""Reading a topic for ever: `spark.readStream.format("rocketmq")`.

One process on the driver has this object for the whole query and asks it for offsets; executors have copies of another
one and read. Positions are decided in `stream_positions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.planning.offsets import initial_offset, ranges_between
from rocketline.spark.planning.planner import QueueRanges, plan
from rocketline.spark.planning.stream_positions import StreamPositions

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketline.spark.cluster.cluster import RocketMQCluster


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offsets, the limits and the tasks of a stream. Nothing is connected before it is asked for, nor pickled."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    def __reduce__(self) -> tuple[type[RocketMQStreamReader], tuple[SourceOptions, tuple[str, ...]]]:
        return type(self), (self._options, self._columns)

    # --- in the driver's process

    @cached_property
    def _cluster(self) -> RocketMQCluster:
        from rocketline.spark.cluster.cluster import RocketMQCluster

        return RocketMQCluster(self._options)

    @cached_property
    def _positions(self) -> StreamPositions:
        return StreamPositions(self._options, self._cluster)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # the names are Spark's
        return initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most, least = self._options.offsets_per_trigger_max, self._options.offsets_per_trigger_min
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._positions.freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._positions.latest(start, most, waits=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._positions.heads()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks: a function of the two offsets, for a micro-batch may be run again by another process."""
        options = self._options
        return list(
            plan(
                ranges_between(start, end),
                min_partitions=options.min_partitions,
                records_max=options.records_per_partition_max,
                records_min=options.records_per_partition_min,
            )
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has the micro-batch that ends here."""
        if self._options.commits_offsets:
            self._positions.commit(end)

    def stop(self) -> None:
        """Spark calls it after an error; otherwise it ends the process."""
        self._cluster.close()

    # --- in an executor

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from rocketline.spark.pulling.range_reader import read_ranges

        assert isinstance(partition, QueueRanges)
        yield from read_ranges(partition, self._options, self._columns)
