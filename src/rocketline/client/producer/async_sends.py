"""Messages that are sent without waiting: their number is bounded, and each gets its receipt or its error once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from rocketline.client.producer.back_pressure import Permits, SendRoom
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.delivery import Delivery, Outcome
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import CallTimeoutError, ClosedError, OverloadedError, RequestTimeoutError, RocketlineError
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command

_SEND_OK: Final = SendStatus.SEND_OK


class ReceiptFuture(Protocol):
    """What is told the outcome: a future of asyncio, or of another thread."""

    def done(self) -> bool: ...

    def set_result(self, receipt: SendReceipt, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class _InFlightSend:
    """One message on its way: waits for the broker's answer, and has `receipt` told."""

    __slots__ = (
        "address",
        "first",
        "is_given",
        "is_over",
        "mode",
        "owner",
        "receipt",
        "request",
        "started_s",
        "timeout_s",
    )

    first: MessageQueue
    address: str

    def __init__(
        self,
        owner: AsyncSends,
        request: SendRequest,
        receipt: ReceiptFuture,
        started_s: float,
        timeout_s: float,
        is_given: bool,
        mode: SendMode,
    ) -> None:
        self.owner, self.request, self.receipt, self.mode = owner, request, receipt, mode
        self.started_s, self.timeout_s, self.is_given = started_s, timeout_s, is_given
        self.is_over = False

    # --- what a channel calls

    def done(self) -> bool:
        return self.is_over

    def set_result(self, answer: Command, /) -> None:
        self.owner.answered(self, answer)

    def set_exception(self, error: Exception, /) -> None:
        assert isinstance(error, RocketlineError)
        self.owner.go_on(self, error)

    def exception(self) -> None:
        """A future wants to be asked for its exception; this one has handed it on."""


class AsyncSends:
    """The messages of one producer that nobody waits for. On one loop."""

    def __init__(self, runtime: ClientRuntime, core: ProducerCore, delivery: Delivery, room: SendRoom | None) -> None:
        """With `room`, messages wait for it."""
        self._runtime, self._core, self._delivery, self._room = runtime, core, delivery, room
        self._clock = runtime.clock
        self._permits = Permits(core.options.async_in_flight_max)
        self._count = 0
        self._drained: asyncio.Future[None] | None = None
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits for room, with the bytes each wants; at most `async_in_flight_max` of them."""

    def send(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        timeout_s: float,
        receipt: ReceiptFuture,
    ) -> None:
        """Begin to send what came at `started_s`; `receipt` gets the receipt or the error.

        Raises `OverloadedError`, and what is wrong with queue or selector if that is known yet.
        """
        self.take_permit()
        try:
            self.begin(request, queue, selector, started_s, timeout_s, receipt)
        except BaseException:
            self.give_permit()
            raise

    def begin(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        timeout_s: float,
        receipt: ReceiptFuture,
        mode: SendMode = SendMode.ASYNC,
    ) -> None:
        """The same for what has its permit. It keeps that until its receipt is there, unless this raises.

        `mode` says whose rules count: those of callers that wait, if some do.
        """
        is_given = queue is not None or selector is not None
        in_flight = _InFlightSend(self, request, receipt, started_s, timeout_s, is_given, mode)
        first = None
        if self._room is None:
            first = self._core.first_queue(request, self._delivery.positions, queue, selector)
        left_s = started_s + timeout_s - self._clock.monotonic()
        self._count += 1
        if first is None:
            self._later(in_flight, lambda: self._from_start(in_flight, queue, selector))
            return
        in_flight.first = first
        outcome: RocketlineError | None = None
        try:
            if left_s <= 0:
                raise RequestTimeoutError(first.broker_name, "the time was over before the message's turn came")
            if mode is SendMode.SYNC:
                left_s = self._core.first_timeout_s(left_s, is_given=is_given)
            address = self._delivery.begin(request, first, left_s, in_flight)
            if address is not None:
                in_flight.address = address
                return
        except RocketlineError as error:
            outcome = error
        self.go_on(in_flight, outcome)

    def take_permit(self) -> None:
        """Count one message more, from any thread. Raises `OverloadedError` if that is too many."""
        if not self._permits.take():
            raise OverloadedError(
                f"producer {self._core.group!r}",
                f"{self._permits.count_max} messages are on their way already (async_in_flight_max): wait for some of "
                "them",
            )

    def give_permit(self) -> None:
        """The message is not sent after all."""
        self._permits.give()

    async def drain(self, timeout_s: float) -> None:
        """Wait until nothing is on its way any more, but not longer than `timeout_s`."""
        if self._count:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=timeout_s)

    # --- on the way

    def answered(self, in_flight: _InFlightSend, answer: Command) -> None:
        """The broker has answered."""
        try:
            receipt = self._core.receipt(answer, in_flight.request, in_flight.first, in_flight.address)
        except RocketlineError as error:
            self.go_on(in_flight, error)
        else:
            if receipt.status is _SEND_OK and self._core.faults is None:
                self._finish(in_flight, receipt)
            else:
                self.go_on(in_flight, receipt)

    def go_on(self, in_flight: _InFlightSend, outcome: Outcome) -> None:
        """Go on after the first attempt, which brought `outcome`."""
        self._later(
            in_flight,
            lambda: self._delivery.go_on(
                in_flight.request,
                in_flight.mode,
                in_flight.first,
                outcome,
                in_flight.started_s,
                in_flight.timeout_s,
                is_given=in_flight.is_given,
            ),
        )

    def _later(self, in_flight: _InFlightSend, work: Callable[[], Coroutine[Any, Any, SendReceipt]]) -> None:
        """Do what takes waiting in a task of the runtime's."""
        task = self._runtime.spawn(self._finish_after(in_flight, work), name="send")
        closed = ClosedError(f"producer {self._core.group!r} was closed while a message was on its way")
        task.add_done_callback(lambda _: self._finish(in_flight, None, closed))  # only if the task was cancelled

    async def _finish_after(
        self, in_flight: _InFlightSend, work: Callable[[], Coroutine[Any, Any, SendReceipt]]
    ) -> None:
        try:
            receipt = await work()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the caller's
            self._finish(in_flight, None, error)
        else:
            self._finish(in_flight, receipt)

    def _finish(self, in_flight: _InFlightSend, receipt: SendReceipt | None, error: Exception | None = None) -> None:
        if in_flight.is_over:
            return
        in_flight.is_over = True
        self._count -= 1
        self._permits.give()
        if not in_flight.receipt.done():  # whoever waits may have given up
            if error is not None:
                in_flight.receipt.set_exception(error)
            elif receipt is not None:
                in_flight.receipt.set_result(receipt)
        if self._drained is not None and not self._count and not self._drained.done():
            self._drained.set_result(None)

    # --- from the start, with waiting

    async def _from_start(
        self, in_flight: _InFlightSend, queue: MessageQueue | None, selector: QueueSelector | None
    ) -> SendReceipt:
        size = len(in_flight.request.body)
        await self._take_room(size, in_flight.timeout_s)
        try:
            return await self._delivery.send(
                in_flight.request, in_flight.mode, queue, selector, in_flight.started_s, in_flight.timeout_s
            )
        finally:
            self._give_room(size)

    async def _take_room(self, size: int, timeout_s: float) -> None:
        """Wait for room, first come first served. Raises `CallTimeoutError`."""
        if self._room is None or (not self._queue and self._room.take(size)):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = size, turn
        self._queue.append(entry)
        late = CallTimeoutError("waiting for room to send (back_pressure)", timeout_s)
        alarm = self._runtime.call_later(timeout_s, lambda: None if turn.done() else turn.set_exception(late))
        try:
            await turn
        except BaseException:
            if entry in self._queue:
                self._queue.remove(entry)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_room(size)  # it was given, and nobody takes it
            raise
        finally:
            alarm.cancel()

    def _give_room(self, size: int) -> None:
        if self._room is None:
            return
        self._room.give(size)
        while self._queue and (self._queue[0][1].done() or self._room.take(self._queue[0][0])):
            _, turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
