"""The store's settings. Java: MessageStoreConfig.

What Apache's store can be told and ours has no use for is in `unused.toml`. What Apache clamps is kept as it was given,
for "get config" to list; the properties below give what counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from pathlib import Path

from rocketline.errors import ConfigError
from rocketline.model.delay_levels import DelayLevels
from rocketline.record import record
from rocketline.settings import setting
from rocketline.settings.places import at_home
from rocketline.settings.unused import unused

_MIB = 1024 * 1024
_CONSUME_QUEUE_UNIT_BYTES = 20
_BATCH_UNIT_BYTES = 46


class FlushDiskType(Enum):
    """When a message counts as stored: once on disk, or once handed to the system. Java: FlushDiskType."""

    SYNC_FLUSH = 0
    ASYNC_FLUSH = 1


@unused(Path(__file__).with_name("unused.toml"))
class UnusedStoreSettings:
    """Java: MessageStoreConfig."""


@record(kw_only=True)
class StoreConfig:
    """What a store can be told. Java: MessageStoreConfig."""

    # --- places and sizes of files
    store_path_root_dir: Path = setting(
        factory=at_home("store"), key="storePathRootDir", help="The folder of the store, made if it is missing."
    )
    store_path_commit_log: str = setting(
        "", key="storePathCommitLog", own=True, help="The folder of the log; empty: commitlog in storePathRootDir."
    )
    mapped_file_size_commit_log: int = setting(
        1024 * _MIB, key="mappedFileSizeCommitLog", low=64 * 1024, help="Bytes of each file of the log."
    )
    mapped_file_size_consume_queue: int = setting(
        300_000 * _CONSUME_QUEUE_UNIT_BYTES,
        key="mappedFileSizeConsumeQueue",
        low=_CONSUME_QUEUE_UNIT_BYTES,
        help="Bytes of each file of a queue, rounded up to whole units of 20.",
    )
    mapper_file_size_batch_consume_queue: int = setting(
        300_000 * _BATCH_UNIT_BYTES,
        key="mapperFileSizeBatchConsumeQueue",
        low=_BATCH_UNIT_BYTES,
        help="Bytes of each file of a queue that knows batches (queue.type=BatchCQ), rounded up to whole units of 46.",
    )
    message_index_enable: bool = setting(
        True, key="messageIndexEnable", help="Whether messages can be found by key, unique id and tag."
    )
    max_hash_slot_num: int = setting(5_000_000, key="maxHashSlotNum", low=1, help="Hash slots of each index file.")
    max_index_num: int = setting(20_000_000, key="maxIndexNum", low=1, help="Entries of each index file.")

    # --- writing
    flush_disk_type: FlushDiskType = setting(
        FlushDiskType.ASYNC_FLUSH,
        key="flushDiskType",
        help="Whether a send is answered once its message is on disk, or once the system has it.",
    )
    sync_flush_timeout: int = setting(
        5000, key="syncFlushTimeout", low=1, live=True, help="Milliseconds that a send waits for its flush at most."
    )
    flush_interval_commit_log: int = setting(
        500, key="flushIntervalCommitLog", low=1, help="Milliseconds between two flushes of the log (ASYNC_FLUSH)."
    )
    flush_commit_log_least_pages: int = setting(
        4, key="flushCommitLogLeastPages", help="Pages of 4 KiB that must be new for such a flush."
    )
    flush_commit_log_thorough_interval: int = setting(
        10_000, key="flushCommitLogThoroughInterval", help="Milliseconds after which any new byte is flushed."
    )
    flush_interval_consume_queue: int = setting(
        1000, key="flushIntervalConsumeQueue", low=1, help="Milliseconds between two flushes of the queues."
    )
    flush_consume_queue_least_pages: int = setting(
        2,
        key="flushConsumeQueueLeastPages",
        effect=False,
        help="Accepted for Apache's sake and without effect: whatever is new in a queue is written each time.",
    )
    flush_consume_queue_thorough_interval: int = setting(
        60_000, key="flushConsumeQueueThoroughInterval", help="Milliseconds after which any new unit is flushed."
    )
    max_message_size: int = setting(
        4 * _MIB, key="maxMessageSize", low=1, live=True, help="Bytes that a message's body may have."
    )
    enabled_append_prop_crc: bool = setting(
        False, key="enabledAppendPropCRC", help="Whether each record ends with a checksum over all of it."
    )
    os_page_cache_busy_time_out_mills: int = setting(
        1000,
        key="osPageCacheBusyTimeOutMills",
        live=True,
        help="Milliseconds that a write may take before sends are refused as the store is busy.",
    )
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        key="messageDelayLevel",
        help="The delays of levels 1, 2, …, each a number and s, m, h or d.",
    )
    flush_delay_offset_interval: int = setting(
        10_000, key="flushDelayOffsetInterval", low=1, help="Milliseconds between two saves of the delay levels."
    )

    enable_schedule_message_stats: bool = setting(
        True, key="enableScheduleMessageStats", live=True, help="Whether delayed messages are counted when delivered."
    )
    timer_wheel_enable: bool = setting(
        True,
        key="timerWheelEnable",
        help="Whether messages for any moment are taken and delivered; without, those that wait go on waiting.",
    )
    timer_max_delay_sec: int = setting(
        259_200,
        key="timerMaxDelaySec",
        low=0,
        live=True,
        help="Seconds that a timer message may be ahead of now; beyond, it is refused.",
    )
    timer_precision_ms: int = setting(
        1000,
        key="timerPrecisionMs",
        low=1,
        high=3_600_000,
        help="The step of the timer wheel: milliseconds that a timer message may come late.",
    )
    mapped_file_size_timer_log: int = setting(
        100 * _MIB, key="mappedFileSizeTimerLog", low=4096, help="Bytes of each file of the timer log."
    )
    timer_roll_window_slot: int = setting(
        172_800,
        key="timerRollWindowSlot",
        low=-(2**31),
        help="Steps that the timer wheel looks ahead; what is due later is parked anew in between.",
    )
    timer_flush_interval_ms: int = setting(
        1000, key="timerFlushIntervalMs", low=1, help="Milliseconds between two saves of what timers have done."
    )
    timer_congest_num_each_slot: int = setting(
        2**31 - 1,
        key="timerCongestNumEachSlot",
        low=0,
        live=True,
        help="Messages due within one step, beyond which some more are refused, and all beyond twice as many.",
    )
    timer_stop_enqueue: bool = setting(
        False, key="timerStopEnqueue", live=True, help="Whether timer messages are left in their topic for now."
    )
    timer_stop_dequeue: bool = setting(
        False, key="timerStopDequeue", live=True, help="Whether timer messages that are due are held back for now."
    )
    append_topic_for_timer_delete_key: bool = setting(
        False,
        key="appendTopicForTimerDeleteKey",
        live=True,
        help="Whether a recall names its message by topic and key, as Apache 5.3 does, and not by key alone.",
    )

    # --- starting
    check_crc_on_recover: bool = setting(
        True, key="checkCRCOnRecover", help="Whether bodies are checked when a log is read after a crash."
    )
    force_verify_prop_crc: bool = setting(
        False, key="forceVerifyPropCRC", help="Whether a record without a checksum over all of it is refused then."
    )
    disappear_time_after_start: int = setting(
        -1,
        key="disappearTimeAfterStart",
        low=-1,
        help="Milliseconds after the start for which a broker does not register; -1: none.",
    )

    # --- reading
    max_transfer_bytes_on_message_in_memory: int = setting(
        4 * _MIB,
        key="maxTransferBytesOnMessageInMemory",
        low=1,
        live=True,
        help="Bytes of one pull while the messages are in memory. Apache's default is 262144.",
    )
    max_transfer_count_on_message_in_memory: int = setting(
        1024,
        key="maxTransferCountOnMessageInMemory",
        low=1,
        live=True,
        help="Messages of one pull while they are in memory. Apache's default is 32.",
    )
    max_transfer_bytes_on_message_in_disk: int = setting(
        4 * _MIB,
        key="maxTransferBytesOnMessageInDisk",
        low=1,
        live=True,
        help="Bytes of one pull from disk. Apache's default is 65536.",
    )
    max_transfer_count_on_message_in_disk: int = setting(
        1024,
        key="maxTransferCountOnMessageInDisk",
        low=1,
        live=True,
        help="Messages of one pull from disk. Apache's default is 8.",
    )
    access_message_in_memory_max_ratio: int = setting(
        40,
        key="accessMessageInMemoryMaxRatio",
        high=100,
        live=True,
        help="Percent of the machine's memory below the end of the log that count as in memory.",
    )
    max_filter_message_size: int = setting(
        16_000,
        key="maxFilterMessageSize",
        low=1,
        high=327_680,
        live=True,
        help="Bytes of queue that one pull looks at, at most: 20 for each message.",
    )
    default_query_max_num: int = setting(
        32, key="defaultQueryMaxNum", low=1, live=True, help="Messages that a query by key finds, at most."
    )

    # --- keeping and deleting
    file_reserved_time: int = setting(
        72, key="fileReservedTime", live=True, help="Hours that a file of the log is kept after its last change."
    )
    delete_when: str = setting(
        "04", key="deleteWhen", live=True, help="Hours of the day, as 04;16, at which old files are deleted."
    )
    disk_max_used_space_ratio: int = setting(
        75,
        key="diskMaxUsedSpaceRatio",
        live=True,
        help="Percent of the disk in use from which old files are deleted at any hour; 10 to 95 count.",
    )
    disk_space_warning_level_ratio: int = setting(
        90,
        key="diskSpaceWarningLevelRatio",
        help="Percent of the disk in use from which sends are refused; 35 to 90 count.",
    )
    disk_space_clean_forcibly_ratio: int = setting(
        85,
        key="diskSpaceCleanForciblyRatio",
        help="Percent of the disk in use from which files are deleted before their time; 30 to 85 count.",
    )
    clean_file_forcibly_enable: bool = setting(
        True, key="cleanFileForciblyEnable", live=True, help="Whether files may be deleted before their time."
    )
    clean_resource_interval: int = setting(
        10_000, key="cleanResourceInterval", low=1, help="Milliseconds between two looks for files to delete."
    )
    delete_file_batch_max: int = setting(
        10, key="deleteFileBatchMax", low=1, live=True, help="Files that one such look deletes at most."
    )
    enable_clean_expired_offset: bool = setting(
        False,
        key="enableCleanExpiredOffset",
        effect=False,
        help="Accepted for Apache's sake and without effect: a queue stays when all its messages are gone.",
    )

    # --- what others are told
    ha_listen_port: int = setting(
        0, key="haListenPort", high=65535, help="The port told to name servers for replicas; 0: listenPort and one."
    )

    unused: UnusedStoreSettings = field(default_factory=UnusedStoreSettings)

    @property
    def commit_log_path(self) -> Path:
        """The folder of the log."""
        if self.store_path_commit_log:
            return Path(self.store_path_commit_log)
        return self.store_path_root_dir / "commitlog"

    def timer_roll_window(self, slots_max: int) -> int:
        """`timerRollWindowSlot` as it counts, on a wheel that can look ahead by so many steps."""
        return self.timer_roll_window_slot if 2 <= self.timer_roll_window_slot <= slots_max else slots_max

    @property
    def disk_max_used_percent(self) -> int:
        """`diskMaxUsedSpaceRatio` as it counts."""
        return min(max(self.disk_max_used_space_ratio, 10), 95)

    @property
    def disk_warning_percent(self) -> int:
        """`diskSpaceWarningLevelRatio` as it counts."""
        return min(max(self.disk_space_warning_level_ratio, 35), 90)

    @property
    def disk_clean_forcibly_percent(self) -> int:
        """`diskSpaceCleanForciblyRatio` as it counts."""
        return min(max(self.disk_space_clean_forcibly_ratio, 30), 85)

    @property
    def consume_queue_file_bytes(self) -> int:
        """`mappedFileSizeConsumeQueue` in whole units."""
        return -(-self.mapped_file_size_consume_queue // _CONSUME_QUEUE_UNIT_BYTES) * _CONSUME_QUEUE_UNIT_BYTES

    @property
    def batch_consume_queue_file_bytes(self) -> int:
        """`mapperFileSizeBatchConsumeQueue` in whole units."""
        return -(-self.mapper_file_size_batch_consume_queue // _BATCH_UNIT_BYTES) * _BATCH_UNIT_BYTES

    def problems(self) -> Iterator[str]:
        if "," in self.store_path_commit_log:
            yield f"storePathCommitLog={self.store_path_commit_log}: a log on several paths is not supported; name one"
        try:
            DelayLevels.parse(self.message_delay_level)
        except ConfigError as error:
            yield from error.problems
        if not _is_hours(self.delete_when):
            yield f"deleteWhen={self.delete_when}: write hours from 0 to 23 with semicolons between them, as 04;16"


def _is_hours(text: str) -> bool:
    words = [word.strip() for word in text.removesuffix(";").split(";")]
    return all(word.isascii() and word.isdecimal() and len(word) <= 2 and int(word) <= 23 for word in words)
