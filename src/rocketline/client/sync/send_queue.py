"""Messages handed over to the background loop, many at a time: waking a loop costs more than sending a message."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from rocketline.client.producer.async_sends import AsyncSends
from rocketline.client.producer.auto_batch import AutoBatch
from rocketline.client.producer.back_pressure import SendRoom
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.sync.portal import Portal
from rocketline.clock import Clock
from rocketline.errors import CallTimeoutError, ClosedError
from rocketline.model.queue import MessageQueue


class _Handed(NamedTuple):
    request: SendRequest
    queue: MessageQueue | None
    selector: QueueSelector | None
    started_s: float
    timeout_s: float
    receipt: Future[SendReceipt]
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
        mode: SendMode = SendMode.ASYNC,
        *,
        gathers: bool = False,
    ) -> Future[SendReceipt]:
        """With `gathers`, it may leave together with others, if there are batches.

        Raises `OverloadedError` and `ForkedError`; whatever else goes wrong, the future tells.
        """
        self._portal.check_process()
        self._soon.take_permit()
        started_s = self._clock.monotonic()
        receipt: Future[SendReceipt] = Future()
        receipt.set_running_or_notify_cancel()  # from here on it cannot be called back
        room = self._room
        if room is not None:
            size = len(request.body)
            if not room.take(size, timeout_s):
                self._soon.give_permit()
                receipt.set_exception(CallTimeoutError("waiting for room to send (back_pressure)", timeout_s))
                return receipt
            receipt.add_done_callback(lambda _: room.give(size))
        self._waiting.append(_Handed(request, queue, selector, started_s, timeout_s, receipt, mode, gathers))
        if not self._is_posted:
            self._is_posted = True
            self._portal.post(self._take)
        if self._is_closed:  # maybe only just now, when this one was not to be seen
            self.close()
        return receipt

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
    """`SendRoom` for threads: they wait for it."""

    def __init__(self, room: SendRoom) -> None:
        self._room = room
        self._changed = threading.Condition()

    def take(self, size: int, timeout_s: float) -> bool:
        """Wait for room for `size` bytes; whether there was any in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._room.take(size), timeout_s)

    def give(self, size: int) -> None:
        with self._changed:
            self._room.give(size)
            self._changed.notify_all()
