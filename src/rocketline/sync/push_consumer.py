"""The blocking push consumer. Java: DefaultMQPushConsumer.

Pulling, rebalancing and heartbeats run on the runtime's background thread, handlers in threads of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self, TypeVar, Unpack

from rocketline.client.handling import BatchHandler, Handler, MessageHandler
from rocketline.client.options import make_options
from rocketline.client.push_consumer import PushConsumer as AsyncPushConsumer
from rocketline.client.push_options import PushKeywords, PushOptions
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.subscriptions import MessageSelector
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel
from rocketline.sync.listeners import in_thread
from rocketline.sync.portal import CTRL_C_S
from rocketline.sync.runtime import ClientRuntime

Result = TypeVar("Result")


class PushConsumer:
    """Has messages brought to handlers. Use it as `with`, or between `start` and `close`, from any thread.

    >>> from rocketline import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server, PushConsumer(server.address, group="billing") as consumer:
    ...     with Producer(server.address, group="shop") as producer:
    ...         _ = producer.send(Message("orders", b"42", tags="new"))
    ...     def handle(message: ReceivedMessage) -> None:  # None is success, an exception is a retry
    ...         print(message.tags, message.body)
    ...         threading.Thread(target=consumer.close).start()  # here after one; elsewhere until Ctrl-C
    ...     consumer.subscribe("orders", "new || paid", handle)
    ...     consumer.run()
    new b'42'
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[PushKeywords],
    ) -> None:
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        `queue_listener` is called in a thread of its own, and may call the consumer.
        """
        self.group = group
        self.options = make_options(PushOptions, name_servers, options)
        if self.options.queue_listener is not None:
            options["queue_listener"] = in_thread(self.options.queue_listener)
        is_name_stable = self.options.message_model is MessageModel.BROADCASTING
        self.runtime = runtime or ClientRuntime(self.options, clock=clock, is_name_stable=is_name_stable)
        self._core = AsyncPushConsumer(name_servers, group=group, runtime=self.runtime.core, **options)
        self._is_started = False
        self._closed = threading.Event()

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
        """Join the group and begin to consume. A topic that does not exist yet is waited for.

        Raises `GroupInUseError`, `TransportError` if no name server can be reached, and `ClosedError` if it was closed
        meanwhile; then nothing is left running.
        """
        try:
            self.runtime.start_client(self._core, self._core.start)
        except BaseException:
            if self._core.is_closed:  # else it may run, and whoever started it will close it
                self._closed.set()
            raise
        self._is_started = True

    def close(self) -> None:
        """Stop pulling, wait up to `close_wait_s` for handlers that run, unlock and save offsets, leave the group.

        From inside a handler it begins all this and returns, since it cannot wait for the handler that calls it.
        Closing again waits for the first.
        """
        if self._core.is_inside_handler():
            self.runtime.portal.post(self._close_behind)
            return
        if not (self._core.close_if_new() or self._closed.is_set()):
            self.runtime.portal.call_closing(self._core.close())
        self._end()

    def _close_behind(self) -> None:
        closing = self._core.begin_close()
        if closing is not None:
            closing.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._closed.set()
        self.runtime.end_thread()

    def run(self) -> None:
        """Wait until the consumer, or the runtime that it shares, is closed, by a handler say; or until Ctrl-C."""
        if not self._is_started:
            self._core.check_running()
        self.runtime.portal.check_process()
        with suppress(KeyboardInterrupt):
            while not (self._closed.wait(CTRL_C_S) or self._core.is_over):
                pass

    # --- what to consume

    def subscribe(
        self,
        topic: str,
        expression: str | MessageSelector,
        handler: MessageHandler | BatchHandler,
        *,
        is_batch: bool | None = None,
    ) -> None:
        """Have messages of `topic` brought to `handler`: those tagged as in `"new || paid"`, or all by `"*"`.

        The handler gets a message or, if `is_batch`, a sequence of up to `consume_batch_max` messages; without
        `is_batch`, a sequence if that number is above 1. A second parameter without a default gets a `ConsumeContext`.
        It is called in one of `consume_threads` threads and returns None or a `ConsumeResult`.

        All members of a group must have the same subscriptions. Subscribing again replaces the former one. Raises
        `InvalidNameError`, `ClientError` for an expression that means nothing, `ClosedError`.
        """
        if Handler(handler, is_batch=False).is_async:
            raise TypeError(f"{handler!r} is a coroutine function: those are for rocketline.aio.PushConsumer")
        self._do(lambda: self._core.subscribe(topic, expression, handler, is_batch=is_batch))

    def unsubscribe(self, topic: str) -> None:
        """Have no further messages of `topic` brought. Those that failed before may still come again."""
        self._do(lambda: self._core.unsubscribe(topic))

    # --- how to consume

    def suspend(self) -> None:
        """Pull no more until `resume`. Messages that are here already are consumed."""
        self._do(self._core.suspend)

    def resume(self) -> None:
        """Pull again."""
        self._do(self._core.resume)

    @property
    def consume_threads(self) -> int:
        """How many handlers run at once."""
        return self._core.consume_threads

    def resize(self, consume_threads: int) -> None:
        """Run so many handlers at once from now on. Raises `ConfigError`. Java: updateCorePoolSize."""
        self._do(lambda: self._core.resize(consume_threads))

    def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Have a message delivered to the group again, later. Raises `ClientError` if that failed.

        Java: sendMessageBack.
        """
        self.runtime.portal.call(self._core.send_back(message, delay_level))

    def reset_to_time(self, time_ms: int) -> None:
        """Go on, in all owned queues, at the first message stored then or later. Takes ten seconds.

        Java: resetOffsetByTimeStamp.
        """
        self.runtime.portal.call(self._core.reset_to_time(time_ms))

    # --- how it goes

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are this consumer's now, those of the retry topic among them."""
        return self._do(lambda: self._core.queues)

    def offsets(self) -> dict[MessageQueue, int]:
        """How far this consumer is in its queues: the next offset of each, as far as it is known here."""
        return self._do(self._core.offsets)

    def _do(self, action: Callable[[], Result]) -> Result:
        """Do it where everything of the consumer happens: on the loop, once there is one."""
        if not self._closed.is_set() and (self._core.is_running or self.runtime.portal.is_open):
            return self.runtime.portal.call(_awaited(action))
        return action()


async def _awaited(action: Callable[[], Result]) -> Result:
    return action()
