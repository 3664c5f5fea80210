"""The blocking simple consumer: a worker asks for messages, works, and says what became of each.

No queue is anybody's: brokers hand out messages, to as many workers as there are, and hide each from all others for a
time. It is no member of its group, so there is nothing to rebalance. Brokers need RocketMQ 5. Java: SimpleConsumer,
which speaks gRPC.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from rocketline.client.aio.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.simple.core import SimpleCore
from rocketline.client.simple.options import SimpleKeywords, SimpleOptions
from rocketline.client.sync.portal import Portal
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.shell import BlockingClient, closes, on_loop, starts, waits
from rocketline.clock import Clock
from rocketline.errors import ClosedError
from rocketline.logs import Log

_log = Log(__name__)


class Attempt:
    """A message to work on: `with attempt as message:`.

    While the block runs nobody else is given the message. When it ends the message is acknowledged; when it raises the
    message is given back, to come again after 10 s, then 30 s, a minute, and so on, or at once after Ctrl-C. If the
    broker cannot be told that is logged, and the message comes again.
    """

    def __init__(self, portal: Portal, core: SimpleCore, message: PoppedMessage) -> None:
        self._portal, self._core, self._message = portal, core, message
        self._call: ConsumeHookContext | None = None

    def __enter__(self) -> PoppedMessage:
        self._portal.post(self._core.hold, self._message, threading.get_ident())
        self._call = self._core.begin_call(self._message)
        return self._message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._core.end_call(self._call, error)
        try:
            self._portal.call(self._core.end_work(self._message, error))
        except ClosedError as problem:  # the block outlived its consumer
            _log.error("message not settled, it comes again", message=self._message, problem=problem)


class SimpleConsumer(BlockingClient[AsyncSimpleConsumer, SimpleOptions]):
    """Receives when told, for any number of threads. Use it as `with`, or between `start` and `close`.

    >>> from rocketline import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server, SimpleConsumer(server.address, group="workers") as consumer:
    ...     with Producer(server.address, group="shop") as producer:
    ...         _ = producer.send(Message("jobs", b"42"))
    ...     consumer.subscribe("jobs")
    ...     for attempt in consumer:
    ...         with attempt as message:
    ...             print(message.body, message.attempt)
    ...         break  # here after one; elsewhere until `close`
    b'42' 1
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[SimpleKeywords],
    ) -> None:
        super().__init__(SimpleOptions, name_servers, options, group, runtime, clock)
        self._twin = AsyncSimpleConsumer(name_servers, group=group, runtime=self.runtime.core, **options)

    # --- life

    start = starts(AsyncSimpleConsumer.start)
    close = closes(AsyncSimpleConsumer.close)

    def _close(self) -> None:
        if not (self._twin.close_if_new() or self._is_over):
            self.runtime.portal.call_closing(self._twin.close_for(threading.get_ident()))
        self._end()

    # --- what to receive

    subscribe = on_loop(AsyncSimpleConsumer.subscribe)
    unsubscribe = on_loop(AsyncSimpleConsumer.unsubscribe)

    # --- receiving

    receive = waits(AsyncSimpleConsumer.receive)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Attempt:
        """The next message, whenever it comes, to work on in a `with` block. Ends when the consumer is closed. What
        fails and may pass is logged, and tried again. Raises `NoPopError`, `ClientError` if nothing is subscribed to,
        and `ClosedError` if the runtime is closed under it."""
        message = None if self._twin.is_closed else self._next()
        if message is None:
            raise StopIteration
        return Attempt(self.runtime.portal, self._twin.core, message)

    def _next(self) -> PoppedMessage | None:
        portal = self._open_portal()
        try:
            return portal.call(self._twin.core.next())
        except ClosedError:
            if self._twin.is_running:
                raise
            return None

    # --- what became of messages

    ack = waits(AsyncSimpleConsumer.ack)
    extend = waits(AsyncSimpleConsumer.extend)
    nack = waits(AsyncSimpleConsumer.nack)
