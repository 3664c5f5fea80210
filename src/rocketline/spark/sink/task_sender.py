"""Sends what one task has: several requests at a time on plain sockets, each until a broker has acknowledged it.

A request that fails goes again, to another broker if there is one, after a pause that grows. A parcel that must go to
one queue, because its rows have a sharding key, is the only one on its way to that queue: brokers may answer, and
store, requests of one connection in any order.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from rocketline.client.producer.options import RETRY_CODES
from rocketline.client.producer.queue_choice import Positions, choose
from rocketline.client.sync.connections import BlockingConnection
from rocketline.clock import Clock, SystemClock
from rocketline.errors import (
    InvalidMessageError,
    ProtocolError,
    ResponseError,
    RocketlineError,
    RouteError,
    SendFailedError,
    TransportError,
    response_error,
)
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.options.source_and_sink import SinkOptions
from rocketline.spark.sink.client import SinkClient
from rocketline.spark.sink.rows import Parcel
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

_log = Log(__name__)

_STORED: Final = ResponseCode.SUCCESS.value
_STORED_UNSAFELY: Final = frozenset(
    code.value
    for code in (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)
_IN_FLIGHT_ROWS_MAX: Final = 4096
"""A batch is answered with an id for every message. So many answers fit into a socket's buffers while nobody reads."""
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.5, 8.0
_LATE_ANSWER_S: Final = 0.1
"""What a request gets whose time ran out while we waited for others: its answer may lie there."""


@dataclass(slots=True)
class SendCounts:
    """What became of a task's rows."""

    rows: Counter[str] = field(default_factory=Counter)
    """Acknowledged, by topic."""
    bytes: int = 0
    """Acknowledged, as batches and bodies were sent."""
    requests: int = 0
    retries: int = 0
    unsafe_rows: int = 0
    """Acknowledged, and not yet as safe as the broker is set up to make them."""


@dataclass(slots=True)
class _InFlight:
    parcel: Parcel
    queue: MessageQueue
    lane: _Lane
    due_s: float


@dataclass(slots=True)
class _Lane:
    """A connection to a broker, and the requests on it that were not answered yet, by their numbers."""

    connection: BlockingConnection
    pending: dict[int, _InFlight] = field(default_factory=dict)


class TaskSender:
    """Use it as `with`. What was sent is safe once `finish` returns."""

    def __init__(self, client: SinkClient, options: SinkOptions, partition: int, clock: Clock | None = None) -> None:
        self._client, self._options, self._partition = client, options, partition
        self._clock = clock or SystemClock()
        self._lanes: dict[str, _Lane] = {}
        self._in_flight: dict[int, _InFlight] = {}
        """By number; the oldest first."""
        self._rows_in_flight = 0
        self._busy: set[MessageQueue | None] = set()
        """Queues to which a parcel is on its way that must go there."""
        self._positions: Positions = {}
        self._opaques = count(1)
        self._started_s = self._clock.monotonic()
        self.counts = SendCounts()

    def __enter__(self) -> TaskSender:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        for lane in self._lanes.values():
            if lane.pending or kind is not None:
                lane.connection.close()
            else:
                self._client.give_back(lane.connection)
        self._lanes.clear()

    def send(self, parcel: Parcel) -> None:
        """Send it, after others were acknowledged if too many are on their way.

        Raises `SendFailedError` for whichever parcel failed for good, `InvalidMessageError` if a broker refuses one.
        """
        while self._in_flight and not self._has_room(parcel):
            self._take_answer()
        if parcel.queue is not None:
            self._busy.add(parcel.queue)
        self._post([parcel])

    def finish(self) -> SendCounts:
        """Wait until all is acknowledged. Raises as `send` does."""
        while self._in_flight:
            self._take_answer()
        return self.counts

    def _has_room(self, parcel: Parcel) -> bool:
        return (
            len(self._in_flight) < self._options.in_flight_max
            and self._rows_in_flight + parcel.rows <= _IN_FLIGHT_ROWS_MAX
            and parcel.queue not in self._busy
        )

    # --- requests

    def _post(self, parcels: Iterable[Parcel]) -> None:
        """Make an attempt with each, and another one, after a pause, as long as it cannot even be begun."""
        waiting = deque(parcels)
        while waiting:
            parcel, queue = waiting[0], None
            try:
                queue = parcel.queue or self._choose(parcel)
                self._write(parcel, queue, self._lane(self._client.address(queue)))
            except (TransportError, RouteError) as error:
                self._note_failure(parcel, "" if queue is None else queue.broker_name, error)
                if isinstance(error, TransportError):
                    waiting.extend(self._lose(error.address, error))
                self._pause(parcel)
            else:
                waiting.popleft()

    def _lane(self, address: str) -> _Lane:
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = _Lane(self._client.connect(address))
        return lane

    def _choose(self, parcel: Parcel) -> MessageQueue:
        last_broker = parcel.failures[-1][0] if parcel.failures else None
        queues: Sequence[MessageQueue] = self._client.queues(parcel.topic)
        return choose(self._positions, parcel.topic, queues, last_broker or None, None, 0.0)

    def _write(self, parcel: Parcel, queue: MessageQueue, lane: _Lane) -> None:
        opaque, address = next(self._opaques), lane.connection.address
        if parcel.message is None:
            data = self._client.batch_frame(parcel.topic, parcel.body, queue, address, opaque)
        else:
            data = self._client.message_frame(parcel.message, queue, address, opaque)
        timeout_s = self._options.send_timeout_s
        lane.connection.tell(data, timeout_s)
        sent = _InFlight(parcel, queue, lane, self._clock.monotonic() + timeout_s)
        lane.pending[opaque] = self._in_flight[opaque] = sent
        self._rows_in_flight += parcel.rows
        self.counts.requests += 1

    # --- answers

    def _take_answer(self) -> None:
        """Wait for an answer on the connection of the oldest request, and do what it says."""
        oldest = next(iter(self._in_flight.values()))
        connection, now_s = oldest.lane.connection, self._clock.monotonic()
        try:
            answer = connection.receive(max(oldest.due_s, now_s + _LATE_ANSWER_S))
        except (TransportError, ProtocolError) as error:
            lost = self._lose(connection.address, error)
            self._pause(lost[0])
            self._post(lost)
            return
        sent = self._forget(answer.opaque)
        if sent is None:
            return  # nobody asked: a stray from before
        if answer.code == _STORED or answer.code in _STORED_UNSAFELY:
            self._acknowledge(sent.parcel, is_safe=answer.code == _STORED)
        elif answer.code in RETRY_CODES:
            self._retry(sent, answer)
        else:
            raise self._refusal(sent, answer)

    def _acknowledge(self, parcel: Parcel, *, is_safe: bool) -> None:
        counts = self.counts
        counts.rows[parcel.topic] += parcel.rows
        counts.bytes += parcel.size
        if not is_safe:
            counts.unsafe_rows += parcel.rows
        if parcel.queue is not None:
            self._busy.discard(parcel.queue)

    def _forget(self, opaque: int) -> _InFlight | None:
        sent = self._in_flight.pop(opaque, None)
        if sent is not None:
            del sent.lane.pending[opaque]
            self._rows_in_flight -= sent.parcel.rows
        return sent

    def _retry(self, sent: _InFlight, answer: Command) -> None:
        """The broker refused it for now: busy, leaving, without the topic."""
        error, address = self._response_error(sent, answer), sent.lane.connection.address
        self._note_failure(sent.parcel, sent.queue.broker_name, error)
        lost = self._lose(address, error) if answer.code == ResponseCode.GO_AWAY else []
        self._pause(sent.parcel)
        self._post([sent.parcel, *lost])

    def _refusal(self, sent: _InFlight, answer: Command) -> RocketlineError:
        error, parcel = self._response_error(sent, answer), sent.parcel
        which = f"row {parcel.first_row} of partition {self._partition}"
        if parcel.rows > 1:
            which = f"{parcel.rows} rows that begin with {which}"
        return InvalidMessageError(parcel.topic, f"{which}: {error}")

    def _response_error(self, sent: _InFlight, answer: Command) -> ResponseError:
        code = RequestCode.SEND_BATCH_MESSAGE if sent.parcel.message is None else RequestCode.SEND_MESSAGE_V2
        address = sent.lane.connection.address
        return response_error(answer.code, answer.remark, request=code.name, address=address)

    # --- failures

    def _lose(self, address: str, error: Exception) -> list[Parcel]:
        """Close the connection. The parcels that were on it, which may be stored or not, with the failure noted."""
        lane = self._lanes.pop(address, None)
        if lane is None:
            return []
        lane.connection.close()
        parcels = []
        for opaque in list(lane.pending):
            sent = self._forget(opaque)
            assert sent is not None
            self._note_failure(sent.parcel, sent.queue.broker_name, error)
            parcels.append(sent.parcel)
        return parcels

    def _note_failure(self, parcel: Parcel, broker_name: str, error: Exception) -> None:
        """One attempt failed. Raises `SendFailedError` if it was the last one."""
        parcel.failures.append((broker_name, error))
        if len(parcel.failures) > self._options.retries:
            code = error.code if isinstance(error, ResponseError) else -1
            elapsed_s = self._clock.monotonic() - self._started_s
            raise SendFailedError(parcel.topic, code, parcel.failures, elapsed_s) from error
        self.counts.retries += 1

    def _pause(self, parcel: Parcel) -> None:
        """Give brokers time, more each time, and see whether the topic's queues have moved meanwhile."""
        time.sleep(min(_FIRST_PAUSE_S * 4 ** (len(parcel.failures) - 1), _PAUSE_MAX_S))
        try:
            self._client.ask_again(parcel.topic)
        except TransportError as error:
            _log.warning("route not renewed", topic=parcel.topic, problem=str(error))
