"""Pulling from one queue: which node to ask, what to ask, and what its answer means. Java: PullAPIWrapper.

`PullPlan` decides and does no I/O: asyncio and blocking consumers share it. `Pulls` is its asyncio shell:

    pulls = Pulls(runtime, PullPlan(runtime.routes, group))
    result = await pulls.pull(PullQuery(queue, 42, subscription))
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rocketline.client.consumer.pull_request import PullNode, PullQuery, PullRequests
from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.client.runtime.namespaced import as_seen
from rocketline.errors import BrokerNotFoundError, TransportError, response_error
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID
from rocketline.wire import headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import PullMessageResponseHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.routes import ClientRoutes
    from rocketline.client.runtime.runtime import ClientRuntime

TIMEOUT_S: Final = 30.0
"""How long a pull may take that a broker may hold back. Java: CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND."""

_log = Log(__name__)


class PullStatus(Enum):
    """What a broker answers to a pull. Java: PullStatus."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"
    """The queue ends before the offset that was asked for."""
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
    """There are messages, and none of them is wanted: go on at `next_offset`."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The queue has no such offset; `next_offset` is one that it has."""


_STATUS_BY_CODE: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(slots=True)
class PullResult:
    """What a pull brought. Java: PullResult."""

    status: PullStatus
    next_offset: int
    """Where the next pull of the queue begins, also if messages were left out."""
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage]
    """The messages that the subscription wants, by their exact tags; perhaps none."""


@dataclass(slots=True)
class RawPull:
    """What a pull brought, undecoded. `decode_messages` of `received_message` reads the body.

    A broker filters tags by their hashes: whoever decodes compares the tags again.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes
    """The records of the messages, one after the other."""
    offset_delta: int = 0
    """To add to each record's queue offset, for static topics."""


@dataclass(slots=True)
class FilterContext:
    """The messages of one pull after tags were compared. Java: FilterMessageContext."""

    group: str
    queue: MessageQueue
    messages: list[ReceivedMessage]
    """Take out what must not be consumed."""
    unit_mode: bool = False


class FilterHook(Protocol):
    """Sees, and may take out, what pulls bring. Whatever it raises is logged and goes no further.

    Java: FilterMessageHook.
    """

    def filter_messages(self, context: FilterContext) -> None: ...


class PullPlan:
    """The decisions of all pulls of one consumer. Nothing here waits, and each call takes and leaves whole values, so
    any thread may call it."""

    def __init__(
        self,
        routes: ClientRoutes,
        group: str,
        *,
        filter_hooks: Sequence[FilterHook] = (),
        namespace: str = "",
        unit_mode: bool = False,
    ) -> None:
        """`group` is the name on the wire; `namespace` is taken off what applications see."""
        self._routes, self._group, self._namespace, self._unit_mode = routes, group, namespace, unit_mode
        self._filter_hooks = tuple(filter_hooks)
        self._suggested: dict[MessageQueue, int] = {}
        self.requests = PullRequests(routes, group)

    # --- before

    def node(self, queue: MessageQueue) -> PullNode | None:
        """Whom to ask: the node that the queue's broker suggested last, at first the master; None if the route is not
        known."""
        routes = self._routes
        broker_id = self._suggested.get(queue, MASTER_ID)
        found = routes.address_for_pull(routes.broker_of(queue), broker_id)
        return found and PullNode(*found)

    # --- after

    def answered(self, query: PullQuery, node: PullNode, answer: Command) -> RawPull:
        """What the answer means. Raises `ResponseError` if it is a refusal, `RemoteProtocolError` if it is none."""
        status = _STATUS_BY_CODE.get(answer.code)
        if status is None:
            raise response_error(answer.code, answer.remark, request=query.code.name, address=node.address)
        ext = answer.ext
        try:
            next_offset, min_offset, max_offset = (
                int(ext["nextBeginOffset"]),
                int(ext["minOffset"]),
                int(ext["maxOffset"]),
            )
            broker_id, offset_delta = int(ext["suggestWhichBrokerId"]), int(ext.get("offsetDelta", 0))
        except (KeyError, ValueError):
            made = headers.decode(PullMessageResponseHeader, ext)  # says which field is wrong
            next_offset, min_offset, max_offset = made.next_begin_offset, made.min_offset, made.max_offset
            broker_id, offset_delta = made.suggest_which_broker_id, made.offset_delta or 0
        self._suggested[query.queue] = broker_id
        body = answer.body if status is PullStatus.FOUND else b""
        return RawPull(status, next_offset, min_offset, max_offset, body, offset_delta)

    def forget_suggestion(self, queue: MessageQueue) -> None:
        """Ask the master next: nobody answered, and a node that is gone would be asked for ever."""
        self._suggested.pop(queue, None)

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's now."""
        self._suggested.pop(queue, None)
        self.requests.forget(queue)

    def result(self, query: PullQuery, raw: RawPull) -> PullResult:
        """The messages in an answer, as far as they are wanted. Raises `RemoteProtocolError`."""
        messages: list[ReceivedMessage] = []
        if raw.body:
            messages = decode_messages(
                raw.body,
                as_seen(self._namespace, query.queue),
                namespace=self._namespace,
                min_offset=raw.min_offset,
                max_offset=raw.max_offset,
                offset_delta=raw.offset_delta,
                first_offset=query.offset,
            )
            if tags := query.subscription.tags_set:
                messages = [message for message in messages if message.tags in tags]
            if self._filter_hooks:
                messages = self._filtered(query.queue, messages)
        return PullResult(raw.status, raw.next_offset, raw.min_offset, raw.max_offset, messages)

    def _filtered(self, queue: MessageQueue, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        context = FilterContext(self._group, as_seen(self._namespace, queue), messages, self._unit_mode)
        for hook in self._filter_hooks:
            try:
                hook.filter_messages(context)
            except Exception as error:  # noqa: BLE001  # the application's: messages are consumed all the same
                _log.error("filter hook failed", hook=type(hook).__qualname__, queue=queue, error=error)
        return context.messages


class PullBegun(NamedTuple):
    """A pull that has been asked."""

    node: PullNode
    answer: asyncio.Future[Command]


class Pulls:
    """Pulls over a runtime's connections. Any number may be under way at once, also of one queue."""

    def __init__(self, runtime: ClientRuntime, plan: PullPlan) -> None:
        self.plan = plan
        self._runtime = runtime

    async def pull(self, query: PullQuery, timeout_s: float = TIMEOUT_S) -> PullResult:
        """Ask, and decode what is wanted. Raises like `pull_raw`, and `RemoteProtocolError` for broken records."""
        return self.plan.result(query, await self.pull_raw(query, timeout_s))

    async def pull_raw(self, query: PullQuery, timeout_s: float = TIMEOUT_S, begun: PullBegun | None = None) -> RawPull:
        """Ask, and leave the records as they are. `begun` tells that the query has been asked already, by `begin`.

        Raises `BrokerNotFoundError` if not even a new route tells where the queue is, `TransportError`, `ResponseError`
        for a refusal (`FlowControlError`: later), `ClientError` for an expression that the broker does not know.
        """
        plan, queue, answer = self.plan, query.queue, None
        monotonic = self._runtime.clock.monotonic
        due_s = monotonic() + timeout_s
        begun = begun or self.begin(query, timeout_s)
        node = begun.node if begun is not None else plan.node(queue) or await self.search(queue, timeout_s)
        try:
            if begun is not None:
                answer = await begun.answer
            if answer is None or answer.code == ResponseCode.GO_AWAY:
                command, left_s = plan.requests.command(query, node), max(due_s - monotonic(), 0.0)
                answer = await self._runtime.ask(node.address, command, timeout_s=left_s)
        except TransportError:
            plan.forget_suggestion(queue)
            raise
        return plan.answered(query, node, answer)

    def begin(self, query: PullQuery, timeout_s: float = TIMEOUT_S) -> PullBegun | None:
        """Ask without waiting for the answer, which `pull_raw` does. None if that is not possible just now."""
        node, connections = self.plan.node(query.queue), self._runtime.connections
        channel = None if node is None else connections.channel(node.address)
        if node is None or channel is None or channel.is_congested:
            return None
        requests = self.plan.requests
        try:
            if self._runtime.decorator.is_needed:
                command = requests.command(query, node)
                return PullBegun(node, connections.begin(channel, node.address, command, timeout_s))
            template = requests.template(query, node)
            answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
            opaque = channel.expect(answer, query.code, timeout_s)
        except Exception:  # noqa: BLE001  # a hook's, say: whoever waits for the answer meets it too, and is told
            return None
        channel.send_frame(requests.frame(template, query, node, opaque))
        return PullBegun(node, answer)

    async def search(self, queue: MessageQueue, timeout_s: float) -> PullNode:
        """Whom to ask, by a new route. Raises `BrokerNotFoundError`, what asking for the route raises, and
        `CallTimeoutError`."""
        async with self._runtime.limit_search(queue.topic, timeout_s):
            await self._runtime.update_route(queue.topic)
        node = self.plan.node(queue)
        if node is None:
            raise BrokerNotFoundError(queue.broker_name, f"the newest route of {queue.topic!r} does not name it")
        return node
