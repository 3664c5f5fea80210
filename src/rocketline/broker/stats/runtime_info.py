"""The figures that `mqadmin brokerStatus` and `clusterList` show. Java: AdminBrokerProcessor.prepareRuntimeInfo.

Differs: percentiles are exact, where Java estimates them within classes of times; puts are counted from zero, where
Java begins with one; reads of the broker's own, such as the look for due messages, do not count as reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.stats.counters import BrokerStats
from rocketline.clock import Clock
from rocketline.settings import Settings
from rocketline.store.filesystem import FileSystem
from rocketline.store.message_store import MessageStore

_VERSION: Final = "V5_5_0"  # the name of wire.codes.CURRENT_VERSION
_INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WaitingRequests:
    """Requests that were taken and are not answered yet."""

    count: int = 0
    oldest_ms: int = 0
    """How long the first of them has waited."""


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """Messages that wait for their time; without timers there are none."""

    read_behind_s: int = 0
    """How late the first message is that should have been delivered."""
    offset_behind: int = 0
    """Messages that are stored and not yet parked."""
    waiting: int = 0
    parked_tps: float = 0.0
    delivered_tps: float = 0.0


class RuntimeInfo:
    """Asks everybody for their figures. `delays` tells, by delay level, what was delivered and what there is;
    `sends` which sends wait for their flush; `timers` which messages wait for their time."""

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        stats: BrokerStats,
        store: MessageStore,
        files: FileSystem,
        clock: Clock,
        *,
        delays: Callable[[], Mapping[int, tuple[int, int]]],
        sends: Callable[[], WaitingRequests],
        timers: Callable[[], TimerFigures] = TimerFigures,
    ) -> None:
        self._settings, self._stats, self._store, self._files, self._clock = settings, stats, store, files, clock
        self._delays, self._sends, self._timers = delays, sends, timers
        self._boot_ms, self._boot_s = clock.wall_ms(), clock.monotonic()

    def table(self) -> dict[str, str]:
        """Every figure by Apache's name of it, as text."""
        groups = (
            self._of_broker(), self._of_puts(), self._of_gets(), self._of_days(), self._of_log(), self._of_disk(),
            self._of_delays(), self._of_timers(), self._of_pools(),
        )  # fmt: skip
        return {key: str(value) for group in groups for key, value in group.items()}

    def _of_broker(self) -> dict[str, object]:
        return {
            "bootTimestamp": self._boot_ms,
            "runtime": _duration(int(self._clock.monotonic() - self._boot_s)),
            "brokerActive": "true",
            "brokerVersionDesc": _VERSION,
            "startAcceptSendRequestTimeStamp": self._settings.value.start_accept_send_request_time_stamp,
        }

    def _of_puts(self) -> dict[str, object]:
        totals, times = self._stats.throughput, self._stats.put_times
        return {
            "putTps": totals.put_tps,
            "putMessageTimesTotal": totals.put_messages,
            "putMessageFailedTimes": totals.put_failures,
            "putMessageSizeTotal": totals.put_bytes,
            "putMessageAverageSize": totals.put_bytes / max(1, totals.put_messages),
            "putMessageEntireTimeMax": times.longest_ms,
            "putMessageDistributeTime": times.distribution or "null",  # Java's word for "not known yet"
            "putLatency99": f"{times.percentile(0.99):.2f}",
            "putLatency999": f"{times.percentile(0.999):.2f}",
        }

    def _of_gets(self) -> dict[str, object]:
        totals = self._stats.throughput
        return {
            "getFoundTps": totals.get_found_tps,
            "getMissTps": totals.get_missed_tps,
            "getTotalTps": totals.get_total_tps,
            "getTransferredTps": totals.get_transferred_tps,
            "getMessageEntireTimeMax": int(totals.get_ms_max),
        }

    def _of_days(self) -> dict[str, object]:
        puts, gets = self._stats.put_days, self._stats.get_days
        return {
            "msgPutTotalYesterdayMorning": puts.yesterday_morning,
            "msgPutTotalTodayMorning": puts.today_morning,
            "msgPutTotalTodayNow": self._stats.put_total,
            "msgGetTotalYesterdayMorning": gets.yesterday_morning,
            "msgGetTotalTodayMorning": gets.today_morning,
            "msgGetTotalTodayNow": self._stats.get_total,
        }

    def _of_log(self) -> dict[str, object]:
        store = self._store
        is_empty = store.min_log_offset == store.max_log_offset
        return {
            "commitLogMinOffset": -1 if is_empty else store.min_log_offset,
            "commitLogMaxOffset": store.max_log_offset,
            "earliestMessageTimeStamp": store.earliest_log_ms,
            "dispatchBehindBytes": store.undispatched_bytes,
            "remainHowManyDataToFlush": _size(store.max_log_offset - store.flushed_log_offset),
            # Of parts that this store does not have: a dispatch buffer, a lock around appends, a pool of buffers.
            "dispatchMaxBuffer": 0,
            "pageCacheLockTimeMills": 0,
            "remainTransientStoreBufferNumbs": _INT_MAX,
        }

    def _of_disk(self) -> dict[str, object]:
        config = self._settings.value.store
        log_path, root = config.commit_log_path, config.store_path_root_dir
        log = self._files.usage(self._existing(log_path, root))
        return {
            "commitLogDirCapacity": f"Total : {_size(log.used + log.usable)}, Free : {_size(log.usable)}.",
            "commitLogDiskRatio": log.ratio,
            f"commitLogDiskRatio_{log_path}": log.ratio,
            "consumeQueueDiskRatio": self._files.usage(root).ratio,
        }

    def _existing(self, path: Path, otherwise: Path) -> Path:
        return path if self._files.exists(path) else otherwise

    def _of_delays(self) -> dict[str, object]:
        return {f"scheduleMessageOffset_{level}": f"{done},{end}" for level, (done, end) in self._delays().items()}

    def _of_timers(self) -> dict[str, object]:
        figures = self._timers()
        return {
            "timerReadBehind": figures.read_behind_s,
            "timerOffsetBehind": figures.offset_behind,
            "timerCongestNum": figures.waiting,
            "timerEnqueueTps": figures.parked_tps,
            "timerDequeueTps": figures.delivered_tps,
        }

    def _of_pools(self) -> dict[str, object]:
        """Requests wait in no pool: all but sends, which may wait for their flush, are answered as they are read."""
        config, sends, none = self._settings.value, self._sends(), WaitingRequests()
        pools = (
            ("send", sends, config.send_thread_pool_queue_capacity),
            ("pull", none, config.pull_thread_pool_queue_capacity),
            ("litePull", none, config.unused.litePullThreadPoolQueueCapacity),
            ("query", none, config.unused.queryThreadPoolQueueCapacity),
            ("ack", none, config.unused.ackThreadPoolQueueCapacity),
        )
        figures: dict[str, object] = {
            "EndTransactionQueueSize": 0,
            "EndTransactionThreadPoolQueueCapacity": config.unused.endTransactionPoolQueueCapacity,
        }
        for name, waiting, capacity in pools:
            figures[f"{name}ThreadPoolQueueSize"] = waiting.count
            figures[f"{name}ThreadPoolQueueCapacity"] = capacity
            figures[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = waiting.oldest_ms
        return figures


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(size: int) -> str:
    """Java: MixAll.humanReadableByteCount.

    >>> _size(1023), _size(1536), _size(270582939648)
    ('1023 B', '1.5 KiB', '252.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    exponent = (size.bit_length() - 1) // 10
    return f"{size / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"
