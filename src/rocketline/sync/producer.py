"""The blocking producer. Java: DefaultMQProducer.

Routes and heartbeats are kept on the runtime's background thread. `send` writes to a socket that the calling thread has
to itself; messages that nobody waits for go by the background thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Self, TypeAlias, Unpack

from rocketline.client.options import make_options
from rocketline.client.producer import Producer as AsyncProducer
from rocketline.client.producer_options import ProducerKeywords, ProducerOptions
from rocketline.client.queue_choice import Positions, QueueSelector
from rocketline.client.receipts import SendReceipt, SendStatus
from rocketline.client.scheduling import Stoppable
from rocketline.client.send_hooks import SendMode
from rocketline.client.send_request import SendRequest
from rocketline.client.send_room import SendRoom
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.sync.connections import BlockingConnections
from rocketline.sync.handover import BlockingRoom, Handover
from rocketline.sync.runtime import ClientRuntime
from rocketline.wire.command import Command

_IDLE_CHECK_S: Final = 30.0
_SEND_OK: Final = SendStatus.SEND_OK
ReceiptCallback: TypeAlias = "Callable[[Future[SendReceipt]], object]"


class Producer:
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
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        self.options = make_options(ProducerOptions, name_servers, options)
        self.runtime = runtime or ClientRuntime(self.options, clock=clock)
        core = self.runtime.core
        options["back_pressure"] = False  # callers wait for room in their own threads, see below
        self._core = AsyncProducer(name_servers, group=group, runtime=core, **options)
        self.group = group
        self._sending, self._delivery, self._clock = self._core.sending, self._core.delivery, core.clock
        self._connections = BlockingConnections(
            tls=core.tls,
            connect_timeout_s=core.options.connect_timeout_s,
            idle_s=core.options.idle_close_s,
            busy_wait_s=self.options.busy_wait_s,
            clock=core.clock,
        )
        self._is_plain = not (self._sending.hooks or core.preparation.is_needed or core.options.vip_channel)
        self._closing_idle: Stoppable | None = None
        self._turns = _Turns()
        room = None
        if self.options.back_pressure:
            room = BlockingRoom(SendRoom(self.options.back_pressure_count, self.options.back_pressure_bytes))
        self._handover = Handover(self.runtime.portal, self._core.soon, room, core.clock)

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def client_id(self) -> str:
        return self.runtime.client_id

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Join the runtime. No server needs to be up for it. Raises `GroupInUseError`, or `ClientError` if started."""
        self.runtime.start_client(self._core, self._start)

    async def _start(self) -> None:
        await self._core.start()
        self._closing_idle = self.runtime.core.every(
            _IDLE_CHECK_S, _IDLE_CHECK_S, self._close_idle, name="close idle connections"
        )

    async def _close_idle(self) -> None:
        self._connections.close_idle()

    def close(self) -> None:
        """Wait for what is on its way, say farewell to the brokers, and leave the runtime. Again: does nothing."""
        self._connections.close()
        self.runtime.close_client(self._core, self._close)
        self._handover.close()

    async def _close(self) -> None:
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        await self._core.close()

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
        self._core.check_running()
        clock, started_s = self._clock, self._clock.monotonic()
        request = self._sending.prepare(message)
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        first = self._sending.first_queue(request, self._turns.positions, queue, selector)
        is_given, left_s = queue is not None or selector is not None, timeout_s
        if first is None:
            first = self._first_queue(request, queue, selector, timeout_s)
            left_s += started_s - clock.monotonic()
        outcome = self._outcome(request, first, self._sending.first_timeout_s(left_s, is_given=is_given))
        if isinstance(outcome, SendReceipt) and outcome.status is _SEND_OK and self._sending.faults is None:
            return outcome
        attempts = self._sending.attempts(
            self._sending.sync, self._turns.positions, first, started_s, timeout_s, is_given=is_given
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
        self._core.check_running()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        receipt = self._handover.send(self._sending.prepare(message), queue, selector, timeout_s)
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
        self._core.check_running()
        request = self._sending.prepare(message)
        timeout_s = self.options.send_timeout_s
        due_s = self._clock.monotonic() + timeout_s
        chosen = self._first_queue(request, queue, selector, timeout_s)
        address, command = self._address(request, chosen, due_s), self._command(request, chosen)
        context = self._sending.context(request, chosen, address, SendMode.ONEWAY)
        with self._sending.hooks.around(context):
            self.runtime.core.prepare(command, address)
            self._connections.send_oneway(address, command, self._left_s(due_s))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of `topic` can be sent to. Java: fetchPublishMessageQueues."""
        self._core.check_running()
        return self.runtime.portal.call(self._core.queues(topic))

    # --- one attempt

    def _first_queue(
        self, request: SendRequest, queue: MessageQueue | None, selector: QueueSelector | None, timeout_s: float
    ) -> MessageQueue:
        first = self._sending.first_queue(request, self._turns.positions, queue, selector)
        if first is None:
            self.runtime.portal.call(self._delivery.find_queues(request.topic, timeout_s))
            first = self._sending.first_queue(request, self._turns.positions, queue, selector)
            assert first is not None
        return first

    def _outcome(self, request: SendRequest, queue: MessageQueue, timeout_s: float) -> SendReceipt | RocketlineError:
        """What one attempt brings."""
        sending = self._sending
        try:
            broker_name = sending.routes.broker_of(queue)
            address = sending.routes.master(broker_name)
            if address is None or not self._is_plain:
                return self._try(request, queue, timeout_s)
            connections = self._connections
            opaque = connections.next_opaque()
            data = sending.requests.frame(request, queue, broker_name, self._clock.wall_ms(), opaque)
            return sending.receipt(connections.request_frame(address, data, opaque, timeout_s), request, queue, address)
        except RocketlineError as error:
            return error

    def _try(self, request: SendRequest, queue: MessageQueue, timeout_s: float) -> SendReceipt:
        """The whole of an attempt: find the broker, ask the hooks, sign."""
        due_s = self._clock.monotonic() + timeout_s
        address = self._address(request, queue, due_s)
        sending, core = self._sending, self.runtime.core
        command = self._command(request, queue)
        context = sending.context(request, queue, address, SendMode.SYNC)
        with sending.hooks.around(context):
            core.prepare(command, address)
            answer = self._connections.request(address, command, self._left_s(due_s))
            core.preparation.finish(command, address, answer)
            context.receipt = receipt = sending.receipt(answer, request, queue, address)
        return receipt

    def _address(self, request: SendRequest, queue: MessageQueue, due_s: float) -> str:
        routes = self._sending.routes
        address = routes.master(routes.broker_of(queue))
        if address is None:
            return self.runtime.portal.call(self._delivery.address(request, queue, self._left_s(due_s)))
        return self.runtime.core.target(address, vip=True)

    def _left_s(self, due_s: float) -> float:
        return max(due_s - self._clock.monotonic(), 0.0)

    def _command(self, request: SendRequest, queue: MessageQueue) -> Command:
        sending = self._sending
        return sending.requests.command(request, queue, sending.routes.broker_of(queue), self._clock.wall_ms())


class _Turns(threading.local):
    """Whose turn it is among the queues, for each thread its own."""

    def __init__(self) -> None:
        self.positions: Positions = {}
