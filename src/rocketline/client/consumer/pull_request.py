"""The request that pulls: as a `Command`, to which hooks and signatures may add, and as its frame made in one go.

From one pull of a queue to the next only three fields change, so the others are written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketline.client.consumer.subscriptions import TAG
from rocketline.errors import ClientError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.model.sys_flags import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketline.wire import header_json, headers
from rocketline.wire.codes import RequestCode, release_number
from rocketline.wire.command import Command
from rocketline.wire.headers import PullMessageRequestHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.routes import ClientRoutes

BYTES_MAX: Final = 2_147_483_647
"""No bound of our own on what one pull brings."""
_FILTERS_SINCE: Final = release_number(4, 1, 0)


@dataclass(slots=True)
class PullQuery:
    """What is asked of one queue. Topic names are those on the wire.

    Not frozen, because one is made for every pull; by habit nobody changes one that has been handed on.
    """

    queue: MessageQueue
    offset: int
    subscription: SubscriptionData
    count_max: int = 32
    bytes_max: int = BYTES_MAX
    """Java: maxMsgBytes, which today's brokers ignore."""
    commit_offset: int | None = None
    """How far the group is, for the broker to keep if it is above zero."""
    suspend_s: float | None = None
    """How long the broker may hold the pull back at the end of the queue; None: not at all."""
    is_lite: bool = False
    """A lite pull consumer asks: LITE_PULL_MESSAGE in place of PULL_MESSAGE."""
    with_subscription: bool = False
    """The subscription travels with the pull; otherwise that of the heartbeat counts."""

    @property
    def code(self) -> RequestCode:
        return RequestCode.LITE_PULL_MESSAGE if self.is_lite else RequestCode.PULL_MESSAGE


class PullNode(NamedTuple):
    """Who is asked."""

    address: str
    is_slave: bool


class _Written(NamedTuple):
    """The fields of a queue's last pull, what they were written for, and the header that they make."""

    subscription: SubscriptionData
    shape: tuple[object, ...]
    ext: dict[str, str]
    header: str
    """With gaps for offset, flags, committed offset and opaque."""


class PullRequests:
    """Makes the requests of one consumer. Any thread may call it: it takes and leaves whole values."""

    def __init__(self, routes: ClientRoutes, group: str) -> None:
        """`group` is the name on the wire."""
        self._routes, self._group = routes, group
        self._written: dict[MessageQueue, _Written] = {}

    def command(self, query: PullQuery, node: PullNode) -> Command:
        """The request, open for additions. Raises `ClientError` if the broker is too old for the expression."""
        ext = self._find(query, node).ext.copy()
        ext["queueOffset"] = str(query.offset)
        ext["commitOffset"] = str(query.commit_offset or 0)
        ext["sysFlag"] = str(_sys_flag(query, node))
        return Command(query.code, ext)

    def template(self, query: PullQuery, node: PullNode) -> str:
        """What `frame` wants. Raises like `command`."""
        return self._find(query, node).header

    def frame(self, template: str, query: PullQuery, node: PullNode, opaque: int) -> bytes:
        """The bytes that `frame.encode` makes of `command`, with this number and a JSON header."""
        fields = query.offset, _sys_flag(query, node), query.commit_offset or 0, opaque
        header = (template % fields).encode("utf-8", "replace")
        return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's now."""
        self._written.pop(queue, None)

    def _find(self, query: PullQuery, node: PullNode) -> _Written:
        queue, subscription = query.queue, query.subscription
        if subscription.expression_type != TAG and 0 < self._routes.broker_version(node.address) < _FILTERS_SINCE:
            raise ClientError(
                f"broker {queue.broker_name!r} at {node.address} is older than 4.1.0 and knows no "
                f"{subscription.expression_type} expressions: subscribe to {queue.topic!r} by tags"
            )
        shape = query.count_max, query.bytes_max, query.suspend_s, query.is_lite, query.with_subscription
        written = self._written.get(queue)
        if written is None or written.subscription is not subscription or written.shape != shape:
            ext = headers.encode(self._header(query))
            written = self._written[queue] = _Written(subscription, shape, ext, _with_gaps(Command(query.code, ext)))
        return written

    def _header(self, query: PullQuery) -> PullMessageRequestHeader:
        queue, subscription = query.queue, query.subscription
        # A subscription by tags that travels with its pull needs no version: the broker has no other to compare.
        has_version = not query.with_subscription or subscription.expression_type != TAG
        return PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=query.count_max,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=round(1000 * (query.suspend_s or 0)),
            subscription=subscription.sub_string if query.with_subscription else None,
            sub_version=subscription.sub_version if has_version else 0,
            expression_type=subscription.expression_type,
            max_msg_bytes=query.bytes_max,
            target_broker=queue.broker_name,
        )


def _with_gaps(command: Command) -> str:
    """The command's header with `%d` for what changes. Within a value a quotation mark has a backslash before it, so
    what is looked for cannot be part of one."""
    header = header_json.encode(command).decode().replace("%", "%%")
    for name in ("queueOffset", "sysFlag", "commitOffset"):
        header = header.replace(f'"{name}":"0"', f'"{name}":"%d"', 1)
    return header.replace('"opaque":0,', '"opaque":%d,', 1)


def _sys_flag(query: PullQuery, node: PullNode) -> int:
    # Offsets are kept by the master; a slave gets them from it, and would lose what we told it.
    commits = query.commit_offset is not None and query.commit_offset > 0 and not node.is_slave
    return (
        PULL_COMMIT_OFFSET * commits
        | PULL_SUSPEND * (query.suspend_s is not None)
        | PULL_SUBSCRIPTION * query.with_subscription
        | PULL_LITE * query.is_lite
    )
