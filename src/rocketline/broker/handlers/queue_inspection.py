"""QUERY_CONSUME_QUEUE (321): the entries of one queue, as they lie in its files.

Like Java: an index outside of the queue is answered with success, a remark and no body; and no entry is evaluated,
which only those with a filter bit map are. Differs: one answer has at most 10,000 entries.
"""

from __future__ import annotations

from dataclasses import replace

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.long_work import LongWork, Steps, answered_with
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.model.subscription import SubscriptionData
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.store.files.json_files import pretty
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.offsets import ConsumeQueueData, ConsumeQueueDump
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_ENTRIES_MAX = 10_000
_ENTRIES_A_STEP = 500


class QueueInspectionHandlers:
    """Looks into queues, for people who search for a fault."""

    def __init__(
        self, store: MessageStore, consumers: ConsumerRegistry, filters: ConsumerFilters, work: LongWork
    ) -> None:
        self._store, self._consumers, self._filters, self._work = store, consumers, filters, work

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_CONSUME_QUEUE: self._query}

    def _query(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.QueryConsumeQueueRequestHeader, request.ext)
        topic = asked.topic or ""
        name = f"{asked.queue_id}@{topic}"
        queue = self._store.queue(topic, asked.queue_id)
        if queue is None:
            return response(ResponseCode.SYSTEM_ERROR, f"{name} is not exist!")
        if not queue.min_offset <= asked.index < queue.max_offset:
            return response(ResponseCode.SUCCESS, f"Index {asked.index} of {name} is not exist!")
        count = min(max(0, asked.count), _ENTRIES_MAX, queue.max_offset - asked.index)
        subscription, filter_data = self._filter(asked.consumer_group, topic)
        dump = ConsumeQueueDump(
            subscription_data=subscription,
            filter_data=filter_data,
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
        )
        return self._work.begin(
            channel, request, answered_with(self._filled(dump, topic, asked.queue_id, asked.index, count))
        )

    def _filled(
        self, dump: ConsumeQueueDump, topic: str, queue_id: int, index: int, count: int
    ) -> Steps[ConsumeQueueDump]:
        """Some at a time: units of an earlier life are compared with the log, wherever in it their records lie. In a
        queue that has batches nobody knows where the next ones begin."""
        if count > _ENTRIES_A_STEP:  # hundreds may wait, and keep nothing while they do
            yield
        at_once = count if self._store.queues.is_batched(topic) else _ENTRIES_A_STEP
        entries: list[ConsumeQueueData] = []
        while some := self._store.units(topic, queue_id, index + len(entries), min(count, at_once)):
            entries += [ConsumeQueueData(*unit) for unit in some]
            count -= len(some)
            if count <= 0 or len(some) < at_once:
                break
            yield
        return replace(dump, queue_data=entries)

    def _filter(self, group: str | None, topic: str) -> tuple[SubscriptionData | None, str | None]:
        """What the group subscribes to, and the text of its filter in SQL: null, if it has none."""
        if group is None:
            return None, None
        subscription = self._consumers.subscription(group, topic)
        if subscription is None:
            return None, f"{group}@{topic} is not online!"
        kept = self._filters.get(group, topic)
        return subscription, "null" if kept is None else pretty(to_value(kept.data))
