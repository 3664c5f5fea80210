"""Tables about a cluster, beside its messages: option `table` with `offsets`, `topics` or `groups`.

    spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("table", "offsets").load()

The driver asks when the frame is planned, so that what is wrong is said before any task; its one task hands the rows
on. Topics of the product itself are left out, and so are its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketline.admin.calls import Calls, together
from rocketline.admin.clients import Clients
from rocketline.admin.groups import Groups
from rocketline.admin.offsets import Offsets
from rocketline.admin.topics import Topics
from rocketline.client.options import ClientOptions, make_options
from rocketline.client.runtime.runtime import ClientRuntime as AsyncClientRuntime
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.errors import TopicNotFoundError
from rocketline.model.names import is_system_group
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.queries import matches, users_topics
from rocketline.spark.options.source_and_sink import TOOLS_GROUP, SourceOptions
from rocketline.spark.schema import arrow_schema
from rocketline.wire.namespaces import namespace_of, without_namespace

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
_NORMAL: Final = "NORMAL"

TABLE_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "offsets": {
        "topic": "string", "brokerName": "string", "queueId": "int", "consumerGroup": "string",
        "minOffset": "bigint", "maxOffset": "bigint", "committedOffset": "bigint", "lag": "bigint",
        "lastStoreTimestamp": "timestamp",
    },
    "topics": {
        "topic": "string", "brokerName": "string", "readQueues": "int", "writeQueues": "int", "permission": "int",
        "messageType": "string", "attributes": "map<string,string>", "messageCount": "bigint",
        "lastStoreTimestamp": "timestamp",
    },
    "groups": {
        "consumerGroup": "string", "members": "int", "consumeType": "string", "messageModel": "string",
        "topics": "array<string>", "lag": "bigint",
    },
}  # fmt: skip
"""The columns of each table, all of which may be null."""


@dataclass
class TableRows(InputPartition):
    """A whole table: these are small."""

    rows: tuple[Row, ...]


class RocketMQTableReader(DataSourceReader):
    """Reads one of `TABLE_TYPES`."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    def partitions(self) -> list[InputPartition]:
        return [TableRows(tuple(table_rows(self._options)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        assert isinstance(partition, TableRows)
        schema = arrow_schema(self._columns, TABLE_TYPES[self._options.table])
        rows = [{name: row[name] for name in self._columns} for row in partition.rows]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def table_rows(options: SourceOptions) -> list[Row]:
    """The rows of the table that the options name, as it is now. Raises what asking raises."""
    client = options.client
    runtime = ClientRuntime(make_options(ClientOptions, client.name_servers, client.keywords()))
    runtime.lease()
    try:
        return runtime.portal.call(_ROWS[options.table](_Lookup(options, runtime.core)))
    finally:
        runtime.close()


class _Lookup:
    """What the tables are made from. Names are as users have them, and become those on the wire here."""

    def __init__(self, options: SourceOptions, runtime: AsyncClientRuntime) -> None:
        self.options = options
        self.calls = Calls(runtime)
        self.topics, self.groups = Topics(self.calls), Groups(self.calls)
        self.offsets, self.clients = Offsets(self.calls), Clients(self.calls)

    async def topic_names(self) -> list[str]:
        """The topics that the options name, or all. Raises `TopicNotFoundError`."""
        options = self.options
        known = users_topics(await self.topics.names(), await self.calls.cluster_info(), options.client.namespace)
        if options.pattern is not None:
            return [name for name in known if matches(options.pattern, name)]
        named = {*options.topics, *(queue.topic for queue in options.assignment)}
        for name in sorted(named.difference(known)):
            raise TopicNotFoundError(name, self.calls.runtime.name_servers)
        return sorted(named) or known

    async def group_names(self) -> list[str]:
        """The one that the options name, or all."""
        options, namespace = self.options, self.options.client.namespace
        if options.group != TOOLS_GROUP:
            return [options.group]
        names = [name for name in await self.groups.names() if not is_system_group(name)]
        if not namespace:
            return names
        return [without_namespace(name, namespace) for name in names if namespace_of(name) == namespace]

    def on_wire(self, name: str) -> str:
        return self.options.client.on_wire(name)

    def as_seen(self, name: str) -> str:
        namespace = self.options.client.namespace
        return without_namespace(name, namespace) if namespace else name


async def _offset_rows(lookup: _Lookup) -> list[Row]:
    topics = await lookup.topic_names()
    return [row for rows in await together(_offsets_of(lookup, topic) for topic in topics) for row in rows]


async def _offsets_of(lookup: _Lookup, topic: str) -> list[Row]:
    """A row for each queue and each group that has been there; one without a group where none has."""
    name = lookup.on_wire(topic)
    status = await lookup.topics.status(name)
    groups: list[str | None] = [group for group in await lookup.topics.groups(name) if _is_wanted(lookup, group)]
    rows = []
    for queue in status.queues:
        row = {
            "topic": topic,
            "brokerName": queue.queue.broker_name,
            "queueId": queue.queue.queue_id,
            "minOffset": queue.min_offset,
            "maxOffset": queue.max_offset,
            "lastStoreTimestamp": _microseconds(queue.last_stored_ms),
        }
        for group, committed in await _committed(lookup, groups or [None], queue.queue):
            start = queue.min_offset if committed is None else committed
            lag = None if group is None else max(0, queue.max_offset - start)
            rows.append({**row, "consumerGroup": group, "committedOffset": committed, "lag": lag})
    return rows


async def _committed(
    lookup: _Lookup, groups: list[str | None], queue: MessageQueue
) -> list[tuple[str | None, int | None]]:
    async def one(group: str | None) -> tuple[str | None, int | None]:
        if group is None:
            return None, None
        return lookup.as_seen(group), await lookup.offsets.committed(group, queue)

    return await together(map(one, groups))


def _is_wanted(lookup: _Lookup, group: str) -> bool:
    if lookup.options.group != TOOLS_GROUP:
        return group == lookup.options.group_on_wire
    namespace = lookup.options.client.namespace
    return not is_system_group(group) and (not namespace or namespace_of(group) == namespace)


async def _topic_rows(lookup: _Lookup) -> list[Row]:
    topics = await lookup.topic_names()
    return [row for rows in await together(_brokers_of(lookup, topic) for topic in topics) for row in rows]


async def _brokers_of(lookup: _Lookup, topic: str) -> list[Row]:
    """A row for each broker that has the topic."""
    name = lookup.on_wire(topic)
    configs, status = await lookup.topics.config(name), await lookup.topics.status(name)
    rows = []
    for broker, config in sorted(configs.items()):
        queues = [queue for queue in status.queues if queue.queue.broker_name == broker.name]
        rows.append(
            {
                "topic": topic,
                "brokerName": broker.name,
                "readQueues": config.read_queue_nums,
                "writeQueues": config.write_queue_nums,
                "permission": config.perm,
                "messageType": config.attributes.get("message.type", _NORMAL),
                "attributes": sorted(config.attributes.items()),
                "messageCount": sum(queue.message_count for queue in queues),
                "lastStoreTimestamp": _microseconds(max((queue.last_stored_ms or 0 for queue in queues), default=0)),
            }
        )
    return rows


async def _group_rows(lookup: _Lookup) -> list[Row]:
    lags = {lag.group: lag for lag in await lookup.groups.lags()}
    groups = await lookup.group_names()
    members = await together(lookup.clients.consumers(lookup.on_wire(group)) for group in groups)
    rows = []
    for group, online in zip(groups, members, strict=True):
        lag = lags.get(lookup.on_wire(group))
        topics = {lookup.as_seen(queue.queue.topic) for queue in lag.queues} if lag else set()
        rows.append(
            {
                "consumerGroup": group,
                "members": len(online.members),
                "consumeType": online.consume_type.name if online.consume_type else None,
                "messageModel": online.message_model.name if online.message_model else None,
                "topics": sorted(topics),
                "lag": lag.lag if lag else 0,
            }
        )
    return rows


def _microseconds(time_ms: int | None) -> int | None:
    return time_ms * 1000 if time_ms else None


_ROWS: Final[Mapping[str, Callable[[_Lookup], Coroutine[Any, Any, list[Row]]]]] = {
    "offsets": _offset_rows,
    "topics": _topic_rows,
    "groups": _group_rows,
}
