"""What a task does: read ranges of queues, and hand them to Spark as Arrow batches.

Pulls are kept under way while rows are decoded, and the bodies of many pulls become one batch. A range ends when the
broker's next offset has reached its end, never by a number of rows. What is missing is data loss, reported as the
option `failOnDataLoss` says; what fails is tried again for a while, and then raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from rocketline.client.received_message import decode_messages
from rocketline.client.runtime.routes import STATIC_BROKER_PREFIX
from rocketline.errors import RouteError
from rocketline.model.ids import QueueOffset
from rocketline.model.queue import MessageQueue
from rocketline.spark.decoding.columns import PulledRun, RunOrigin, decode
from rocketline.spark.malloc import keep_freed_memory
from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.planning.data_loss import QUEUE_GONE, RECREATED, DataLossError, report
from rocketline.spark.planning.planner import QueueRange, QueueRanges
from rocketline.spark.pulling.broker_pulls import Ask, BrokerPulls
from rocketline.spark.pulling.executor_client import ExecutorClient, client_for
from rocketline.spark.pulling.frames import PullAnswer
from rocketline.spark.pulling.outcomes import Advance, Loss, Meaning, TryAgain, classify
from rocketline.spark.pulling.schedule import IN_FLIGHT_MAX, Piece, PullSchedule
from rocketline.wire.codes import ResponseCode
from rocketline.wire.message_codec import RECORD_BYTES_MIN

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 8 * 2**20
"""One decoding costs as much for a hundred rows as for some thousand; more than this gains nothing."""
VANISHED: Final = "messages in between are gone: the broker deleted them while they were read"

_Piece: TypeAlias = Piece[PulledRun]


def read_ranges(
    partition: QueueRanges, options: SourceOptions, columns: Sequence[str], client: ExecutorClient | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of all ranges, one after another, each in the order of its queue.

    Raises `DataLossError` if messages are not there, or broken, and the options want to know; `TransportError`,
    `RouteError`, `ResponseError` or `CallTimeoutError` if brokers cannot be asked; `RemoteProtocolError` for bytes that
    no broker may send.
    """
    keep_freed_memory()
    client = client or client_for(options.client)
    for ranges in _by_place(partition.ranges):
        yield from _PlaceReader(client, options, ranges, tuple(columns)).batches()


def _by_place(ranges: Sequence[QueueRange]) -> list[list[QueueRange]]:
    """The ranges that are pulled over one connection: of one topic and one broker."""
    places: dict[tuple[str, str, int], list[QueueRange]] = {}
    for one in ranges:
        is_static = one.broker.startswith(STATIC_BROKER_PREFIX)  # each queue is somewhere else
        places.setdefault((one.broker, one.topic, one.queue_id if is_static else -1), []).append(one)
    return list(places.values())


class _PlaceReader:
    """Reads ranges of one topic on one broker."""

    def __init__(
        self, client: ExecutorClient, options: SourceOptions, ranges: Sequence[QueueRange], columns: tuple[str, ...]
    ) -> None:
        self._client, self._options, self._ranges, self._columns = client, options, ranges, columns
        self._topic_on_wire = options.client.on_wire(ranges[0].topic)
        self._origins = [self._origin(one) for one in ranges]
        self._pulls: BrokerPulls[_Piece] = BrokerPulls(client, options, self._on_wire(ranges[0]))
        self._bounds: dict[int, tuple[int, int]] = {}
        self._reported: set[tuple[int, str]] = set()

    def batches(self) -> Iterator[pa.RecordBatch]:
        runs: list[PulledRun] = []
        indices: list[int] = []
        rows = size = 0
        is_filtered = self._options.is_filtered
        for piece in self._pieces():
            run = piece.cargo
            if run is None or (is_filtered and not run.body):
                continue
            runs.append(run)
            indices.append(piece.range_index)
            rows += len(run.body) // RECORD_BYTES_MIN if is_filtered else run.high - run.low
            size += len(run.body)
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from self._batch(runs, indices)
                runs, indices, rows, size = [], [], 0, 0
        if runs:
            yield from self._batch(runs, indices)

    def _batch(self, runs: Sequence[PulledRun], indices: Sequence[int]) -> Iterator[pa.RecordBatch]:
        found = np.zeros(len(runs), np.int64)

        def leave_out(number: int, problem: str) -> None:
            self._report(indices[number], problem)
            found[number] += 1

        for decoded in decode(runs, self._columns, self._pulls.tags, leave_out):
            found += np.array(decoded.counts)
            if decoded.batch.num_rows:
                yield decoded.batch
        if not self._options.is_filtered:
            self._look_for_gaps(runs, indices, found.tolist())

    # --- pulling

    def _pieces(self) -> Iterator[_Piece]:
        """The pieces of all ranges, in order, each with what was pulled of it."""
        is_filtered, count_max = self._options.is_filtered, self._options.pull_count_max
        grains, place = self._client.grains, (self._ranges[0].broker, count_max)
        schedule: PullSchedule[PulledRun] = PullSchedule(
            [(one.start, one.end) for one in self._ranges],
            count_max,
            is_filtered=is_filtered,
            grain=None if is_filtered else grains.get(place),
        )
        try:
            self._check_marks()
            while not schedule.is_done:
                asks = [self._ask(piece.range_index, piece) for piece in schedule.to_ask()]
                answered = self._pulls.exchange(asks)
                if answered is None:
                    schedule.put_back_all()
                    continue
                for piece, answer in answered:
                    self._take(schedule, piece, answer)
                yield from schedule.ready()
        except RouteError:
            if not self._client.is_gone(self._on_wire(self._ranges[0]), self._options.route_ttl_s):
                raise  # a broker that is down comes back with its messages, or has just done so
            for index in range(schedule.current_range, len(self._ranges)):
                self._report(index, QUEUE_GONE)
        finally:
            self._pulls.close()
        if schedule.grain is not None and not is_filtered:
            grains[place] = schedule.grain

    def _ask(self, index: int, piece: _Piece, *, is_plain: bool = False) -> Ask[_Piece]:
        return Ask(self._on_wire(self._ranges[index]), piece.low, piece.count, piece, is_plain)

    def _take(self, schedule: PullSchedule[PulledRun], piece: _Piece, answer: PullAnswer) -> None:
        index = piece.range_index
        found = self._meaning(piece, answer)
        if isinstance(found, Advance):
            self._pulls.reward()
            schedule.answered(piece, found.next_offset, len(answer.body))
            piece.cargo = PulledRun(self._origins[index], answer.body, piece.low, piece.high, answer.offset_delta)
        elif isinstance(found, Loss):
            self._report(index, found.cause)
            schedule.answered(piece, found.until, 0)
        else:
            schedule.put_back(piece)
            self._pulls.strain(found.problem)

    def _meaning(self, piece: _Piece, answer: PullAnswer) -> Meaning:
        node = self._pulls.node
        if answer.max_offset >= 0:
            self._bounds[piece.range_index] = answer.min_offset, answer.max_offset
        return classify(answer, piece.low, piece.high, address=node.address, is_slave=node.is_slave)

    # --- what is missing

    def _look_for_gaps(self, runs: Sequence[PulledRun], indices: Sequence[int], counts: Sequence[int]) -> None:
        """Without a filter, each offset is a message; only a compacted topic leaves some out."""
        for run, index, count in zip(runs, indices, counts, strict=True):
            if count < run.high - run.low and not self._client.is_compacted(
                self._topic_on_wire, self._pulls.node, self._options.pull_timeout_s
            ):
                self._report(index, VANISHED)

    def _report(self, index: int, cause: str) -> None:
        """Once for each range and cause."""
        if (index, cause) not in self._reported:
            self._reported.add((index, cause))
            one = self._ranges[index]
            queue = MessageQueue(one.topic, one.broker, one.queue_id)
            loss = DataLossError(queue, one.start, one.end, self._bounds.get(index), cause)
            report(loss, fails=self._options.fail_on_data_loss)

    # --- a topic that was deleted and made anew

    def _check_marks(self) -> None:
        """Look whether the message before each range is the one that was there when the range was planned."""
        marked = [index for index, one in enumerate(self._ranges) if one.mark_ms is not None and one.start > 0]
        for first in range(0, len(marked), IN_FLIGHT_MAX):
            self._check_some_marks(marked[first : first + IN_FLIGHT_MAX])

    def _check_some_marks(self, marked: Sequence[int]) -> None:
        starts = [(index, self._ranges[index].start) for index in marked]
        pieces = [Piece[PulledRun](index, start - 1, start, 1) for index, start in starts]
        waiting, to_ask = set(pieces), pieces
        while waiting:
            answered = self._pulls.exchange([self._ask(piece.range_index, piece, is_plain=True) for piece in to_ask])
            if answered is None:
                to_ask = list(waiting)
                continue
            to_ask = []
            for piece, answer in answered:
                found = self._meaning(piece, answer)
                if isinstance(found, TryAgain):
                    to_ask.append(piece)
                    self._pulls.strain(found.problem)
                else:
                    waiting.remove(piece)
                    self._pulls.reward()
                    self._compare_mark(piece, answer)

    def _compare_mark(self, piece: _Piece, answer: PullAnswer) -> None:
        """If the message that marks the range was deleted there is nothing to compare; losses inside the range are
        found while it is read."""
        if answer.code == ResponseCode.SUCCESS:
            messages = decode_messages(bytes(answer.body), offset_delta=answer.offset_delta)
            times_ms = {message.queue_offset: message.store_ms for message in messages}
            mark_ms = self._ranges[piece.range_index].mark_ms
            if times_ms.get(QueueOffset(piece.low), mark_ms) != mark_ms:
                self._report(piece.range_index, RECREATED)

    # --- names

    def _on_wire(self, one: QueueRange) -> MessageQueue:
        return MessageQueue(self._topic_on_wire, one.broker, one.queue_id)

    def _origin(self, one: QueueRange) -> RunOrigin:
        queue = MessageQueue(one.topic, one.broker, one.queue_id)
        return RunOrigin(queue, self._topic_on_wire, one.broker.startswith(STATIC_BROKER_PREFIX))
