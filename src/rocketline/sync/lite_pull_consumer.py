"""The blocking lite pull consumer: the application asks for messages. Java: DefaultLitePullConsumer.

With `auto_commit`, the default, asking for more commits what was handed on before: a message counts as consumed when
the next one is asked for. So finish with one before that, or commit by hand.

Queues are pulled on the runtime's background thread. `poll` takes what that has brought, and does not wake it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from rocketline.client.assigned_queues import AssignedQueues
from rocketline.client.lifecycle import Lifecycle
from rocketline.client.lite_pull_core import LitePullCore
from rocketline.client.lite_pull_options import LitePullKeywords, LitePullOptions
from rocketline.client.options import make_options, parse_name_servers
from rocketline.client.polling import Polling
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.subscriptions import MessageSelector
from rocketline.client.topic_watch import TopicListener
from rocketline.client.validation import check_group
from rocketline.clock import Clock
from rocketline.errors import ClosedError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel
from rocketline.sync.listeners import in_thread
from rocketline.sync.portal import CTRL_C_S
from rocketline.sync.runtime import ClientRuntime

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class LitePullConsumer:
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
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        `queue_listener` is called in a thread of its own, and may call the consumer.
        """
        check_group(group)
        self.group = group
        self.options = make_options(LitePullOptions, name_servers, options)
        is_broadcasting = self.options.message_model is MessageModel.BROADCASTING
        self.runtime = runtime or ClientRuntime(self.options, clock=clock, is_name_stable=is_broadcasting)
        self._portal = self.runtime.portal
        core_runtime = self.runtime.core
        self._clock = core_runtime.clock
        self._queues = AssignedQueues(self.options.limits())
        listener = self.options.queue_listener and in_thread(self.options.queue_listener)
        self._core = LitePullCore(core_runtime, group, replace(self.options, queue_listener=listener), self._queues)
        self._polling = Polling(
            self._queues,
            self.options,
            self._clock,
            group=group,
            namespace=core_runtime.namespace,
            commit=self._commit_soon,
        )
        self._life = Lifecycle(repr(self), self._check_place)

    def __repr__(self) -> str:
        return f"<LitePullConsumer {self.group!r}>"

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
        """Join the group. Raises `ClientError` if started, `GroupInUseError`, and `TransportError` or
        `NoNameServerError` if topics are subscribed and no name server answers: then it is closed."""
        self.runtime.start_client(self._life, lambda: self._core.start(self._life))

    def close(self) -> None:
        """Save what was committed and leave the group. What was handed on and not committed comes again. Iterations
        and `poll` end. Again: does nothing."""
        try:
            if self._life.close():
                self._portal.call_closing(self._core.close())
        finally:
            self.runtime.end_thread()

    @property
    def is_running(self) -> bool:
        return self._life.is_running

    # --- choosing queues

    def subscribe(self, topic: str, selector: MessageSelector | str | None = None) -> None:
        """Share the topic's queues with the other members of the group, who must subscribe to the same.

        `selector` chooses among its messages: tags as in `"new || paid"`, or `by_sql(…)`; none takes all. Subscribing
        again replaces it. Raises `ClientError` after `assign`, `InvalidNameError`.
        """
        self._do(self._core.subscribe, topic, selector)

    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up. What was pulled of them is forgotten."""
        self._do(self._core.unsubscribe, topic)

    def assign(self, queues: Collection[MessageQueue], selector: MessageSelector | str | None = None) -> None:
        """Read exactly these queues, whatever other members of the group read; again: these instead.

        A queue that stays goes on where it was. Raises `ClientError` after `subscribe`.
        """
        self._do(self._core.assign, queues, selector)

    def assignment(self) -> set[MessageQueue]:
        """The queues that are read now."""
        return self._core.assignment()

    def queues(self, topic: str) -> set[MessageQueue]:
        """All queues of a topic, by its newest route. Raises `TopicNotFoundError`. Java: fetchMessageQueues."""
        return self._ask(self._core.topic_queues, topic)

    def watch_queues(self, topic: str, listener: TopicListener) -> None:
        """Call `listener(topic, queues)`, in a thread of its own, whenever the topic has other queues than before;
        looked at every 30 s (`topic_check_period_s`). Java: registerTopicMessageQueueChangeListener."""
        self._do(self._core.watch, topic, in_thread(listener))

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

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next message of the queue is the one at `offset`; what was pulled of it is forgotten.

        Raises `ClientError` if the queue is not assigned, `InvalidOffsetError` if it has no such offset.
        """
        self._ask(self._core.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go to the first message that is still there."""
        self._ask(self._core.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Pass over everything that is there."""
        self._ask(self._core.seek_to_end, queue)

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go to the first message that was stored at this time, in ms since 1970, or later."""
        self._ask(self._core.seek_to_time, queue, time_ms)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull no more of these queues; what was pulled is still handed on."""
        self._life.check_if_running()
        self._core.set_paused(queues, True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on where `pause` stopped, within a second."""
        self._life.check_if_running()
        self._core.set_paused(queues, False)

    # --- offsets

    def commit(
        self, what: Collection[MessageQueue] | Mapping[MessageQueue, int] | None = None, *, is_persisted: bool = False
    ) -> None:
        """Commit what was handed on: of all queues or of those given; or, if offsets are given with them, these.

        Brokers hear of it within 5 s (`offset_persist_period_s`) and at `close`; with `is_persisted`, now. Queues that
        are not assigned are passed over.
        """
        self._ask(self._core.commit, what, is_persisted=is_persisted)

    def committed(self, queue: MessageQueue) -> int:
        """The offset that the group goes on at, -1 if it has none. Raises `ResponseError`, `TransportError`."""
        return self._ask(self._core.committed, queue)

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return self._ask(self._core.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._ask(self._core.max_offset, queue)

    def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at this time, in ms since 1970, or later.

        Java: offsetForTimestamp.
        """
        return self._ask(self._core.search_offset, queue, time_ms)

    def replace_name_servers(self, name_servers: str | Sequence[str]) -> None:
        """Ask these from now on. Java: updateNameServerAddress."""
        self._ask(self.runtime.core.replace_name_servers, parse_name_servers(name_servers))

    # --- the loop's thread

    def _ask(
        self, work: Callable[Arguments, Coroutine[Any, Any, Result]], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        self._life.check()
        return self._portal.call(work(*args, **kwargs))

    def _do(self, action: Callable[Arguments, None], *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        """Change something that belongs to the loop's thread once there is one."""

        async def act() -> None:
            action(*args, **kwargs)

        if self._life.is_running or (self._life.is_new and self._portal.is_open):
            self._portal.call(act())
        else:
            action(*args, **kwargs)

    def _check_place(self, thing: str) -> None:
        """Any thread will do, in this process, while the runtime is open."""
        self._portal.check_process(thing)
        if self.runtime.core.is_closed:
            raise ClosedError(f"{thing} is closed: make a new one")

    def _commit_soon(self, positions: Mapping[MessageQueue, int]) -> None:
        self._portal.post(self._core.commit_positions, positions)
