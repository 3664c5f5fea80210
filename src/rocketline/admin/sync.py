"""`Admin` for code without asyncio: each operation of `rocketline.admin.aio` as a call that waits.

Administration is not done a thousand times a second, so all of it goes through the portal, and there is nothing here
but the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, Unpack

from rocketline.admin.aio import Admin as AsyncAdmin
from rocketline.admin.brokers import Brokers as AsyncBrokers
from rocketline.admin.calls import TIMEOUT_S
from rocketline.admin.clients import Clients as AsyncClients
from rocketline.admin.groups import Groups as AsyncGroups
from rocketline.admin.messages import Messages as AsyncMessages
from rocketline.admin.name_servers import NameServers as AsyncNameServers
from rocketline.admin.offsets import Offsets as AsyncOffsets
from rocketline.admin.pops import GroupPops as AsyncGroupPops
from rocketline.admin.timers import TimerMessages as AsyncTimerMessages
from rocketline.admin.topics import Topics as AsyncTopics
from rocketline.admin.transactions import Transactions as AsyncTransactions
from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.client.sync.portal import Portal
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.shell import BlockingShell, OnPortal, closes, waits
from rocketline.clock import Clock

Area = TypeVar("Area")


class BlockingArea(OnPortal[Area]):
    """One area of administration, on the loop of a portal."""

    def __init__(self, portal: Callable[[], Portal], area: Area) -> None:
        """`portal` raises if there is none to call through now."""
        self._portal, self._twin = portal, area

    def _open_portal(self) -> Portal:
        return self._portal()


class Topics(BlockingArea[AsyncTopics]):
    """`admin.topics`."""

    names = waits(AsyncTopics.names)
    create = waits(AsyncTopics.create)
    put = waits(AsyncTopics.put)
    set_permission = waits(AsyncTopics.set_permission)
    delete = waits(AsyncTopics.delete)
    config = waits(AsyncTopics.config)
    route = waits(AsyncTopics.route)
    writable_queues = waits(AsyncTopics.writable_queues)
    readable_queues = waits(AsyncTopics.readable_queues)
    status = waits(AsyncTopics.status)
    groups = waits(AsyncTopics.groups)


class Groups(BlockingArea[AsyncGroups]):
    """`admin.groups`."""

    names = waits(AsyncGroups.names)
    config = waits(AsyncGroups.config)
    create = waits(AsyncGroups.create)
    put = waits(AsyncGroups.put)
    delete = waits(AsyncGroups.delete)
    set_readable = waits(AsyncGroups.set_readable)
    topics = waits(AsyncGroups.topics)
    lag = waits(AsyncGroups.lag)
    lags = waits(AsyncGroups.lags)


class Offsets(BlockingArea[AsyncOffsets]):
    """`admin.offsets`."""

    max = waits(AsyncOffsets.max)
    min = waits(AsyncOffsets.min)
    at_time = waits(AsyncOffsets.at_time)
    earliest_store_ms = waits(AsyncOffsets.earliest_store_ms)
    committed = waits(AsyncOffsets.committed)
    commit = waits(AsyncOffsets.commit)
    clone = waits(AsyncOffsets.clone)
    reset_to_time = waits(AsyncOffsets.reset_to_time)
    reset_to_begin = waits(AsyncOffsets.reset_to_begin)
    reset_to_end = waits(AsyncOffsets.reset_to_end)
    reset_to_offset = waits(AsyncOffsets.reset_to_offset)


class Messages(BlockingArea[AsyncMessages]):
    """`admin.messages`."""

    get = waits(AsyncMessages.get)
    by_offset_id = waits(AsyncMessages.by_offset_id)
    by_key = waits(AsyncMessages.by_key)
    trace = waits(AsyncMessages.trace)
    by_unique_key = waits(AsyncMessages.by_unique_key)
    at = waits(AsyncMessages.at)
    between = waits(AsyncMessages.between)
    last = waits(AsyncMessages.last)
    follow = waits(AsyncMessages.follow)
    consume_directly = waits(AsyncMessages.consume_directly)
    resend = waits(AsyncMessages.resend)


class Transactions(BlockingArea[AsyncTransactions]):
    """`admin.transactions`."""

    open = waits(AsyncTransactions.open)
    given_up = waits(AsyncTransactions.given_up)
    resume = waits(AsyncTransactions.resume)


class Clients(BlockingArea[AsyncClients]):
    """`admin.clients`."""

    consumers = waits(AsyncClients.consumers)
    producers = waits(AsyncClients.producers)
    all_producers = waits(AsyncClients.all_producers)
    running_info = waits(AsyncClients.running_info)
    subscription = waits(AsyncClients.subscription)
    offsets = waits(AsyncClients.offsets)


class Brokers(BlockingArea[AsyncBrokers]):
    """`admin.brokers`."""

    clusters = waits(AsyncBrokers.clusters)
    addresses = waits(AsyncBrokers.addresses)
    status = waits(AsyncBrokers.status)
    figures = waits(AsyncBrokers.figures)
    statistic = waits(AsyncBrokers.statistic)
    config = waits(AsyncBrokers.config)
    set_config = waits(AsyncBrokers.set_config)
    topics = waits(AsyncBrokers.topics)
    clean_expired_queues = waits(AsyncBrokers.clean_expired_queues)
    delete_expired_logs = waits(AsyncBrokers.delete_expired_logs)
    clean_unused_topics = waits(AsyncBrokers.clean_unused_topics)


class GroupPops(BlockingArea[AsyncGroupPops]):
    """`admin.pops`."""

    modes = waits(AsyncGroupPops.modes)
    set_mode = waits(AsyncGroupPops.set_mode)
    in_flight = waits(AsyncGroupPops.in_flight)


class TimerMessages(BlockingArea[AsyncTimerMessages]):
    """`admin.timers`."""

    waiting = waits(AsyncTimerMessages.waiting)
    moments = waits(AsyncTimerMessages.moments)


class NameServers(BlockingArea[AsyncNameServers]):
    """`admin.name_servers`."""

    addresses = waits(AsyncNameServers.addresses)
    config = waits(AsyncNameServers.config)
    set_config = waits(AsyncNameServers.set_config)
    value = waits(AsyncNameServers.value)
    values = waits(AsyncNameServers.values)
    set_value = waits(AsyncNameServers.set_value)
    delete_value = waits(AsyncNameServers.delete_value)
    forbid_writes = waits(AsyncNameServers.forbid_writes)
    allow_writes = waits(AsyncNameServers.allow_writes)


class Admin(BlockingShell[AsyncAdmin]):
    """Administration by subject: `topics`, `groups`, `offsets`, `messages`, `transactions`, `timers`, `pops`,
    `clients`, `brokers`, `name_servers`.

    >>> from rocketline.testing import Server
    >>> with Server() as server, Admin(server.address) as admin:
    ...     _ = admin.topics.create("orders", queue_count=8)
    ...     print("orders" in admin.topics.names(), len(admin.topics.writable_queues("orders")))
    True 8

    Names are those that brokers have, namespaces included. Any thread may use it. Java: DefaultMQAdminExt.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        """`timeout_s` is for each request. With a `runtime`, its options and connections are used."""
        self._runtime = runtime or ClientRuntime(make_options(ClientOptions, name_servers, options), clock=clock)
        self._twin = AsyncAdmin(timeout_s=timeout_s, runtime=self._runtime.core)
        twin, portal = self._twin, self._open_portal
        self.topics = Topics(portal, twin.topics)
        self.groups = Groups(portal, twin.groups)
        self.offsets = Offsets(portal, twin.offsets)
        self.messages = Messages(portal, twin.messages)
        self.transactions = Transactions(portal, twin.transactions)
        self.clients = Clients(portal, twin.clients)
        self.brokers = Brokers(portal, twin.brokers)
        self.pops = GroupPops(portal, twin.pops)
        self.timers = TimerMessages(portal, twin.timers)
        self.name_servers = NameServers(portal, twin.name_servers)

    def start(self) -> None:
        """Begin; `with` does it. Nobody is asked yet. Raises `ClientError` if started."""
        self._start()

    close = closes(AsyncAdmin.close)
