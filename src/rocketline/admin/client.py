"""`Admin` for asyncio: one object to look at a cluster and to change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from rocketline.admin.brokers import Brokers
from rocketline.admin.calls import TIMEOUT_S, Calls
from rocketline.admin.clients import Clients
from rocketline.admin.groups import Groups
from rocketline.admin.messages import Messages
from rocketline.admin.name_servers import NameServers
from rocketline.admin.offsets import Offsets
from rocketline.admin.topics import Topics
from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.client.runtime import ClientRuntime
from rocketline.clock import Clock
from rocketline.errors import ClientError


class Admin:
    """Administration by subject: `topics`, `groups`, `offsets`, `messages`, `clients`, `brokers`, `name_servers`.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.topics.create("orders", queue_count=8)
            print((await admin.groups.lag("billing")).lag)

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
        self._runtime = runtime or ClientRuntime(make_options(ClientOptions, name_servers, options), clock=clock)
        self._is_open = False
        calls = Calls(self._runtime, timeout_s)
        self.topics = Topics(calls)
        self.groups = Groups(calls)
        self.offsets = Offsets(calls)
        self.messages = Messages(calls)
        self.clients = Clients(calls)
        self.brokers = Brokers(calls)
        self.name_servers = NameServers(calls)

    async def start(self) -> None:
        """Begin; `async with` does it. Nobody is asked yet. Raises `ClientError` if started."""
        if self._is_open:
            raise ClientError("this Admin is started already")
        await self._runtime.lease()
        self._is_open = True

    async def close(self) -> None:
        """Close the connections, unless others use the runtime too. Closing again does nothing."""
        if self._is_open:
            self._is_open = False
            await self.messages.close()
            await self._runtime.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
