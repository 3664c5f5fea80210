"""`ClientRuntime` for blocking clients: the asyncio one, on a portal's loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.client.runtime.runtime import ClientRuntime as AsyncClientRuntime
from rocketline.client.sync.portal import Portal
from rocketline.clock import Clock


class ClientRuntime:
    """What blocking clients share: connections and heartbeats, on one background thread.

        with ClientRuntime.at("127.0.0.1:9876") as runtime:
            producer = Producer(group="orders", runtime=runtime)
            consumer = PushConsumer(group="billing", runtime=runtime)

    It runs from the first `lease` to the last `release`, or to `close`.
    """

    def __init__(self, options: ClientOptions, *, clock: Clock | None = None, is_name_stable: bool = False) -> None:
        self.core = AsyncClientRuntime(options, clock=clock, is_name_stable=is_name_stable)
        """The asyncio runtime. What lives on it is called through `portal`."""
        self.portal = Portal(f"client {self.core.client_id}")

    @classmethod
    def at(cls, name_servers: str | Sequence[str] | None = None, **options: Unpack[ClientKeywords]) -> Self:
        """One that asks these name servers, or those of NAMESRV_ADDR."""
        return cls(make_options(ClientOptions, name_servers, options))

    def __enter__(self) -> Self:
        self.lease()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        return self.core.client_id

    def lease(self) -> None:
        """Use it; whoever is first starts it. Raises `ClosedError` or `ForkedError`."""
        self.portal.call(self.core.lease())

    def release(self) -> None:
        """Use it no more; whoever is last closes it."""
        self.portal.call_closing(self.core.release())
        self.end_thread()

    def end_thread(self) -> None:
        """End the background thread if the last client is gone, and with it the runtime."""
        if self.core.is_closed:
            self.portal.close()

    def close(self) -> None:
        """Say farewell to brokers, close all connections, end the thread. Closing again does nothing."""
        try:
            self.portal.call_closing(self.core.close())
        finally:
            self.portal.close()
