"""Messages that are sent without waiting: their number is bounded, and each gets its receipt or its error once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from rocketline.client.delivery import Delivery
from rocketline.client.queue_choice import QueueSelector
from rocketline.client.receipts import SendReceipt
from rocketline.client.runtime import ClientRuntime
from rocketline.client.send_attempts import SendAttempts
from rocketline.client.send_hooks import SendMode
from rocketline.client.send_request import SendRequest
from rocketline.client.send_room import SendRoom
from rocketline.client.sending import Sending
from rocketline.errors import CallTimeoutError, ClosedError, OverloadedError, RocketlineError
from rocketline.model.queue import MessageQueue
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command

_GO_AWAY: Final = int(ResponseCode.GO_AWAY)


class ReceiptFuture(Protocol):
    """What is told the outcome: a future of asyncio, or of another thread."""

    def done(self) -> bool: ...

    def set_result(self, receipt: SendReceipt, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class _Soon:
    """One message on its way: waits for the broker's answer, and has `receipt` told."""

    __slots__ = ("address", "attempts", "is_over", "owner", "queue", "receipt", "request")

    attempts: SendAttempts
    queue: MessageQueue
    address: str

    def __init__(self, owner: SoonReceipts, request: SendRequest, receipt: ReceiptFuture) -> None:
        self.owner, self.request, self.receipt = owner, request, receipt
        self.is_over = False

    # --- what a channel calls

    def done(self) -> bool:
        return self.is_over

    def set_result(self, answer: Command, /) -> None:
        self.owner.answered(self, answer)

    def set_exception(self, error: Exception, /) -> None:
        self.owner.failed(self, error)

    def exception(self) -> None:
        """A future wants to be asked for its exception; this one has handed it on."""


class SoonReceipts:
    """The messages of one producer that nobody waits for. On one loop."""

    def __init__(self, runtime: ClientRuntime, sending: Sending, delivery: Delivery, room: SendRoom | None) -> None:
        """With `room`, messages wait for it."""
        self._runtime, self._sending, self._delivery, self._room = runtime, sending, delivery, room
        self._clock = runtime.clock
        self._count, self._count_max = 0, sending.options.async_in_flight_max
        self._drained: asyncio.Future[None] | None = None
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits for room, with the bytes each wants; at most `async_in_flight_max` of them."""

    def send(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        timeout_s: float | None,
        receipt: ReceiptFuture,
    ) -> None:
        """Begin to send what came at `started_s`; `receipt` gets the receipt or the error.

        Raises `OverloadedError`, and what is wrong with queue or selector if that is known yet.
        """
        self.check_count(1)
        attempts = None
        if self._room is None:
            rules, positions = self._sending.soon, self._delivery.positions
            attempts = self._sending.attempts(request, rules, positions, queue, selector, started_s, timeout_s)
        soon = _Soon(self, request, receipt)
        self._count += 1
        if attempts is None:
            self._later(soon, lambda: self._from_start(request, queue, selector, started_s, timeout_s))
        else:
            soon.attempts = attempts
            self._attempt(soon)

    def check_count(self, more: int) -> None:
        """Raise `OverloadedError` if so many messages more would be too many."""
        if self._count + more > self._count_max:
            raise OverloadedError(
                f"producer {self._sending.group!r}",
                f"{self._count} messages are on their way already (async_in_flight_max): wait for some of them",
            )

    async def drain(self, timeout_s: float) -> None:
        """Wait until nothing is on its way any more, but not longer than `timeout_s`."""
        if self._count:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=timeout_s)

    # --- on the way

    def _attempt(self, soon: _Soon) -> None:
        """Make the next attempt, right now if the connection allows it."""
        try:
            queue = soon.attempts.next(self._clock.monotonic())
        except RocketlineError as error:
            self._finish(soon, None, error)
            return
        if queue is None:
            self._finish(soon, soon.attempts.receipt)
            return
        soon.queue = queue
        try:
            address = self._delivery.begin(soon.request, soon.attempts, queue, soon)
        except RocketlineError as error:
            self.failed(soon, error)
            return
        if address is None:
            self._carry(soon, queue)
        else:
            soon.address = address

    def answered(self, soon: _Soon, answer: Command) -> None:
        """The broker has answered."""
        if answer.code == _GO_AWAY:
            self._carry(soon, soon.queue)
            return
        try:
            receipt = self._sending.receipt(answer, soon.request, soon.queue, soon.address)
        except RocketlineError as error:
            self.failed(soon, error)
            return
        if soon.attempts.answered(receipt, self._clock.monotonic()):
            self._finish(soon, receipt)
        else:
            self._attempt(soon)

    def failed(self, soon: _Soon, error: Exception) -> None:
        """The attempt failed."""
        try:
            soon.attempts.failed(error, self._clock.monotonic())
        except RocketlineError as final:
            self._finish(soon, None, final)
        else:
            self._carry(soon, None)

    def _carry(self, soon: _Soon, queue: MessageQueue | None) -> None:
        self._later(soon, lambda: self._delivery.carry(soon.request, soon.attempts, SendMode.ASYNC, queue))

    def _later(self, soon: _Soon, work: Callable[[], Coroutine[Any, Any, SendReceipt]]) -> None:
        """Do what takes waiting in a task of the runtime's."""
        task = self._runtime.spawn(self._settle(soon, work), name="send")
        closed = ClosedError(f"producer {self._sending.group!r} was closed while a message was on its way")
        task.add_done_callback(lambda _: self._finish(soon, None, closed))  # only if the task was cancelled

    async def _settle(self, soon: _Soon, work: Callable[[], Coroutine[Any, Any, SendReceipt]]) -> None:
        try:
            receipt = await work()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the caller's
            self._finish(soon, None, error)
        else:
            self._finish(soon, receipt)

    def _finish(self, soon: _Soon, receipt: SendReceipt | None, error: Exception | None = None) -> None:
        if soon.is_over:
            return
        soon.is_over = True
        self._count -= 1
        if not soon.receipt.done():  # whoever waits may have given up
            if error is not None:
                soon.receipt.set_exception(error)
            elif receipt is not None:
                soon.receipt.set_result(receipt)
        if self._drained is not None and not self._count and not self._drained.done():
            self._drained.set_result(None)

    # --- from the start, with waiting

    async def _from_start(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        timeout_s: float | None,
    ) -> SendReceipt:
        size = len(request.body)
        await self._take_room(size, self._sending.options.send_timeout_s if timeout_s is None else timeout_s)
        try:
            attempts = await self._delivery.attempts(request, self._sending.soon, queue, selector, started_s, timeout_s)
            return await self._delivery.carry(request, attempts, SendMode.ASYNC)
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
