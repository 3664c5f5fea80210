"""`Admin` for code without asyncio: each operation of `rocketline.admin.client` as a call that waits.

Administration is not done a thousand times a second, so all of it goes through the portal, and there is nothing here
but the names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from rocketline.admin import client
from rocketline.admin.brokers import Brokers as AsyncBrokers
from rocketline.admin.calls import TIMEOUT_S
from rocketline.admin.clients import Clients as AsyncClients
from rocketline.admin.groups import Groups as AsyncGroups
from rocketline.admin.messages import Messages as AsyncMessages
from rocketline.admin.name_servers import NameServers as AsyncNameServers
from rocketline.admin.offsets import Offsets as AsyncOffsets
from rocketline.admin.topics import Topics as AsyncTopics
from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.clock import Clock
from rocketline.sync.portal import Portal
from rocketline.sync.runtime import ClientRuntime

Area = TypeVar("Area")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Waiting(Generic[Area]):
    """One area of administration, on the loop of a portal."""

    def __init__(self, portal: Callable[[], Portal], area: Area) -> None:
        """`portal` raises if there is none to call through now."""
        self.portal, self.area = portal, area


def waits(
    operation: Callable[Concatenate[Area, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Waiting[Area], Parameters], Result]:
    """The method that runs `operation` on the portal and waits for it."""

    @functools.wraps(operation)
    def call(self: Waiting[Area], /, *args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        portal = self.portal()
        return portal.call(operation(self.area, *args, **keywords))

    return call


class Topics(Waiting[AsyncTopics]):
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


class Groups(Waiting[AsyncGroups]):
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


class Offsets(Waiting[AsyncOffsets]):
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


class Messages(Waiting[AsyncMessages]):
    """`admin.messages`."""

    get = waits(AsyncMessages.get)
    by_offset_id = waits(AsyncMessages.by_offset_id)
    by_key = waits(AsyncMessages.by_key)
    by_unique_key = waits(AsyncMessages.by_unique_key)
    at = waits(AsyncMessages.at)
    between = waits(AsyncMessages.between)
    last = waits(AsyncMessages.last)
    follow = waits(AsyncMessages.follow)
    consume_directly = waits(AsyncMessages.consume_directly)
    resend = waits(AsyncMessages.resend)


class Clients(Waiting[AsyncClients]):
    """`admin.clients`."""

    consumers = waits(AsyncClients.consumers)
    producers = waits(AsyncClients.producers)
    all_producers = waits(AsyncClients.all_producers)
    running_info = waits(AsyncClients.running_info)
    subscription = waits(AsyncClients.subscription)
    offsets = waits(AsyncClients.offsets)


class Brokers(Waiting[AsyncBrokers]):
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


class NameServers(Waiting[AsyncNameServers]):
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


class Admin:
    """Administration by subject: `topics`, `groups`, `offsets`, `messages`, `clients`, `brokers`, `name_servers`.

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
        self._core = client.Admin(timeout_s=timeout_s, runtime=self._runtime.core)
        core, portal = self._core, self._open_portal
        self.topics = Topics(portal, core.topics)
        self.groups = Groups(portal, core.groups)
        self.offsets = Offsets(portal, core.offsets)
        self.messages = Messages(portal, core.messages)
        self.clients = Clients(portal, core.clients)
        self.brokers = Brokers(portal, core.brokers)
        self.name_servers = NameServers(portal, core.name_servers)

    def start(self) -> None:
        """Begin; `with` does it. Nobody is asked yet. Raises `ClientError` if started."""
        self._runtime.start_client(self._core, self._core.start)

    def close(self) -> None:
        """Close the connections, unless others use the runtime too. Closing again does nothing."""
        self._runtime.close_client(self._core, self._core.close)

    def _open_portal(self) -> Portal:
        self._core.check_running()
        return self._runtime.portal

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
