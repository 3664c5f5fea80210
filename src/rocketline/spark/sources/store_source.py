"""`format("rocketmq-store")`: a broker's store directory as a table, without a broker.

    spark.read.format("rocketmq-store").load("/data/rocketmq/store")

Reads what ours or Apache's broker wrote, whether it runs or not, and never writes there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketline.errors import ConfigError
from rocketline.logs import Log
from rocketline.spark.options.store import StoreOptions, store_options
from rocketline.spark.schema import FULL_SCHEMA, wanted_columns

if TYPE_CHECKING:
    import pyarrow as pa

_log = Log(__name__)


class RocketMQStoreDataSource(DataSource):
    """The data source; it opens no file before it is asked for partitions."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = store_options(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> str:
        return FULL_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return StoreFolderReader(self._options, wanted_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        raise ConfigError(["rocketmq-store is read as a batch; format rocketmq reads a stream, from a broker"])


class StoreFolderReader(DataSourceReader):
    """Plans once; each task reads its part of the log."""

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    def partitions(self) -> list[InputPartition]:
        from rocketline.spark.store_files.planner import LogSlices, plan_store

        if self._options.unknown:
            _log.warning("options that rocketmq-store does not know", options=", ".join(self._options.unknown))
        return list(plan_store(self._options) or [LogSlices(())])  # without any, Spark would make one up

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from rocketline.spark.store_files.planner import LogSlices
        from rocketline.spark.store_files.reader import read_slices

        assert isinstance(partition, LogSlices)
        yield from read_slices(partition, self._options, self._columns)
