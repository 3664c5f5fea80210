"""The blocking push consumer. Java: DefaultMQPushConsumer.

Pulling, rebalancing and heartbeats run on the runtime's background thread, handlers in threads of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Unpack

from rocketline.client.aio.push_consumer import PushConsumer as AsyncPushConsumer
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.push.consume_request import BatchHandler, Handler, MessageHandler
from rocketline.client.push.options import PushKeywords, PushOptions
from rocketline.client.sync.listeners import in_thread
from rocketline.client.sync.portal import CTRL_C_S, Portal
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.shell import BlockingClient, on_loop, starts, waits
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue


class PushConsumer(BlockingClient[AsyncPushConsumer, PushOptions]):
    """Has messages brought to handlers. Use it as `with`, or between `start` and `close`, from any thread.

    >>> from rocketline import Message, Producer, ReceivedMessage
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
        super().__init__(PushOptions, name_servers, options, group, runtime, clock)
        if self.options.queue_listener is not None:
            options["queue_listener"] = in_thread(self.options.queue_listener)
        self._twin = AsyncPushConsumer(name_servers, group=group, runtime=self.runtime.core, **options)
        self._is_started = False
        self._closed = threading.Event()

    # --- life

    start = starts(AsyncPushConsumer.start)

    def _start(self) -> None:
        try:
            super()._start()
        except BaseException:
            if self._twin.is_closed:  # else it may run, and whoever started it will close it
                self._closed.set()
            raise
        self._is_started = True

    def close(self) -> None:
        """Stop pulling, wait up to `close_wait_s` for handlers that run, unlock and save offsets, leave the group.

        From inside a handler it begins all this and returns, since it cannot wait for the handler that calls it.
        Closing again waits for the first.
        """
        if self._twin.is_inside_handler():
            self.runtime.portal.post(self._close_behind)
        else:
            self._close()

    def _close_behind(self) -> None:
        closing = self._twin.begin_close()
        if closing is not None:
            closing.add_done_callback(lambda _: self._end())

    @property
    def _is_over(self) -> bool:
        return self._closed.is_set()  # before that there is a first close to wait for

    def _end(self) -> None:
        self._closed.set()
        super()._end()

    def _open_portal(self) -> Portal:
        return self.runtime.portal  # on the loop the twin tells what is wrong

    def run(self) -> None:
        """Wait until the consumer, or the runtime that it shares, is closed, by a handler say; or until Ctrl-C."""
        if not self._is_started:
            self._twin.check_running()
        self.runtime.portal.check_process()
        with suppress(KeyboardInterrupt):
            while not (self._closed.wait(CTRL_C_S) or self._twin.is_over):
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
        """Have messages of `topic` brought to `handler`: those tagged as in `"new || paid"`, those whose properties
        fulfil an expression, as in `by_sql("price > 5")`, or all by `"*"`.

        The handler gets a message or, if `is_batch`, a sequence of up to `consume_batch_max` messages; without
        `is_batch`, a sequence if that number is above 1. A second parameter without a default gets a `ConsumeContext`.
        It is called in one of `consume_threads` threads and returns None, a `ConsumeResult` or a `reply`.

        All members of a group must have the same subscriptions. Subscribing again replaces the former one. Raises
        `InvalidNameError`, `ClientError` for an expression that means nothing, `InvalidFilterError` for one in SQL that
        cannot be read, `ClosedError`.
        """
        if Handler(handler, is_batch=False).is_async:
            raise TypeError(f"{handler!r} is a coroutine function: those are for rocketline.aio.PushConsumer")
        self._on_loop(lambda: self._twin.subscribe(topic, expression, handler, is_batch=is_batch))

    unsubscribe = on_loop(AsyncPushConsumer.unsubscribe)

    # --- how to consume

    suspend = on_loop(AsyncPushConsumer.suspend)
    resume = on_loop(AsyncPushConsumer.resume)

    @property
    def consume_threads(self) -> int:
        """How many handlers run at once."""
        return self._twin.consume_threads

    resize = on_loop(AsyncPushConsumer.resize)
    send_back = waits(AsyncPushConsumer.send_back)
    reset_to_time = waits(AsyncPushConsumer.reset_to_time)

    # --- how it goes

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are this consumer's now, those of the retry topic among them. If it pops, -1 for an id stands
        for all queues of a broker."""
        return self._on_loop(lambda: self._twin.queues)

    offsets = on_loop(AsyncPushConsumer.offsets)
