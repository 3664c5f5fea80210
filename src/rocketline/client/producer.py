"""The asyncio producer. Java: DefaultMQProducer.

What to send, where and how often is decided by `Sending` and `SendAttempts`, and carried out by `Delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, NoReturn, Self, Unpack

from rocketline.client.delivery import Delivery
from rocketline.client.lifecycle import Lifecycle, Living
from rocketline.client.options import make_options
from rocketline.client.producer_options import ProducerKeywords, ProducerOptions
from rocketline.client.queue_choice import BrokerFaults, QueueSelector
from rocketline.client.receipts import SendReceipt
from rocketline.client.routes import PublishInfo
from rocketline.client.runtime import ClientRuntime
from rocketline.client.scheduling import Stoppable, running_loop
from rocketline.client.send_hooks import SendMode
from rocketline.client.send_room import SendRoom
from rocketline.client.sending import Sending
from rocketline.client.soon import SoonReceipts
from rocketline.client.validation import check_group
from rocketline.clock import Clock
from rocketline.errors import ClosedError, RocketlineError
from rocketline.logs import Log
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.wire.headers import GetMaxOffsetRequestHeader

_log = Log(__name__)
_PROBE_ROUND_S: Final = 3.0


class Producer(Living):
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
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        check_group(group)
        self.group = group
        self.options = make_options(ProducerOptions, name_servers, options)
        self.runtime = runtime or ClientRuntime(self.options, clock=clock)
        self.sending = Sending(
            group,
            self.options,
            client_id=self.runtime.client_id,
            namespace=self.runtime.namespace,
            common=self.runtime.options,
            routes=self.runtime.routes,
            clock=self.runtime.clock,
        )
        self._clock = self.runtime.clock
        self.delivery = Delivery(self.runtime, self.sending)
        room = None
        if self.options.back_pressure:
            room = SendRoom(self.options.back_pressure_count, self.options.back_pressure_bytes)
        self.soon = SoonReceipts(self.runtime, self.sending, self.delivery, room)
        self._probing: Stoppable | None = None
        self._life = Lifecycle(repr(self), self.runtime.check)
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it runs; None before and after. One comparison tells whether it can be used."""

    def __repr__(self) -> str:
        return f"<Producer {self.group!r}>"

    @property
    def client_id(self) -> str:
        return self.runtime.client_id

    # --- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Join the runtime. No server needs to be up for it. Raises `GroupInUseError`, or `ClientError` if started."""
        self._life.check_new()
        runtime = self.runtime
        await runtime.lease()
        try:
            runtime.register_producer(runtime.with_namespace(self.group), self)
        except BaseException:
            await runtime.release()
            raise
        try:
            self._life.start()
        except ClosedError:  # while we waited
            await self._leave()
            raise
        self._loop = self.delivery.loop = asyncio.get_running_loop()
        if self.sending.faults is not None and self.options.probes_brokers:
            self._probing = runtime.every(_PROBE_ROUND_S, _PROBE_ROUND_S, self._probe_brokers, name="probe brokers")
        for topic in self.options.topics:
            try:
                await self.delivery.publish_info(runtime.with_namespace(topic))
            except RocketlineError as error:
                _log.warning("topic not ready", topic=topic, problem=str(error))
        await runtime.heartbeat_all()

    async def close(self) -> None:
        """Wait for what is on its way, say farewell to the brokers, and leave the runtime. Again: does nothing."""
        if not self._life.close():
            return
        self._loop = None
        await self.soon.drain(self.options.send_timeout_s)
        if self._probing is not None:
            self._probing.cancel()
        await self._leave()

    async def _leave(self) -> None:
        await self.runtime.unregister_producer(self.runtime.with_namespace(self.group))
        await self.runtime.release()

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
        started_s = self._clock.monotonic()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        return await self.delivery.send(
            self.sending.prepare(message), SendMode.SYNC, queue, selector, started_s, timeout_s
        )

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
        receipt: asyncio.Future[SendReceipt] = loop.create_future()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        self.soon.send(self.sending.prepare(message), queue, selector, started_s, timeout_s, receipt)
        return receipt

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
        await self.delivery.tell(self.sending.prepare(message), queue, selector)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of `topic` can be sent to. Java: fetchPublishMessageQueues."""
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        info = await self.delivery.publish_info(self.runtime.with_namespace(topic))
        return [self.sending.bare_queue(queue) for queue in info.queues]

    # --- what the runtime asks

    def topics(self) -> Collection[str]:
        return self.sending.topics

    def on_route(self, topic: str, info: PublishInfo) -> None:
        """Routes are looked up when they are needed."""

    # --- brokers that failed

    async def _probe_brokers(self) -> None:
        """Ask the brokers that are held something against whether they are back. Java: LatencyFaultToleranceImpl."""
        faults, topic = self.sending.faults, next(iter(self.sending.topics), None)
        if faults is None or topic is None:
            return
        due = faults.due(self.runtime.clock.monotonic(), self.options.probe_period_s)
        await asyncio.gather(*(self._probe(faults, name, topic) for name in due))

    async def _probe(self, faults: BrokerFaults, broker_name: str, topic: str) -> None:
        address = self.sending.routes.master(broker_name)
        if address is None:
            faults.forget(broker_name)
            return
        question = GetMaxOffsetRequestHeader(topic=topic, queue_id=0, target_broker=broker_name)
        with suppress(RocketlineError):
            await self.runtime.ask_ok(address, question, timeout_s=self.options.probe_timeout_s, vip=True)
            faults.answers(broker_name)
