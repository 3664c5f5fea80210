"""`Admin` for asyncio: one object to look at a cluster and to change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from rocketline.admin.brokers import Brokers
from rocketline.admin.calls import TIMEOUT_S, Calls
from rocketline.admin.clients import Clients
from rocketline.admin.groups import Groups
from rocketline.admin.messages import Messages
from rocketline.admin.name_servers import NameServers
from rocketline.admin.offsets import Offsets
from rocketline.admin.pops import GroupPops
from rocketline.admin.timers import TimerMessages
from rocketline.admin.topics import Topics
from rocketline.admin.transactions import Transactions
from rocketline.client.aio.shell import AsyncShell
from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.clock import Clock


class Admin(AsyncShell):
    """Administration by subject: `topics`, `groups`, `offsets`, `messages`, `transactions`, `timers`, `pops`,
    `clients`, `brokers`, `name_servers`.

    >>> async def main(address: str) -> None:
    ...     async with Admin(address) as admin:
    ...         await admin.topics.create("orders", queue_count=8)
    ...         print("orders" in await admin.topics.names(), len(await admin.topics.writable_queues("orders")))
    >>> import asyncio
    >>> from rocketline.testing import Server
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
    True 8

    Names are those that brokers have, namespaces included. Java: DefaultMQAdminExt.
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
        own = runtime or ClientRuntime(make_options(ClientOptions, name_servers, options), clock=clock)
        super().__init__("this Admin", own)
        calls = Calls(self._runtime, timeout_s)
        self.topics = Topics(calls)
        self.groups = Groups(calls)
        self.offsets = Offsets(calls)
        self.messages = Messages(calls)
        self.transactions = Transactions(calls)
        self.clients = Clients(calls)
        self.brokers = Brokers(calls)
        self.pops = GroupPops(calls)
        self.timers = TimerMessages(calls)
        self.name_servers = NameServers(calls)

    async def start(self) -> None:
        """Begin; `async with` does it. Nobody is asked yet. Raises `ClientError` if started."""
        await super().start()

    async def close(self) -> None:
        """Close the connections, unless others use the runtime too. Closing again does nothing."""
        await super().close()

    async def _leave(self) -> None:
        await self.messages.close()
        await super()._leave()
