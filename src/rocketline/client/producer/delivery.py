"""Carrying messages to their brokers on the runtime's loop, attempt by attempt.

The usual message, to a known topic on a live connection, takes no task, no timer and no lock of its own. Whatever needs
waiting, hooks or a signature goes the longer way round; both end in the same receipt.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from rocketline.client.producer.attempts import SendAttempts
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.queue_choice import Positions, QueueSelector
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.runtime.routes import PublishInfo
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.runtime.shared_waits import SharedWaits
from rocketline.errors import CallTimeoutError, RequestTimeoutError, ResponseError, RocketlineError
from rocketline.model.queue import MessageQueue
from rocketline.net.channel import Waiter
from rocketline.net.remote import no_connection
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

_SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_SEND_OK: Final = SendStatus.SEND_OK


Outcome: TypeAlias = "SendReceipt | RocketlineError | None"


class Delivery:
    """The messages of one producer on their way."""

    loop: asyncio.AbstractEventLoop
    """Where it happens; known from the start on."""

    def __init__(self, runtime: ClientRuntime, core: ProducerCore) -> None:
        self._runtime, self._core = runtime, core
        self._clock, self._routes, self._connections = runtime.clock, runtime.routes, runtime.connections
        self._waits = SharedWaits(runtime)
        self.positions: Positions = {}
        self._is_plain = not core.hooks and not runtime.decorator.is_needed
        self._is_vip = runtime.options.vip_channel

    async def publish_info(self, topic: str) -> PublishInfo:
        """The queues of a topic, asked for if need be. Raises `RouteError` or `TransportError`.

        An unknown topic gets the queues that brokers will give it when they make it with its first message.
        """
        self._core.topics.add(topic)
        info = self._core.publish_info(topic)
        if info is not None:
            return info
        runtime = self._runtime
        if not runtime.name_servers:
            raise self._core.no_route(topic, ())
        await runtime.update_route(topic)
        known = self._routes.publish_info(topic)
        if known is None or not known.has_route:
            await runtime.update_route(topic, default_topic_queue_nums=self._core.options.default_topic_queue_nums)
        info = self._core.publish_info(topic)
        if info is None:
            raise self._core.no_route(topic, runtime.name_servers)
        return info

    async def find_queues(self, topic: str, timeout_s: float) -> None:
        """Have `publish_info` know the topic, in the time of a call. Raises what it raises, and `CallTimeoutError`."""
        self._core.topics.add(topic)
        if self._core.publish_info(topic) is not None:
            return
        try:
            await self._waits.wait(f"find the queues of {topic}", lambda: self.publish_info(topic), timeout_s)
        except TimeoutError:
            servers = ", ".join(self._runtime.name_servers)
            raise CallTimeoutError(f"asking {servers} where {topic!r} is", timeout_s) from None

    async def send(
        self,
        request: SendRequest,
        mode: SendMode,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        started_s: float,
        timeout_s: float,
    ) -> SendReceipt:
        """Send a request that came at `started_s`, and wait for its receipt. The usual one ends in its first lines."""
        core = self._core
        first = core.first_queue(request, self.positions, queue, selector)
        is_given = queue is not None or selector is not None
        if first is None:
            await self.find_queues(request.topic, timeout_s)
            first = core.first_queue(request, self.positions, queue, selector)
            assert first is not None
        outcome: Outcome = None
        waiter: asyncio.Future[Command] = self.loop.create_future()
        due_s = started_s + timeout_s
        try:
            left_s = core.first_timeout_s(due_s - self._clock.monotonic(), is_given=is_given)
            address = self.begin(request, first, left_s, waiter)
            if address is None and (missing := self._missing(first)) is not None:
                await self._connect(missing, left_s)
                left_s = core.first_timeout_s(due_s - self._clock.monotonic(), is_given=is_given)
                address = self.begin(request, first, left_s, waiter)
            if address is not None:
                outcome = receipt = core.receipt(await waiter, request, first, address)
                if receipt.status is _SEND_OK and core.faults is None:
                    return receipt
        except RocketlineError as error:
            outcome = error
        return await self.go_on(request, mode, first, outcome, started_s, timeout_s, is_given=is_given)

    async def go_on(
        self,
        request: SendRequest,
        mode: SendMode,
        first: MessageQueue,
        outcome: Outcome,
        started_s: float,
        timeout_s: float,
        *,
        is_given: bool,
    ) -> SendReceipt:
        """Go on after the first attempt, which brought `outcome`; None if it could not be made in an instant."""
        core, now_s = self._core, self._clock.monotonic()
        rules = core.sync if mode is SendMode.SYNC else core.soon
        attempts = core.attempts(rules, self.positions, first, started_s, timeout_s, is_given=is_given)
        if isinstance(outcome, SendReceipt):
            if attempts.answered(outcome, now_s):
                return outcome
        elif outcome is not None and not _is_sent_away(outcome):
            attempts.failed(outcome, now_s)
        else:
            return await self.carry(request, attempts, mode, first)
        return await self.carry(request, attempts, mode)

    async def carry(
        self, request: SendRequest, attempts: SendAttempts, mode: SendMode, queue: MessageQueue | None = None
    ) -> SendReceipt:
        """Make one attempt after the other, beginning with `queue` if that is chosen already."""
        monotonic = self._clock.monotonic
        queue = queue or attempts.next(monotonic())
        while queue is not None:
            try:
                receipt = await self._try(request, attempts, queue, mode)
            except RocketlineError as error:
                attempts.failed(error, monotonic())
            else:
                if attempts.answered(receipt, monotonic()):
                    return receipt
            queue = attempts.next(monotonic())
        assert attempts.receipt is not None
        return attempts.receipt

    async def tell(self, request: SendRequest, queue: MessageQueue | None, selector: QueueSelector | None) -> None:
        """Send without an answer to come, in one attempt."""
        core = self._core
        due_s = self._clock.monotonic() + core.options.send_timeout_s
        first = core.first_queue(request, self.positions, queue, selector)
        if first is None:
            await self.find_queues(request.topic, core.options.send_timeout_s)
            first = core.first_queue(request, self.positions, queue, selector)
            assert first is not None
        address = await self.address(request, first, self._left_s(due_s))
        command = self._command(request, first)
        context = core.context(request, first, address, SendMode.ONEWAY)
        with core.hooks.around(context):
            await self._connections.send_oneway(address, command, self._left_s(due_s))

    # --- one attempt

    def begin(self, request: SendRequest, queue: MessageQueue, timeout_s: float, waiter: Waiter) -> str | None:
        """Send it this instant, on a connection that is there; `waiter` gets the answer. None if that is not possible.

        Returns the broker's address.
        """
        broker_name = self._routes.broker_of(queue)
        address = self._routes.master(broker_name)
        if address is None or not self._is_plain:
            return None
        if self._is_vip:
            address = self._runtime.target(address, vip=True)
        channel = self._connections.channel(address)
        if channel is None or channel.is_congested:
            return None
        if timeout_s <= 0:
            raise RequestTimeoutError(address, "the time was over before the message's turn came")
        opaque = channel.expect(waiter, _SEND_CODE, timeout_s)
        channel.send_frame(self._core.requests.frame(request, queue, broker_name, self._clock.wall_ms(), opaque))
        return address

    def _missing(self, queue: MessageQueue) -> str | None:
        """The address of the queue's broker, if a connection to it is all that `begin` lacks."""
        address = self._routes.master(self._routes.broker_of(queue)) if self._is_plain else None
        if address is not None and self._connections.channel(address := self._runtime.target(address, vip=True)):
            return None
        return address

    async def _connect(self, address: str, timeout_s: float) -> None:
        """Make the connection. All who want the same wait for it, and then go the short way together."""
        limit_s = self._runtime.options.connect_timeout_s
        try:
            await self._waits.wait(
                f"connect to {address}", lambda: self._connections.connect(address, limit_s), timeout_s
            )
        except TimeoutError:
            raise no_connection(address, timeout_s) from None

    async def _try(
        self, request: SendRequest, attempts: SendAttempts, queue: MessageQueue, mode: SendMode
    ) -> SendReceipt:
        """The whole of an attempt: find the broker, dial, ask the hooks, sign, go elsewhere when sent away."""
        core = self._core
        address = await self.address(request, queue, self._left_s(attempts.due_s))
        command, context = self._command(request, queue), core.context(request, queue, address, mode)
        with core.hooks.around(context):
            answer = await self._connections.ask(address, command, self._left_s(attempts.due_s))
            context.receipt = receipt = core.receipt(answer, request, queue, address)
        return receipt

    async def address(self, request: SendRequest, queue: MessageQueue, timeout_s: float) -> str:
        """Where the queue's master is; the route is asked for once if nobody knows. Raises `RouteError`, what asking
        raises, and `CallTimeoutError`."""
        broker_name = self._routes.broker_of(queue)
        address = self._routes.master(broker_name)
        if address is None:
            self._core.topics.add(request.topic)
            async with self._runtime.limit_search(request.topic, timeout_s):
                await self._runtime.update_route(request.topic)
            broker_name = self._routes.broker_of(queue)
            address = self._routes.master(broker_name)
        if address is None:
            raise self._core.no_address(broker_name)
        return self._runtime.target(address, vip=True)

    def _left_s(self, due_s: float) -> float:
        return max(due_s - self._clock.monotonic(), 0.0)

    def _command(self, request: SendRequest, queue: MessageQueue) -> Command:
        return self._core.requests.command(request, queue, self._routes.broker_of(queue), self._clock.wall_ms())


def _is_sent_away(error: RocketlineError) -> bool:
    """The server answered GO_AWAY: it is to be asked once more, on a new connection."""
    return isinstance(error, ResponseError) and error.code == _GO_AWAY
