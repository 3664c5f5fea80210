"""How the reading of a store is cut into tasks, once and for all: which parts of which files, from where to where.

A part begins at the first byte of a file, or where a unit of a queue says that a record does. `WrittenLog` knows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import InputPartition

from rocketline.spark.options.store import StoreOptions
from rocketline.spark.store_files.damage import report
from rocketline.spark.store_files.log_files import check_adjacent, is_in_use, log_files
from rocketline.spark.store_files.queue_units import queues_of
from rocketline.spark.store_files.topics import check_topics
from rocketline.spark.store_files.written_log import LogSlice, WrittenLog

_CLOCK_SLACK_MS: Final = 3_600_000
"""Files are left out by their times only if these are so far off: a broker's clock may have been set back."""


@dataclass
class LogSlices(InputPartition):
    """What one task reads, one after another."""

    slices: tuple[LogSlice, ...]


def plan_store(options: StoreOptions) -> list[LogSlices]:
    """The tasks of a read. Raises `ConfigError` if there is no store or no such topic in it, `CorruptStoreError` if a
    part of its log is gone and the options want to know, `OSError`."""
    files = log_files(options)
    check_topics(options)
    for damage in check_adjacent(files):
        report(damage, fails=options.fail_on_data_loss)
    with ExitStack() as stack:
        queues = [stack.enter_context(queue) for queue in queues_of(Path(options.path))]
        log = WrittenLog(files, queues)
        end, damage_at_end = log.end()
        if damage_at_end is not None and not is_in_use(options):  # else it is a record that is being written
            report(damage_at_end, fails=options.fail_on_data_loss)
        slices = [LogSlice(file, file.start, min(file.end, end)) for file in files if file.start < end]
        slices = [one for one in slices if _is_in_time(log, one, options)]
        most = _partition_bytes(options, sum(map(len, slices)))
        return _pack([part for one in slices for part in log.cut(one, most)], most)


def _partition_bytes(options: StoreOptions, total: int) -> int:
    if options.min_partitions is None:
        return options.partition_bytes_max
    return max(min(options.partition_bytes_max, total // options.min_partitions), 1)


def _is_in_time(log: WrittenLog, one: LogSlice, options: StoreOptions) -> bool:
    """The file may hold messages of the time asked for: store times go up along the log."""
    if options.end_ms is not None:
        first_ms = log.store_ms(one.file.start)
        if first_ms is not None and first_ms > options.end_ms + _CLOCK_SLACK_MS:
            return False
    if options.start_ms is not None:
        next_ms = log.store_ms(one.file.end)
        if next_ms is not None and next_ms < options.start_ms - _CLOCK_SLACK_MS:
            return False
    return True


def _pack(slices: Sequence[LogSlice], most: int) -> list[LogSlices]:
    """Neighbours together in one task, as long as that is not more than `most` bytes."""
    tasks: list[list[LogSlice]] = []
    room = 0
    for one in slices:
        if len(one) > room:
            tasks.append([])
            room = most
        tasks[-1].append(one)
        room -= len(one)
    return [LogSlices(tuple(task)) for task in tasks]
