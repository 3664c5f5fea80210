"""The blocking lite pull consumer: the application asks for messages. Java: DefaultLitePullConsumer.

With `auto_commit`, the default, asking for more commits what was handed on before: a message counts as consumed when
the next one is asked for. So finish with one before that, or commit by hand.

Queues are pulled on the runtime's background thread. `poll` takes what that has brought, and does not wake it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Self, Unpack

from rocketline.client.aio.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from rocketline.client.lite_pull.options import LitePullKeywords, LitePullOptions
from rocketline.client.lite_pull.polling import Polling
from rocketline.client.rebalance.topic_watch import TopicListener
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.listeners import in_thread
from rocketline.client.sync.portal import CTRL_C_S, Portal
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.shell import BlockingClient, closes, on_loop, starts, waits
from rocketline.clock import Clock
from rocketline.errors import ClosedError
from rocketline.model.queue import MessageQueue


class LitePullConsumer(BlockingClient[AsyncLitePullConsumer, LitePullOptions]):
    """Hands messages on when asked, to any number of threads. Use it as `with`, or between `start` and `close`.

    Choose queues by `subscribe` or by `assign`, before or after the start; one consumer cannot do both.

    >>> from rocketline import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server, LitePullConsumer(server.address, group="audit") as consumer:
    ...     with Producer(server.address, group="shop") as producer:
    ...         _ = producer.send(Message("orders", b"42"))
    ...     consumer.subscribe("orders")
    ...     for message in consumer:
    ...         print(message.body, message.queue_offset)
    ...         break  # here after one; elsewhere until `close`
    b'42' 0
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[LitePullKeywords],
    ) -> None:
        super().__init__(LitePullOptions, name_servers, options, group, runtime, clock)
        if self.options.queue_listener is not None:
            options["queue_listener"] = in_thread(self.options.queue_listener)
        core_runtime = self.runtime.core
        self._twin = AsyncLitePullConsumer(name_servers, group=group, runtime=core_runtime, **options)
        self._core, self._queues, self._clock = self._twin.core, self._twin.core.queues, core_runtime.clock
        self._life = self._twin._life.seen_from(self._check_place)
        self._polling = Polling(
            self._queues,
            self.options,
            self._clock,
            group=group,
            namespace=core_runtime.namespace,
            commit=self._commit_soon,
        )

    # --- life

    start = starts(AsyncLitePullConsumer.start)
    close = closes(AsyncLitePullConsumer.close)

    def _close(self) -> None:
        try:
            if self._life.close():  # at once, so that iterations and `poll` end wherever the loop is just now
                self.runtime.portal.call_closing(self._twin._leave())
        finally:
            self._end()

    def _open_portal(self) -> Portal:
        self._life.check()
        return self.runtime.portal

    def _check_place(self, thing: str) -> None:
        """Any thread will do, in this process, while the runtime is open."""
        self.runtime.portal.check_process(thing)
        if self.runtime.core.is_closed:
            raise ClosedError(f"{thing} is closed: make a new one")

    # --- choosing queues

    subscribe = on_loop(AsyncLitePullConsumer.subscribe)
    unsubscribe = on_loop(AsyncLitePullConsumer.unsubscribe)
    assign = on_loop(AsyncLitePullConsumer.assign)

    def assignment(self) -> set[MessageQueue]:
        """The queues that are read now."""
        return self._core.assignment()

    queues = waits(AsyncLitePullConsumer.queues)

    def watch_queues(self, topic: str, listener: TopicListener) -> None:
        """Call `listener(topic, queues)`, in a thread of its own, whenever the topic has other queues than before;
        looked at every 30 s (`topic_check_period_s`). Java: registerTopicMessageQueueChangeListener."""
        in_its_thread = in_thread(listener)
        self._on_loop(lambda: self._twin.watch_queues(topic, in_its_thread))

    # --- messages

    def poll(self, timeout_s: float | None = None) -> list[ReceivedMessage]:
        """Messages of one queue, in order, at most `pull_batch_max`; none if none come in time (`poll_timeout_s`).

        With `auto_commit`, what earlier calls returned is committed first, every five seconds. Raises `ValueError`
        for a time below zero, `NotStartedError` and `ClosedError`.
        """
        self._life.check()
        deadline_s = self._clock.monotonic() + self._core.checked_timeout_s(timeout_s)
        while not (messages := self._polling.take()):
            left_s = deadline_s - self._clock.monotonic()
            if left_s <= 0 or not self._wait(left_s):
                break
        return messages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message of any queue, whenever it comes. Ends when the consumer is closed; raises `ClosedError` if
        the runtime is closed under it."""
        if self._life.is_new:
            self._life.check_running()
        self._life.check_if_running()  # once it is closed, here or meanwhile, the iteration just ends
        while (message := self._polling.take_one()) is None:
            if not self._wait(CTRL_C_S):
                raise StopIteration
        return message

    def _wait(self, timeout_s: float) -> bool:
        """Until there may be something to take; False once it is closed. Raises `ClosedError` if its runtime is."""
        if self._life.is_running:
            self._queues.wait(min(timeout_s, CTRL_C_S))
        self._life.check_if_running()
        return self._life.is_running

    # --- going elsewhere

    seek = waits(AsyncLitePullConsumer.seek)
    seek_to_begin = waits(AsyncLitePullConsumer.seek_to_begin)
    seek_to_end = waits(AsyncLitePullConsumer.seek_to_end)
    seek_to_time = waits(AsyncLitePullConsumer.seek_to_time)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull no more of these queues; what was pulled is still handed on."""
        self._life.check_if_running()
        self._core.set_paused(queues, True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on where `pause` stopped, within a second."""
        self._life.check_if_running()
        self._core.set_paused(queues, False)

    # --- offsets

    commit = waits(AsyncLitePullConsumer.commit)
    committed = waits(AsyncLitePullConsumer.committed)
    min_offset = waits(AsyncLitePullConsumer.min_offset)
    max_offset = waits(AsyncLitePullConsumer.max_offset)
    offset_for_time = waits(AsyncLitePullConsumer.offset_for_time)
    replace_name_servers = waits(AsyncLitePullConsumer.replace_name_servers)

    def _commit_soon(self, positions: Mapping[MessageQueue, int]) -> None:
        self.runtime.portal.post(self._core.commit_positions, positions)
