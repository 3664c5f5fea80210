"""Asking a broker for messages of any of its queues. Java: MQClientAPIImpl.popMessageAsync.

`PopPlan` decides and does no I/O; `Pops` is its asyncio shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.pulls import FilterContext, FilterHook
from rocketline.client.pop.handles import handles_of
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.received_message import decode_messages
from rocketline.errors import BrokerNotFoundError, NoPopError, response_error
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import PopMessageRequestHeader, PopMessageResponseHeader
from rocketline.wire.namespaces import without_namespace

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

ALL_QUEUES: Final = -1
COUNT_MAX: Final = 32
"""What brokers give at most."""
BROKERS_TIME: Final = 0
"""For `bornTime`: a broker takes its own time. Ours may be wrong by more than the half second that it allows."""

_log = Log(__name__)


class PopStatus(Enum):
    """What a broker answers to a pop. Java: PopStatus."""

    FOUND = "FOUND"
    NOTHING_FOUND = "POLLING_NOT_FOUND"
    POLLING_FULL = "POLLING_FULL"
    """Too many pops wait there already: ask again later."""


_STATUS_BY_CODE: Final[dict[int, PopStatus]] = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT: PopStatus.NOTHING_FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NOTHING_FOUND,
}


@dataclass(frozen=True, slots=True)
class PopQuery:
    """What is asked. `queue` is as on the wire; its id may be `ALL_QUEUES`."""

    queue: MessageQueue
    subscription: SubscriptionData
    count_max: int
    invisible_s: float
    poll_s: float
    """How long the broker may hold the pop back while there is nothing; 0: not at all."""
    from_first: bool
    """Where a group begins that has no offset yet: at the first message, or behind the last."""


@dataclass(slots=True)
class PopResult:
    """What a pop brought. Java: PopResult."""

    status: PopStatus
    messages: list[PoppedMessage]
    unwanted: list[PoppedMessage]
    """Those with other tags, which brokers take for ours by their hashes, or that a hook took out."""


class PopPlan:
    """The decisions of all pops of one consumer."""

    def __init__(
        self, group: str, *, namespace: str, filter_hooks: Sequence[FilterHook] = (), unit_mode: bool = False
    ) -> None:
        """`group` is the name on the wire; `namespace` is taken off what applications see."""
        self._group, self._namespace, self._unit_mode = group, namespace, unit_mode
        self._filter_hooks = tuple(filter_hooks)

    def header(self, query: PopQuery) -> PopMessageRequestHeader:
        return PopMessageRequestHeader(
            consumer_group=self._group,
            topic=query.queue.topic,
            queue_id=query.queue.queue_id,
            max_msg_nums=query.count_max,
            invisible_time=round(1000 * query.invisible_s),
            poll_time=round(1000 * query.poll_s),
            born_time=BROKERS_TIME,
            init_mode=0 if query.from_first else 1,
            expression_type=query.subscription.expression_type,
            expression=query.subscription.sub_string,
        )

    def answered(self, query: PopQuery, address: str, answer: Command, now_s: float) -> PopResult:
        """What the answer means, which came at `now_s`. Raises `NoPopError`, `ResponseError` for a refusal, and
        `RemoteProtocolError` if it makes no sense: then what it brought comes again."""
        status = _STATUS_BY_CODE.get(answer.code)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NoPopError(address)
        if status is None:
            raise response_error(answer.code, answer.remark, request=RequestCode.POP_MESSAGE.name, address=address)
        if status is not PopStatus.FOUND:
            return PopResult(status, [], [])
        return self._found(query, answer, now_s)

    def _found(self, query: PopQuery, answer: Command, now_s: float) -> PopResult:
        header, queue = headers.decode(PopMessageResponseHeader, answer.ext), query.queue
        plain = decode_messages(answer.body, broker_name=queue.broker_name, namespace=self._namespace)
        topic = without_namespace(queue.topic, self._namespace) if self._namespace else queue.topic
        handles = handles_of(plain, header, queue.broker_name, topic)
        expires_s = now_s + min(header.invisible_time / 1000, query.invisible_s)
        messages = [
            PoppedMessage(message, handle, group=self._group, expires_s=expires_s)
            for message, handle in zip(plain, handles, strict=True)
        ]
        wanted = self._wanted(query, messages)
        kept = set(map(id, wanted))
        return PopResult(PopStatus.FOUND, wanted, [message for message in messages if id(message) not in kept])

    def _wanted(self, query: PopQuery, messages: list[PoppedMessage]) -> list[PoppedMessage]:
        if tags := query.subscription.tags_set:
            messages = [message for message in messages if message.tags in tags]
        if not self._filter_hooks:
            return messages
        context = FilterContext(self._group, query.queue, list(messages), self._unit_mode)
        for hook in self._filter_hooks:
            try:
                hook.filter_messages(context)
            except Exception as error:  # noqa: BLE001  # the application's: messages are consumed all the same
                _log.error("filter hook failed", hook=type(hook).__qualname__, queue=query.queue, error=error)
        left = set(map(id, context.messages))
        return [message for message in messages if id(message) in left]


class Pops:
    """Pops over a runtime's connections. Any number may be under way at once."""

    def __init__(self, runtime: ClientRuntime, plan: PopPlan) -> None:
        self._runtime, self._plan = runtime, plan

    async def pop(self, query: PopQuery, timeout_s: float) -> PopResult:
        """Ask the master. Raises like `PopPlan.answered`, `TransportError`, and `BrokerNotFoundError` if there is
        none; `timeout_s` is to be longer than the broker may hold the pop back."""
        runtime, name = self._runtime, query.queue.broker_name
        address = runtime.routes.master(name)
        if address is None:
            raise BrokerNotFoundError(name, "no master is in any route that was read")
        answer = await runtime.ask(address, self._plan.header(query), timeout_s=timeout_s)
        return self._plan.answered(query, address, answer, runtime.clock.monotonic())
