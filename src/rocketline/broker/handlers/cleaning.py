"""CLEAN_EXPIRED_CONSUMEQUEUE (306), DELETE_EXPIRED_COMMITLOG (329), CLEAN_UNUSED_TOPIC (316): tidy up now.

Otherwise the store does the first two by itself, when the time or the disk asks for it. The third deletes the queues of
topics that the broker no longer knows; their messages go with the log.
"""

from __future__ import annotations

from rocketline.broker.long_work import LongWork, Steps, each_with_pause
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.counters import BrokerStats
from rocketline.logs import Throttle
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.store.message_store import MessageStore
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_TOPICS_A_STEP = 500
_DELETED_A_STEP = 8
"""Each is a change of names on disk."""


class CleaningHandlers:
    """Starts what the store does at its own time otherwise."""

    def __init__(
        self, store: MessageStore, topics: TopicTable, stats: BrokerStats, work: LongWork, log: Throttle
    ) -> None:
        self._store, self._topics, self._stats, self._work, self._log = store, topics, stats, work, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_queues,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._delete_expired,
            RequestCode.CLEAN_UNUSED_TOPIC: self._clean_topics,
        }

    def _clean_queues(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._queues_cleaned(), is_change=True)

    def _queues_cleaned(self) -> Steps[Command]:
        yield from self._store.cleaning_queues()
        return response(ResponseCode.SUCCESS)

    def _delete_expired(self, channel: Channel, request: Command) -> Command:
        self._store.delete_expired()
        return response(ResponseCode.SUCCESS)

    def _clean_topics(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._cleaned(), is_change=True)

    def _cleaned(self) -> Steps[Command]:
        """System topics stay: some are used without ever being in the table."""
        deleted: set[str] = set()
        for topic, is_step in each_with_pause(list(self._store.queues.topics), _TOPICS_A_STEP):
            if self._topics.get(topic) is None and not self._topics.is_system(topic):
                self._store.delete_topics([topic])
                deleted.add(topic)
                is_step = is_step or len(deleted) % _DELETED_A_STEP == 0
            if is_step:
                yield
        yield from self._stats.forget_topics(deleted)
        if deleted:
            self._log.info("queues of unknown topics deleted", f"{len(deleted)}, the first of {min(deleted)}")
        return response(ResponseCode.SUCCESS)
