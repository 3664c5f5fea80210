"""`RocketMQDataSource`: what Spark finds behind `format("rocketmq")`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from rocketline.errors import ConfigError
from rocketline.logs import Log
from rocketline.spark.options.source_and_sink import MESSAGES, SourceOptions, sink_options, source_options
from rocketline.spark.schema import FULL_SCHEMA, MESSAGE_TYPES, ddl, wanted_columns

_log = Log(__name__)


class RocketMQDataSource(DataSource):
    """Topics of Apache RocketMQ, or of Rocketline, as tables and streams.

    The names of its methods and of their parameters are Spark's. Everything else is imported where it is needed:
    Spark makes this object in several short-lived processes.
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        """The columns of the table that is read; also the first moment at which wrong options can be told."""
        table = _problems_first(self.options).table
        if table == MESSAGES:
            return FULL_SCHEMA
        from rocketline.spark.sources.cluster_tables import TABLE_TYPES

        return ddl(TABLE_TYPES[table])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, is_stream=False)
        _tell_unknown(options.unknown)
        if options.table != MESSAGES:
            from rocketline.spark.sources.cluster_tables import TABLE_TYPES, RocketMQTableReader

            return RocketMQTableReader(options, wanted_columns(schema, TABLE_TYPES[options.table]))
        from rocketline.spark.sources.batch_reader import RocketMQBatchReader

        return RocketMQBatchReader(options, wanted_columns(schema, MESSAGE_TYPES))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from rocketline.spark.sources.stream_reader import RocketMQStreamReader

        options = source_options(self.options, is_stream=True)
        _tell_unknown(options.unknown)
        return RocketMQStreamReader(options, wanted_columns(schema, MESSAGE_TYPES))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from rocketline.spark.sink.writers import batch_writer

        options = sink_options(self.options)
        _tell_unknown(options.unknown)
        return batch_writer(options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from rocketline.spark.sink.writers import stream_writer

        options = sink_options(self.options)
        _tell_unknown(options.unknown)
        return stream_writer(options, schema, overwrite)


def _problems_first(given: Mapping[str, str]) -> SourceOptions:
    """The options as a batch or as a stream has them: which of the two it is, nobody knows yet.

    Raises `ConfigError` with what would be wrong for both.
    """
    try:
        return source_options(given, is_stream=True)
    except ConfigError as error:
        in_streams = error.problems
    try:
        return source_options(given, is_stream=False)
    except ConfigError as error:
        common = [problem for problem in error.problems if problem in in_streams]
        each = [f"in a stream: {problem}" for problem in in_streams]
        each += [f"in a batch: {problem}" for problem in error.problems]
        raise ConfigError(common or each) from None


def _tell_unknown(names: tuple[str, ...]) -> None:
    if names:
        _log.warning("options without any effect", options=", ".join(names))
