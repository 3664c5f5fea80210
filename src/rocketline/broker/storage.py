"""What a broker keeps in its folder: messages, topics, groups, offsets, filters."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.request_modes import RequestModes
from rocketline.broker.metadata.topics import TopicTable, is_batched
from rocketline.broker.pop.offset_recovery import OffsetRecovery
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.retries.delay_levels import DelayedDelivery
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.timers.service import TimerService
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.ids import HostAddress
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.filesystem import FileSystem, told
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.queue_table import IsBatched


class BrokerStorage:
    """All of it, loaded. Opening raises `StoreLockedError`, `CorruptStoreError` and `OSError`; close it in the end."""

    topics: TopicTable

    def __init__(
        self, settings: Settings[BrokerConfig], files: FileSystem, clock: Clock, store_host: HostAddress, log: Throttle
    ) -> None:
        self._log = log
        self.when_flushed: Callable[[], None] = lambda: None
        """Called at the end, once all of the log is on disk: what is only then safe to say may be said."""
        folder = settings.value.store.store_path_root_dir / "config"
        self.stats = BrokerStats(settings, clock)

        def load_topics() -> IsBatched:
            files.make_folder(folder)
            self.topics = TopicTable.load(files, folder / "topics.json", settings, clock)
            return self.topics.is_batched

        self.store = MessageStore.open(
            lambda: settings.value.store, files, clock, store_host, _memory_bytes(), load_topics
        )
        try:
            self.groups = GroupTable.load(files, folder / "subscriptionGroup.json", settings, clock, log)
            self.offsets = ConsumerOffsets.load(files, folder / "consumerOffset.json", settings, clock)
            self.request_modes = RequestModes.load(files, folder / "messageRequestMode.json")
            self.filters = ConsumerFilters.load(files, folder / "consumerFilter.json", settings, clock)
            self.schedule = DelayedDelivery(
                self.store, files, folder / "delayOffset.json", self.stats, settings, clock, log
            )
            self.transaction_figures = TransactionFigures(
                files, folder / "transactionMetrics", clock, lambda topic: self.topics.get(topic) is not None
            )
            self.timers = (
                TimerService(self.store, files, self.stats, settings, clock, log)
                if settings.value.store.timer_wheel_enable
                else None
            )
            self.orders = OrderInfos.load(
                files, folder / "consumerOrderInfo.json", self.store.store_clock.now_ms, self._has_queue
            )
            self.pops = OffsetRecovery(self.store, self.offsets, settings)
            self.pops.recover()
        except BaseException:
            self.store.close()
            raise

    def _has_queue(self, topic: str, group: str, queue_id: int) -> bool:
        config = self.topics.get(topic)
        return config is not None and queue_id < config.read_queue_nums and self.groups.get(group) is not None

    def make_way(self, topics: Sequence[TopicConfig]) -> None:
        """Topics are about to be made: what earlier ones of their names left in the way goes. Raises `OSError`."""
        for topic in topics:
            self.store.queues.make_way(topic.topic_name, is_batched=is_batched(topic))

    def has_late_timers(self) -> bool:
        """There are timer messages that should have been delivered a minute ago: see `TimerService.has_late`."""
        return self.timers is not None and self.timers.has_late()

    def close(self) -> None:
        """Write everything and close the store. The log goes first: what was delivered is never ahead of it."""
        if self.timers is not None:
            self.timers.finish_slot()
        self._flush_log()
        self.when_flushed()
        self._note_pops()
        if self.timers is not None:
            self._try(self.timers.save, "timers")
            self.timers.close()
        for save, what in (
            (self.schedule.save, "delays"),
            (self.topics.table.save, "topics"),
            (self.groups.table.save, "groups"),
            (self.transaction_figures.save, "number of half messages"),
            (self.filters.save, "filters"),
            (self.orders.save, "pops in order"),
        ):
            self._try(save, what)
        if self.store.problem is None or not self.pops.is_begun:
            self._try(self.offsets.save, "offsets")  # else groups may be ahead of checkpoints that the disk refused
        self.topics.table.close()
        self.groups.table.close()
        self.store.close()

    def _note_pops(self) -> None:
        """Whatever was popped is in the offsets."""
        if self.pops.is_begun:
            self.pops.note()
            self.pops.note_merged(is_merged=False)

    def _flush_log(self) -> None:
        job = self.store.begin_flush()
        if job is not None:
            try:
                job.run()
            except OSError as error:
                self.store.finish_flush(job, error)
            else:
                self.store.finish_flush(job)

    def _try(self, save: Callable[[], None], what: str) -> None:
        """A disk that takes nothing now may do so later; the old file stays as it was."""
        try:
            save()
        except OSError as error:
            self._log.warning(f"{what} not saved", told(error))


def _memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
