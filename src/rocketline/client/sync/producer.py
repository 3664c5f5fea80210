"""The blocking producer. Java: DefaultMQProducer.

Routes and heartbeats are kept on the runtime's background thread. `send` writes to a socket that the calling thread has
to itself; messages that nobody waits for go by the background thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeAlias, Unpack

from rocketline.client.aio.producer import Producer as AsyncProducer
from rocketline.client.producer.back_pressure import SendRoom
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerKeywords, ProducerOptions
from rocketline.client.producer.queue_choice import Positions, QueueSelector
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.runtime.pending_requests import ReplyCounts
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.send_queue import BlockingRoom, SendQueue
from rocketline.client.sync.shell import SocketClient, closes, starts, waits
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command

_SEND_OK: Final = SendStatus.SEND_OK
ReceiptCallback: TypeAlias = "Callable[[Future[SendReceipt]], object]"


class Producer(SocketClient[AsyncProducer, ProducerOptions]):
    """Sends messages, from any number of threads. Use it as `with`, or between `start` and `close`.

    >>> from rocketline.testing import Server
    >>> with Server() as server, Producer(server.address, group="shop") as producer:
    ...     receipt = producer.send(Message("orders", b"{}", tags="new", keys=["42"]))
    ...     print(receipt.status.name, receipt.queue.topic, receipt.queue_offset)
    SEND_OK orders 0
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(ProducerOptions, name_servers, options, group, runtime, clock)
        options["back_pressure"] = False  # callers wait for room in their own threads, see below
        core = self.runtime.core
        self._twin = self._make_twin(name_servers, group, options)
        self._core, self._delivery, self._clock = self._twin.core, self._twin.delivery, core.clock
        self._connections = self._make_connections(self.options.busy_wait_s)
        self._is_plain = not (self._core.hooks or core.decorator.is_needed or core.options.vip_channel)
        self._turns = _Turns()
        room = None
        if self.options.back_pressure:
            room = BlockingRoom(SendRoom(self.options.back_pressure_count, self.options.back_pressure_bytes))
        self._send_queue = SendQueue(self.runtime.portal, self._twin.soon, room, core.clock, self._twin.batches)

    def _make_twin(
        self, name_servers: str | Sequence[str] | None, group: str, options: ProducerKeywords
    ) -> AsyncProducer:
        return AsyncProducer(name_servers, group=group, runtime=self.runtime.core, **options)

    # --- life

    start = starts(AsyncProducer.start)
    close = closes(AsyncProducer.close)

    def _close(self) -> None:
        super()._close()
        self._send_queue.close()

    # --- sending

    def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> SendReceipt:
        """Send a message, or several of one topic as a batch, and wait until it is stored.

        It goes to the queue given, to the one that `selector` chooses, or to the next in turn; in the last case other
        brokers are tried if one fails. `timeout_s` is for all of it. Raises:

        - `InvalidMessageError`, `InvalidNameError`, `SelectorError` for what cannot be sent
        - `RouteError` if nobody knows where to, `TransportError` if no name server can be asked
        - `ResponseError` if a broker refuses it for good
        - `SendFailedError` when every attempt failed, `CallTimeoutError` when the time was over; the message may be
          stored all the same. With a queue given or selected, the `TransportError` of the one attempt
        """
        self._twin.check_running()
        clock, started_s = self._clock, self._clock.monotonic()
        request = self._core.prepare(message)
        is_given, gathers = queue is not None or selector is not None, timeout_s is None
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        # A callback sends by itself: on the loop's own thread it would wait for a batch that nobody sends meanwhile.
        if self.options.auto_batch and (gathers or is_given) and not self.runtime.portal.is_inside:
            return self._send_queue.send_and_wait(request, queue, selector, timeout_s, gathers=gathers)
        first = self._core.first_queue(request, self._turns.positions, queue, selector)
        left_s = timeout_s
        if first is None:
            first = self._first_queue(request, queue, selector, timeout_s)
            left_s += started_s - clock.monotonic()
        outcome = self._outcome(request, first, self._core.first_timeout_s(left_s, is_given=is_given))
        if isinstance(outcome, SendReceipt) and outcome.status is _SEND_OK and self._core.faults is None:
            return outcome
        attempts = self._core.attempts(
            self._core.sync, self._turns.positions, first, started_s, timeout_s, is_given=is_given
        )
        while True:
            if isinstance(outcome, SendReceipt):
                if attempts.answered(outcome, clock.monotonic()):
                    return outcome
            else:
                attempts.failed(outcome, clock.monotonic())
            chosen = attempts.next(clock.monotonic())
            if chosen is None:
                assert attempts.receipt is not None
                return attempts.receipt
            outcome = self._outcome(request, chosen, attempts.timeout_s)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        callback: ReceiptCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> Future[SendReceipt]:
        """Send without waiting; the future gets the receipt or the error. For many messages in flight at once.

        `callback` is called with the future once that is known, on the client's own thread: it must not wait.

        Java's rules for asynchronous sending: a failed connection is tried again, also with a queue given, and a
        broker's refusal is not. Raises what is wrong with the message, and `OverloadedError` when
        `async_in_flight_max` messages are on their way already. With `back_pressure` the call waits for room.
        """
        self._twin.check_running()
        gathers = timeout_s is None and self.options.auto_batch
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        receipt = self._send_queue.send(self._core.prepare(message), queue, selector, timeout_s, gathers=gathers)
        if callback is not None:
            receipt.add_done_callback(callback)
        return receipt

    def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send and never learn what became of it: quick, for what may get lost. Raises only what is wrong before."""
        self._twin.check_running()
        is_given, portal = queue is not None or selector is not None, self.runtime.portal
        if self.options.auto_batch and is_given and not portal.is_inside:  # what gathers for its queue leaves before it
            portal.call(self._twin.send_oneway(message, queue=queue, selector=selector))
            return
        request = self._core.prepare(message)
        timeout_s = self.options.send_timeout_s
        due_s = self._clock.monotonic() + timeout_s
        chosen = self._first_queue(request, queue, selector, timeout_s)
        address, command = self._address(request, chosen, due_s), self._command(request, chosen)
        context = self._core.context(request, chosen, address, SendMode.ONEWAY)
        with self._core.hooks.around(context):
            self.runtime.core.prepare(command, address)
            self._connections.send_oneway(address, command, self._left_s(due_s))

    request = waits(AsyncProducer.request)
    queues = waits(AsyncProducer.queues)
    recall = waits(AsyncProducer.recall)

    @property
    def reply_counts(self) -> ReplyCounts:
        """Requests of this client that wait for a reply, and replies that came too late, or to nobody."""
        return self._twin.reply_counts

    # --- one attempt

    def _first_queue(
        self, request: SendRequest, queue: MessageQueue | None, selector: QueueSelector | None, timeout_s: float
    ) -> MessageQueue:
        first = self._core.first_queue(request, self._turns.positions, queue, selector)
        if first is None:
            self.runtime.portal.call(self._delivery.find_queues(request.topic, timeout_s))
            first = self._core.first_queue(request, self._turns.positions, queue, selector)
            assert first is not None
        return first

    def _outcome(self, request: SendRequest, queue: MessageQueue, timeout_s: float) -> SendReceipt | RocketlineError:
        """What one attempt brings."""
        core = self._core
        try:
            broker_name = core.routes.broker_of(queue)
            address = core.routes.master(broker_name)
            if address is None or not self._is_plain:
                return self._try(request, queue, timeout_s)
            connections = self._connections
            opaque = connections.next_opaque()
            data = core.requests.frame(request, queue, broker_name, self._clock.wall_ms(), opaque)
            return core.receipt(connections.request_frame(address, data, opaque, timeout_s), request, queue, address)
        except RocketlineError as error:
            return error

    def _try(self, request: SendRequest, queue: MessageQueue, timeout_s: float) -> SendReceipt:
        """The whole of an attempt: find the broker, ask the hooks, sign."""
        due_s = self._clock.monotonic() + timeout_s
        address = self._address(request, queue, due_s)
        core, runtime = self._core, self.runtime.core
        command = self._command(request, queue)
        context = core.context(request, queue, address, SendMode.SYNC)
        with core.hooks.around(context):
            runtime.prepare(command, address)
            answer = self._connections.request(address, command, self._left_s(due_s))
            runtime.decorator.finish(command, address, answer)
            context.receipt = receipt = core.receipt(answer, request, queue, address)
        return receipt

    def _address(self, request: SendRequest, queue: MessageQueue, due_s: float) -> str:
        routes = self._core.routes
        address = routes.master(routes.broker_of(queue))
        if address is None:
            return self.runtime.portal.call(self._delivery.address(request, queue, self._left_s(due_s)))
        return self.runtime.core.target(address, vip=True)

    def _left_s(self, due_s: float) -> float:
        return max(due_s - self._clock.monotonic(), 0.0)

    def _command(self, request: SendRequest, queue: MessageQueue) -> Command:
        core = self._core
        return core.requests.command(request, queue, core.routes.broker_of(queue), self._clock.wall_ms())


class _Turns(threading.local):
    """Whose turn it is among the queues, for each thread its own."""

    def __init__(self) -> None:
        self.positions: Positions = {}
