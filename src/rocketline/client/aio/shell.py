"""What all asyncio clients have in common: a runtime, made or given, and a life on one loop.

`AsyncShell` starts and closes; a client says in a few hooks what there is to do. `AsyncClient` is one with a group and
options, which is all of them but `Admin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self

from rocketline.client.lifecycle import HasLifecycle, Lifecycle
from rocketline.client.options import Options, make_options
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.validation import check_group
from rocketline.clock import Clock
from rocketline.errors import RocketlineError


class AsyncShell(HasLifecycle):
    """Starts once and closes once, on the loop of its runtime.

    A start leases the runtime, then `_join`s, runs from here on, and `_begin`s. A close `_leave`s, and so does a start
    that finds itself closed. What a hook raises, the start raises, and nothing of it is left behind.
    """

    def __init__(self, thing: str, runtime: ClientRuntime) -> None:
        """`thing` is what errors call it."""
        self._runtime = runtime
        self._life = Lifecycle(thing, runtime.check)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Use the runtime. Raises `ClientError` if started, `ClosedError` if it was closed, before or meanwhile."""
        self._life.check_new()
        await self._runtime.lease()
        try:
            await self._join()
        except BaseException:
            await self._runtime.release()
            raise
        try:
            self._life.start()
        except RocketlineError:  # closed, or started by somebody else, while we waited
            await self._leave()
            raise
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise
        self._life.check_open()

    async def close(self) -> None:
        """Use the runtime no more. Again: does nothing."""
        if self._life.close():
            await self._leave()

    async def _join(self) -> None:
        """Take a place in the runtime. Raises `GroupInUseError` if somebody has it."""

    async def _begin(self) -> None:
        """Set to work. If this raises, the client is closed."""

    async def _leave(self) -> None:
        """End what was begun, give the place up and, last, the lease."""
        await self._runtime.release()


class AsyncClient(AsyncShell, Generic[Options]):
    """A client of a group."""

    def __init__(
        self,
        kind: type[Options],
        name_servers: str | Sequence[str] | None,
        options: Mapping[str, Any],
        group: str,
        runtime: ClientRuntime | None,
        clock: Clock | None,
    ) -> None:
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        check_group(group)
        self.group = group
        self.options = make_options(kind, name_servers, options)
        self.runtime = runtime or ClientRuntime(self.options, clock=clock, is_name_stable=self.options.is_name_stable)
        super().__init__(f"<{type(self).__name__} {group!r}>", self.runtime)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group!r}>"

    @property
    def client_id(self) -> str:
        return self.runtime.client_id
