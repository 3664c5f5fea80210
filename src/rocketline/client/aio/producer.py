"""The asyncio producer. Java: DefaultMQProducer.

What to send, where and how often is decided by `ProducerCore` and `SendAttempts`, and carried out by `Delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, NoReturn, Unpack

from rocketline.client.aio.shell import AsyncClient
from rocketline.client.producer.async_sends import AsyncSends
from rocketline.client.producer.auto_batch import AutoBatch
from rocketline.client.producer.back_pressure import SendRoom
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.delivery import Delivery
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerKeywords, ProducerOptions
from rocketline.client.producer.queue_choice import BrokerFaults, QueueSelector
from rocketline.client.producer.recall import Recalls
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.requests import Requests
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.producer.trace_producer import trace_dispatcher
from rocketline.client.producer.traced import TracedCore
from rocketline.client.replies import ReceivedReply
from rocketline.client.runtime.members import TransactionCheck
from rocketline.client.runtime.namespaced import as_seen
from rocketline.client.runtime.pending_requests import ReplyCounts
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.scheduling import Stoppable, running_loop
from rocketline.client.trace.dispatcher import TraceDispatcher
from rocketline.clock import Clock
from rocketline.errors import ClosedError, RocketlineError
from rocketline.logs import Log
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.wire.headers import GetMaxOffsetRequestHeader

_log = Log(__name__)
_PROBE_ROUND_S: Final = 3.0


class Producer(AsyncClient[ProducerOptions]):
    """Sends messages. Use it as `async with`, or between `start` and `close`, on one event loop.

    >>> async def main(address: str) -> None:
    ...     async with Producer(address, group="shop") as producer:
    ...         receipt = await producer.send(Message("orders", b"{}", tags="new", keys=["42"]))
    ...         print(receipt.status.name, receipt.queue.topic, receipt.queue_offset)
    >>> from rocketline.testing import Server
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
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
        core = TracedCore if self.options.trace else ProducerCore
        self.core = core(
            group,
            self.options,
            client_id=self.runtime.client_id,
            namespace=self.runtime.namespace,
            common=self.runtime.options,
            routes=self.runtime.routes,
            clock=self.runtime.clock,
        )
        self._clock = self.runtime.clock
        self.delivery = Delivery(self.runtime, self.core)
        room = None
        if self.options.back_pressure:
            room = SendRoom(self.options.back_pressure_count, self.options.back_pressure_bytes)
        self.soon = AsyncSends(self.runtime, self.core, self.delivery, room)
        self.batches: AutoBatch | None = None
        if self.options.auto_batch:
            self.batches = AutoBatch(self.runtime, self.core, self.soon, self.delivery.positions)
        self._requests = Requests(self.runtime, self.core, self.delivery, self.soon, self.batches)
        self._recalls = Recalls(self.runtime, self.core)
        self._tracing: TraceDispatcher | None = None
        if self.core.trace is not None:
            topic, buffer = self.options.trace_topic, self.core.trace.buffer
            self._tracing = trace_dispatcher(self.runtime, group, "PRODUCE", topic, buffer)
        self._probing: Stoppable | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it runs; None before and after. One comparison tells whether it can be used."""

    # --- life

    async def start(self) -> None:
        """Join the runtime. No server needs to be up for it. Raises `GroupInUseError`, or `ClientError` if started."""
        await super().start()
        for topic in self.options.topics:
            try:
                await self.delivery.publish_info(self.runtime.with_namespace(topic))
            except RocketlineError as error:
                _log.warning("topic not ready", topic=topic, problem=str(error))
        await self.runtime.heartbeat_all()

    async def close(self) -> None:
        """Wait for what is on its way, say farewell to the brokers, and leave the runtime. Again: does nothing."""
        await super().close()

    async def _join(self) -> None:
        self.runtime.register_producer(self.runtime.with_namespace(self.group), self)

    async def _begin(self) -> None:
        self._loop = self.delivery.loop = asyncio.get_running_loop()
        if self._tracing is not None:
            self._tracing.begin()
        if self.core.faults is not None and self.options.probes_brokers:
            self._probing = self.runtime.every(
                _PROBE_ROUND_S, _PROBE_ROUND_S, self._probe_brokers, name="probe brokers"
            )

    async def _leave(self) -> None:
        self._loop = None
        self._requests.end_all()
        if self.batches is not None:
            self.batches.close()
        await self.soon.drain(self.options.send_timeout_s)
        if self._probing is not None:
            self._probing.cancel()
        if self._tracing is not None:
            await self._tracing.close()
        await self.runtime.unregister_producer(self.runtime.with_namespace(self.group))
        await super()._leave()

    def check_running(self) -> None:
        """Raise `ClosedError` or `NotStartedError` unless it and its runtime run. From any thread."""
        self._life.check_running()
        if self.runtime.is_closed:
            raise ClosedError(f"{self!r} is closed: make a new one")

    def _refuse(self) -> NoReturn:
        """Raise the error that tells why it cannot be used here and now."""
        self._life.check()
        raise AssertionError("a producer that runs has the loop of its runtime")

    # --- sending

    async def send(
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
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        started_s, request = self._clock.monotonic(), self.core.prepare(message)
        if self.batches is not None and timeout_s is None:
            return await self._gather(request, SendMode.SYNC, queue, selector, started_s)
        queue = self._make_way(request, queue, selector)
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        return await self.delivery.send(request, SendMode.SYNC, queue, selector, started_s, timeout_s)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> asyncio.Future[SendReceipt]:
        """Send without waiting; the future gets the receipt or the error. For many messages in flight at once.

        Java's rules for asynchronous sending: a failed connection is tried again, also with a queue given, and a
        broker's refusal is not. Raises what is wrong with the message, and `OverloadedError` when
        `async_in_flight_max` messages are on their way already. With `back_pressure` it waits for room, in its time.
        """
        loop, started_s = running_loop(), self._clock.monotonic()
        if loop is None or loop is not self._loop:
            self._refuse()
        request = self.core.prepare(message)
        if self.batches is not None and timeout_s is None:
            return self._gather(request, SendMode.ASYNC, queue, selector, started_s)
        queue = self._make_way(request, queue, selector)
        receipt: asyncio.Future[SendReceipt] = loop.create_future()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        self.soon.send(request, queue, selector, started_s, timeout_s, receipt)
        return receipt

    def _gather(
        self,
        request: SendRequest,
        mode: SendMode,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
    ) -> asyncio.Future[SendReceipt]:
        """Send it together with others, if it may wait for them."""
        assert self.batches is not None
        receipt: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
        self.soon.take_permit()
        try:
            self.batches.add(request, mode, queue, selector, started_s, receipt)
        except BaseException:
            self.soon.give_permit()
            raise
        return receipt

    def _make_way(
        self, request: SendRequest, queue: MessageQueue | None, selector: QueueSelector | None
    ) -> MessageQueue | None:
        """Where a message goes that waits for no others, as far as it is said: it overtakes none of those that do."""
        return queue if self.batches is None else self.batches.make_way(request, queue, selector)

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send and never learn what became of it: quick, for what may get lost. Raises only what is wrong before."""
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        request = self.core.prepare(message)
        await self.delivery.tell(request, self._make_way(request, queue, selector), selector)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> ReceivedReply:
        """Send a message and wait until a consumer replies to it: its handler returns `reply(message, body)`.

        `timeout_s` is for all of it, `send_timeout_s` if it is not given. Sending follows the rules of `send_soon`, and
        any number of requests may wait at once. Raises:

        - `NoReplyError` when the time is over; the request may have been handled, or still be
        - whatever sending raises: then it may be stored only if that was `SendFailedError` or `CallTimeoutError`
        - `OverloadedError` when `async_in_flight_max` requests wait already
        - `ClosedError` if the producer is closed meanwhile
        """
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        return await self._requests.ask(message, queue, selector, timeout_s)

    @property
    def reply_counts(self) -> ReplyCounts:
        """Requests of this client that wait for a reply, and replies that came too late, or to nobody."""
        return self.runtime.requests.counts

    async def recall(self, topic: str, handle: str, *, timeout_s: float | None = None) -> str:
        """Call back a message that is to be delivered later, by the `recall_handle` of its receipt; its id is returned.

        The broker must allow it (`recallMessageEnable`). Raises `InvalidMessageError` for what is no handle of this
        topic, `RouteError`, `TransportError`, and `ResponseError` if the broker refuses, above all because the moment
        has come: then the message is delivered.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        return await self._recalls.recall(
            topic, handle, self.options.send_timeout_s if timeout_s is None else timeout_s
        )

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of `topic` can be sent to. Java: fetchPublishMessageQueues."""
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        info = await self.delivery.publish_info(self.runtime.with_namespace(topic))
        return [as_seen(self.runtime.namespace, queue) for queue in info.queues]

    # --- what the runtime asks

    def topics(self) -> Collection[str]:
        return self.core.topics

    def check_transaction(self, check: TransactionCheck) -> None:
        _log.warning("transaction asked for of a producer that makes none", group=self.group)

    def runtime_closed(self) -> None:
        if self.batches is not None:
            self.batches.end()

    # --- brokers that failed

    async def _probe_brokers(self) -> None:
        """Probe brokers that are marked as unreachable; clear the mark of those that answer.
        Java: LatencyFaultToleranceImpl."""
        faults, topic = self.core.faults, next(iter(self.core.topics), None)
        if faults is None or topic is None:
            return
        due = faults.due(self.runtime.clock.monotonic(), self.options.probe_period_s)
        await asyncio.gather(*(self._probe(faults, name, topic) for name in due))

    async def _probe(self, faults: BrokerFaults, broker_name: str, topic: str) -> None:
        address = self.core.routes.master(broker_name)
        if address is None:
            faults.forget(broker_name)
            return
        question = GetMaxOffsetRequestHeader(topic=topic, queue_id=0, target_broker=broker_name)
        with suppress(RocketlineError):
            await self.runtime.ask_ok(address, question, timeout_s=self.options.probe_timeout_s, vip=True)
            faults.answers(broker_name)
