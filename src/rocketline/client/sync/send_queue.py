"""Messages handed over to the background loop, many at a time: waking a loop costs more than sending a message."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from rocketline.client.producer.async_sends import AsyncSends, ReceiptFuture
from rocketline.client.producer.auto_batch import AutoBatch
from rocketline.client.producer.back_pressure import SendRoom
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.sync.portal import CTRL_C_S, Portal
from rocketline.clock import Clock
from rocketline.errors import CallTimeoutError, ClosedError
from rocketline.model.queue import MessageQueue


class _Receipt(ReceiptFuture, Protocol):
    def add_done_callback(self, action: Callable[[Any], object], /) -> object: ...


class _Awaited:
    """The receipt of a message, or its error, for a thread that waits for it by a plain lock, which the loop opens.

    A future has a lock of its own, which the waiting thread holds at times. A signal's handler that runs just then, and
    closes the producer, would wait for a loop that waits for this lock.
    """

    def __init__(self) -> None:
        self._receipt: SendReceipt | None = None
        self._error: Exception | None = None
        self._when_done: Callable[[_Awaited], object] | None = None
        self._is_done = False
        self._opened = threading.Lock()
        self._opened.acquire()

    def add_done_callback(self, action: Callable[[_Awaited], object], /) -> None:
        """Before it is handed over, and once."""
        self._when_done = action

    def done(self) -> bool:
        return self._is_done

    def set_result(self, receipt: SendReceipt, /) -> None:
        self._receipt = receipt
        self._end()

    def set_exception(self, error: Exception, /) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._is_done = True
        self._opened.release()
        if self._when_done is not None:
            self._when_done(self)

    def wait(self) -> SendReceipt:
        """Raises the error. Handlers of signals may run meanwhile, and do whatever they like."""
        while not self._is_done:
            self._opened.acquire(timeout=CTRL_C_S)
        if self._error is not None:
            raise self._error
        assert self._receipt is not None
        return self._receipt


class _Handed(NamedTuple):
    request: SendRequest
    queue: MessageQueue | None
    selector: QueueSelector | None
    started_s: float
    timeout_s: float
    receipt: _Receipt
    mode: SendMode
    gathers: bool


class SendQueue:
    """Takes messages from any thread and sends them on the loop. At most as many wait as `AsyncSends` allows."""

    def __init__(
        self,
        portal: Portal,
        soon: AsyncSends,
        room: BlockingRoom | None,
        clock: Clock,
        batches: AutoBatch | None = None,
    ) -> None:
        """With `room`, callers wait for it; with `batches`, messages may leave together."""
        self._portal, self._soon, self._batches, self._room, self._clock = portal, soon, batches, room, clock
        self._waiting: deque[_Handed] = deque()
        self._is_posted = self._is_closed = False

    def send(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout_s: float,
        *,
        gathers: bool = False,
    ) -> Future[SendReceipt]:
        """With `gathers`, it may leave together with others, if there are batches.

        Raises `OverloadedError` and `ForkedError`; whatever else goes wrong, the future tells.
        """
        receipt: Future[SendReceipt] = Future()
        receipt.set_running_or_notify_cancel()  # from here on it cannot be called back
        self._hand_over(request, queue, selector, timeout_s, receipt, SendMode.ASYNC, gathers=gathers)
        return receipt

    def send_and_wait(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout_s: float,
        *,
        gathers: bool,
    ) -> SendReceipt:
        """The same with the rules of callers that wait, and the wait. Raises whatever goes wrong."""
        receipt = _Awaited()
        self._hand_over(request, queue, selector, timeout_s, receipt, SendMode.SYNC, gathers=gathers)
        return receipt.wait()

    def _hand_over(
        self,
        request: SendRequest,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout_s: float,
        receipt: _Receipt,
        mode: SendMode,
        *,
        gathers: bool,
    ) -> None:
        self._portal.check_process()
        self._soon.take_permit()
        started_s = self._clock.monotonic()
        room = self._room
        if room is not None:
            size = len(request.body)
            if not room.take(size, timeout_s):
                self._soon.give_permit()
                receipt.set_exception(CallTimeoutError("waiting for room to send (back_pressure)", timeout_s))
                return
            receipt.add_done_callback(lambda _: room.give(size))
        self._waiting.append(_Handed(request, queue, selector, started_s, timeout_s, receipt, mode, gathers))
        if not self._is_posted:
            self._is_posted = True
            self._portal.post(self._take)
            if not self._portal.is_open:  # its runtime was closed, and nobody will take what was handed over
                self.close()
        if self._is_closed:  # maybe only just now, when this one was not to be seen
            self.close()

    def close(self) -> None:
        """The loop takes nothing any more: whoever handed something over since is told so."""
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._refuse(self._waiting.popleft(), ClosedError("the producer is closed"))

    def _refuse(self, handed: _Handed, error: Exception) -> None:
        self._soon.give_permit()
        handed.receipt.set_exception(error)

    def _take(self) -> None:
        """On the loop: send all that was handed over."""
        self._is_posted = False  # before looking: what comes from now on is posted for anew
        while self._waiting:
            handed = self._waiting.popleft()
            try:
                self._begin(handed)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is the caller's, who waits for it
                self._refuse(handed, error)

    def _begin(self, handed: _Handed) -> None:
        request, queue, selector, started_s, timeout_s, receipt, mode, gathers = handed
        if self._batches is not None:
            if gathers:
                self._batches.add(request, mode, queue, selector, started_s, receipt)
                return
            queue = self._batches.make_way(request, queue, selector)
        self._soon.begin(request, queue, selector, started_s, timeout_s, receipt, mode)


class BlockingRoom:
    """`SendRoom` for threads, which wait for it. The loop gives it back, and waits for none of them: a signal's handler
    may run in the midst of what they do here, and wait for the loop."""

    def __init__(self, room: SendRoom) -> None:
        self._room = room
        self._taking = threading.RLock()
        self._given: deque[int] = deque()
        """What came back since somebody took last."""
        self._waiting: deque[threading.Lock] = deque()
        """Opened, all of them, whenever some comes back."""

    def take(self, size: int, timeout_s: float) -> bool:
        """Wait for room for `size` bytes; whether there was any in time."""
        due_s = time.monotonic() + timeout_s
        while not self._take(size):
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
            try:
                if self._take(size):  # it came back before this one was to be seen
                    return True
                turn.acquire(timeout=min(left_s, CTRL_C_S))
            finally:
                with suppress(ValueError):
                    self._waiting.remove(turn)
        return True

    def _take(self, size: int) -> bool:
        with self._taking:
            while self._given:
                self._room.give(self._given.popleft())
            return self._room.take(size)

    def give(self, size: int) -> None:
        self._given.append(size)
        with suppress(IndexError):
            while True:
                self._waiting.popleft().release()
