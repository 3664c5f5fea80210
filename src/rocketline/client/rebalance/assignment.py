"""The share of a topic that a broker decides on, and by which way its messages come. Java: queryAssignment.

Each member asks by itself: a broker of the topic tells it its queues, to be pulled or to be popped. Popped ones may
stand for all queues of a broker, and for all members at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketline.errors import BrokerNotFoundError, RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel, MessageRequestMode
from rocketline.wire import bodies
from rocketline.wire.bodies.pop import MessageQueueAssignment, QueryAssignmentRequestBody, QueryAssignmentResponseBody
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_TIMEOUT_S: Final = 3.0
_ALL_QUEUES: Final = -1


class Share(NamedTuple):
    """What a member reads of a topic."""

    queues: Collection[MessageQueue]
    """All there are."""
    assigned: frozenset[MessageQueue]
    """To pull from."""
    popped: frozenset[MessageQueue] = frozenset()
    """To pop from; -1 for an id stands for all queues of a broker."""


async def query_assignment(
    runtime: ClientRuntime, group: str, topic: str, strategy: str, queues: Collection[MessageQueue]
) -> Share | None:
    """Ask a broker of the topic, whose `queues` the route tells; None: it does not know, keep what you have.

    Raises `BrokerNotFoundError`, `TransportError`, `ResponseError`, and `RemoteProtocolError` if the answer names what
    the route does not.
    """
    address = runtime.routes.any_address(topic)
    if address is None:
        raise BrokerNotFoundError("", f"no broker of {topic!r} has an address")
    body = QueryAssignmentRequestBody(topic, group, runtime.client_id, strategy, MessageModel.CLUSTERING)
    request = Command(RequestCode.QUERY_ASSIGNMENT, body=bodies.encode(body))
    answer = await runtime.ask_ok(address, request, timeout_s=_TIMEOUT_S)
    assignments = bodies.decode(QueryAssignmentResponseBody, answer.body).message_queue_assignments
    return None if assignments is None else _share(topic, queues, assignments)


def _share(topic: str, queues: Collection[MessageQueue], assignments: Collection[MessageQueueAssignment]) -> Share:
    known = set(queues)
    every = {MessageQueue(topic, queue.broker_name, _ALL_QUEUES) for queue in queues}
    by_mode: dict[MessageRequestMode, set[MessageQueue]] = {mode: set() for mode in MessageRequestMode}
    for assignment in assignments:
        queue, mode = assignment.message_queue, assignment.mode or MessageRequestMode.PULL
        if queue is None:
            continue
        if queue not in known and not (mode is MessageRequestMode.POP and queue in every):
            raise RemoteProtocolError(f"a broker assigns {queue}, of which the route of {topic!r} knows nothing")
        by_mode[mode].add(queue)
    return Share(queues, frozenset(by_mode[MessageRequestMode.PULL]), frozenset(by_mode[MessageRequestMode.POP]))
