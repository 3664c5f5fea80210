"""Messages of many callers that go out together, though each was sent by itself. Java: ProduceAccumulator.

Messages for the same place gather until there are enough bytes or the first has waited for its time; then they leave as
one batch, and each caller gets a receipt or an error of its own. What is to keep its order keeps it: for a given queue
there is one place, and whatever cannot wait with the others has them leave before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rocketline.client.producer.async_sends import AsyncSends, ReceiptFuture
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.queue_choice import Positions, QueueSelector
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.send_request import SendRequest, entry_of
from rocketline.client.runtime.namespaced import as_seen
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.scheduling import Alarm
from rocketline.errors import ClosedError, RocketlineError, one_more
from rocketline.model import property_names as names
from rocketline.model.queue import MessageQueue

MESSAGES_MAX: Final = 2_000
"""Of one batch. Our broker stores longer ones in pieces, with messages of others in between, and then nobody could tell
where each lies."""
_BY_ITSELF: Final = frozenset(
    {
        names.DELAY,
        *names.TIMERS,
        names.TRAN_MSG,
        names.PGROUP,
        names.MSG_TYPE,
        names.REPLY_TO_CLIENT,
        names.INNER_NUM,
        names.INNER_MULTI_DISPATCH,
    }
)
"""A message with one of these is sent by itself."""


class _Place(NamedTuple):
    """Where messages gather. For a given queue those of all tags do: their order counts, and a batch may have many."""

    topic: str
    queue: MessageQueue | None
    waits_for_store: str | None
    tags: str | None
    mode: SendMode


class _Member(NamedTuple):
    request: SendRequest
    entry: bytes
    """What it is in a batch."""
    receipt: ReceiptFuture


class _Group:
    __slots__ = ("bytes", "due_s", "members", "started_s")

    def __init__(self, started_s: float, due_s: float) -> None:
        self.started_s, self.due_s, self.bytes = started_s, due_s, 0
        self.members: list[_Member] = []


class AutoBatch:
    """Gathers the messages of one producer. On one loop. At most `batch_total_bytes_max` bytes wait; what comes beyond
    that leaves at once."""

    def __init__(self, runtime: ClientRuntime, core: ProducerCore, soon: AsyncSends, positions: Positions) -> None:
        """`positions`: whose turn it is among queues, if a selector wants to know which there are."""
        options = core.options
        self._runtime, self._core, self._soon, self._positions = runtime, core, soon, positions
        self._delay_s, self._timeout_s = options.batch_delay_s, options.send_timeout_s
        self._bytes_max, self._total_bytes_max = options.batch_bytes_max, options.batch_total_bytes_max
        self._groups: dict[_Place, _Group] = {}
        """In the order in which they are due: each waits for the same time."""
        self._of_queue: dict[MessageQueue, _Place] = {}
        self._alarm: Alarm | None = None
        self._is_closed = False
        self.waiting_bytes = 0

    @staticmethod
    def _takes(request: SendRequest) -> bool:
        """It may wait for others: a plain message, so small that it is not compressed."""
        return (
            request.batch_id is None
            and not request.sys_flag
            and request.moved is None
            and _BY_ITSELF.isdisjoint(request.messages[0].properties)
        )

    def add(
        self,
        request: SendRequest,
        mode: SendMode,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        receipt: ReceiptFuture,
    ) -> None:
        """Let a message that came at `started_s` wait for others; `receipt` gets its receipt or its error.

        It has its permit, see `AsyncSends.begin`. Raises what is wrong with queue or selector.
        """
        if queue is not None or selector is not None:
            queue = self._core.first_queue(request, self._positions, queue, selector)
        is_unknown = queue is None and selector is not None
        entry = None if is_unknown or self._is_closed or not self._takes(request) else entry_of(request)
        size = 0 if entry is None else len(entry)
        if entry is None or size > self._bytes_max or self.waiting_bytes + size > self._total_bytes_max:
            self._leave_for(queue)
            self._send(request, mode, queue, selector, started_s, receipt)
            return
        place, group = self._find(request, mode, queue, size, started_s)
        group.members.append(_Member(request, entry, receipt))
        group.bytes += size
        self.waiting_bytes += size
        if group.bytes >= self._bytes_max or len(group.members) >= MESSAGES_MAX:
            self._leave(place)

    def _find(
        self, request: SendRequest, mode: SendMode, queue: MessageQueue | None, size: int, started_s: float
    ) -> tuple[_Place, _Group]:
        """The group for a message of `size` bytes, a new one if need be."""
        properties = request.messages[0].properties
        tags = properties.get(names.TAGS) if queue is None else None
        place = _Place(request.topic, queue, properties.get(names.WAIT), tags, mode)
        if queue is not None and self._of_queue.setdefault(queue, place) != place:
            self._leave(self._of_queue[queue])
            self._of_queue[queue] = place
        group = self._groups.get(place)
        if group is not None and group.bytes + size > self._bytes_max:
            self._leave(place)
            group = None
            if queue is not None:
                self._of_queue[queue] = place
        if group is None:
            group = self._groups[place] = _Group(started_s, self._runtime.clock.monotonic() + self._delay_s)
            if self._alarm is None:
                self._alarm = self._runtime.call_later(self._delay_s, self._look)
        return place, group

    def make_way(
        self, request: SendRequest, queue: MessageQueue | None, selector: QueueSelector | None
    ) -> MessageQueue | None:
        """Something is about to be sent by itself: what waits for its queue leaves before it. Returns that queue, None
        if any will do or it is not known yet. Raises what is wrong with queue or selector."""
        if queue is None and selector is None:
            return None
        queue = self._core.first_queue(request, self._positions, queue, selector)
        self._leave_for(queue)
        return None if queue is None else as_seen(self._core.namespace, queue)

    def _leave_for(self, queue: MessageQueue | None) -> None:
        """Have leave what waits for that queue."""
        if queue is not None and (place := self._of_queue.get(queue)) is not None:
            self._leave(place)

    def close(self) -> None:
        """Nothing waits any longer, and nothing will: what threads have handed over by now is sent by itself."""
        self._is_closed = True
        for place in list(self._groups):
            self._leave(place)

    def end(self) -> None:
        """What waits is not sent any more, since there is nothing left to send it by. Each caller is told so."""
        self._is_closed = True
        waiting = [member for group in self._groups.values() for member in group.members]
        self._groups.clear()
        self._of_queue.clear()
        self.waiting_bytes = 0
        for _, _, receipt in waiting:
            self._soon.give_permit()
            if not receipt.done():
                receipt.set_exception(
                    ClosedError(
                        f"producer {self._core.group!r} was closed while a message waited for others to join it"
                    )
                )

    def _look(self) -> None:
        """Have those leave whose time has come."""
        now_s, self._alarm = self._runtime.clock.monotonic(), None
        for place, group in list(self._groups.items()):
            if group.due_s > now_s:
                self._alarm = self._runtime.call_later(group.due_s - now_s, self._look)
                return
            self._leave(place)

    # --- leaving

    def _leave(self, place: _Place) -> None:
        group = self._groups.pop(place)
        self.waiting_bytes -= group.bytes
        if place.queue is not None:
            del self._of_queue[place.queue]
        members = [member for member in group.members if not member.receipt.done()]
        for _ in range(len(group.members) - len(members)):  # whoever gave up meanwhile takes the message along
            self._soon.give_permit()
        if not members:
            return
        first = members[0]
        if len(members) == 1:
            self._send(first.request, place.mode, place.queue, None, group.started_s, first.receipt)
            return
        gathered = self._core.requests.prepare_gathered([(member.request, member.entry) for member in members])
        shares = _Shares(members, self._soon)
        self._send(gathered, place.mode, place.queue, None, group.started_s, shares)

    def _send(
        self,
        request: SendRequest,
        mode: SendMode,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        receipt: ReceiptFuture,
    ) -> None:
        """With the permit of its, or its first, message."""
        seen = None if queue is None else as_seen(self._core.namespace, queue)
        try:
            self._soon.begin(request, seen, selector, started_s, self._timeout_s, receipt, mode)
        except RocketlineError as error:
            self._soon.give_permit()
            receipt.set_exception(error)


class _Shares:
    """The receipt of a batch, for those whose messages are in it."""

    def __init__(self, members: Sequence[_Member], soon: AsyncSends) -> None:
        self._members, self._soon = members, soon

    def done(self) -> bool:
        return False

    def set_result(self, receipt: SendReceipt, /) -> None:
        places = receipt.offset_message_id.split(",")
        has_places = len(places) == len(self._members)  # a batch that the broker keeps in one piece has one
        for index, (request, _, waiting) in enumerate(self._members):
            own = SendReceipt(
                receipt.status,
                request.message_id,
                places[index] if has_places else receipt.offset_message_id,
                receipt.queue,
                receipt.queue_offset + index,
                request.message_id,
                None,
                receipt.region,
                receipt.is_traced,
            )
            if not waiting.done():
                waiting.set_result(own)
        self._give_permits()

    def set_exception(self, error: Exception, /) -> None:
        for _, _, waiting in self._members:
            if not waiting.done():
                waiting.set_exception(one_more(error) if isinstance(error, RocketlineError) else error)
        self._give_permits()

    def _give_permits(self) -> None:
        """The batch gives one itself."""
        for _ in range(len(self._members) - 1):
            self._soon.give_permit()
