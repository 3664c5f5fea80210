"""What all blocking clients have in common: a twin, the asyncio client, that lives on the loop of a portal.

Calls that merely go there are written `fetch_offset = waits(AsyncPullConsumer.fetch_offset)`: parameters, types and
text are the twin's. Whatever has a reason to do more is written out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from rocketline.client.aio.shell import AsyncShell
from rocketline.client.options import Options, make_options
from rocketline.client.scheduling import Stoppable
from rocketline.client.sync.connections import BlockingConnections
from rocketline.client.sync.portal import Portal
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.validation import check_group
from rocketline.clock import Clock
from rocketline.errors import WrongLoopError

_IDLE_CHECK_S: Final = 30.0
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Twin = TypeVar("Twin")
ShellTwin = TypeVar("ShellTwin", bound=AsyncShell)


class OnPortal(Generic[Twin]):
    """Has a twin on the loop of a portal."""

    _twin: Twin

    def _open_portal(self) -> Portal:
        """The portal to call the twin through. Raises if that cannot be called here and now."""
        raise NotImplementedError


def waits(
    operation: Callable[Concatenate[Twin, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[OnPortal[Twin], Parameters], Result]:
    """The method that runs `operation` of the twin on the portal and waits for it."""

    @functools.wraps(operation)
    def call(self: OnPortal[Twin], /, *args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        portal = self._open_portal()
        return portal.call(operation(self._twin, *args, **keywords))

    return call


class BlockingShell(OnPortal[ShellTwin]):
    """Starts once and closes once, by any thread, while its twin does so on the loop of the runtime.

    `_start` and `_close` are what this takes; `start` and `close` tell of it, in the twin's words.
    """

    _runtime: ClientRuntime

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self, /) -> None:
        """Use the runtime. Raises `ClientError` if started, `ClosedError` if it was closed, before or meanwhile."""
        self._start()

    def close(self, /) -> None:
        """Use the runtime no more."""
        self._close()

    def _start(self) -> None:
        """Have the twin start on the loop. Raises what that raises, `ForkedError`, and `ClientError` or `ClosedError`
        if it was started before; then the thread goes with the runtime, if this was its only client."""
        portal = self._runtime.portal
        portal.check_process()
        self._twin.check_new()
        try:
            portal.call(self._start_twin())
        except BaseException:
            self._runtime.end_thread()
            raise

    def _close(self) -> None:
        """Have the twin close on the loop, unless that was done before; one that is only starting finds it out."""
        if not (self._twin.close_if_new() or self._is_over):
            self._runtime.portal.call_closing(self._close_twin())
        self._end()

    async def _start_twin(self) -> None:
        await self._twin.start()

    async def _close_twin(self) -> None:
        await self._twin.close()

    @property
    def _is_over(self) -> bool:
        """Nothing is left to do on the loop."""
        return self._twin.is_closed

    def _end(self) -> None:
        self._runtime.end_thread()

    def _open_portal(self) -> Portal:
        self._twin.check_running()
        return self._runtime.portal

    def _on_loop(self, action: Callable[[], Result]) -> Result:
        """Do it where everything of the twin happens: on the loop, once there is one."""
        portal = self._runtime.portal
        if self._is_over or not (self._twin.is_running or portal.is_open):
            try:
                return action()
            except WrongLoopError:  # another thread has started it meanwhile, and nothing is done yet
                pass
        return portal.call(_awaited(action))


async def _awaited(action: Callable[[], Result]) -> Result:
    return action()


def on_loop(
    action: Callable[Concatenate[ShellTwin, Parameters], Result],
) -> Callable[Concatenate[BlockingShell[ShellTwin], Parameters], Result]:
    """The method that calls `action`, which does not wait, of the twin on its loop."""

    @functools.wraps(action)
    def call(self: BlockingShell[ShellTwin], /, *args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        return self._on_loop(lambda: action(self._twin, *args, **keywords))

    return call


def starts(
    start: Callable[[ShellTwin], Coroutine[Any, Any, None]],
) -> Callable[[BlockingShell[ShellTwin]], None]:
    """The method `start`, which promises what the twin's does."""

    @functools.wraps(start)
    def call(self: BlockingShell[ShellTwin], /) -> None:
        self._start()

    return call


def closes(
    close: Callable[[ShellTwin], Coroutine[Any, Any, None]],
) -> Callable[[BlockingShell[ShellTwin]], None]:
    """The method `close`, which promises what the twin's does."""

    @functools.wraps(close)
    def call(self: BlockingShell[ShellTwin], /) -> None:
        self._close()

    return call


class BlockingClient(BlockingShell[ShellTwin], Generic[ShellTwin, Options]):
    """A client of a group. Whoever extends it makes the twin, on `runtime.core`."""

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

        Clients that are given the same `runtime` share its connections; its options count for what they share. A
        consumer's `queue_listener` is called in a thread of its own, and may call the consumer.
        """
        check_group(group)
        self.group = group
        self.options = make_options(kind, name_servers, options)
        self.runtime = self._runtime = runtime or ClientRuntime(
            self.options, clock=clock, is_name_stable=self.options.is_name_stable
        )

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def client_id(self) -> str:
        return self.runtime.client_id

    @property
    def is_running(self) -> bool:
        return self._twin.is_running


class SocketClient(BlockingClient[ShellTwin, Options]):
    """One whose threads write to sockets of their own (ADR 12)."""

    _connections: BlockingConnections
    _closing_idle: Stoppable | None = None

    def _make_connections(self, busy_wait_s: float = 0.0) -> BlockingConnections:
        core = self.runtime.core
        return BlockingConnections(
            tls=core.tls,
            connect_timeout_s=core.options.connect_timeout_s,
            idle_s=core.options.idle_close_s,
            busy_wait_s=busy_wait_s,
            clock=core.clock,
        )

    async def _start_twin(self) -> None:
        await super()._start_twin()
        self._closing_idle = self.runtime.core.every(
            _IDLE_CHECK_S, _IDLE_CHECK_S, self._close_idle, name="close idle connections"
        )

    async def _close_idle(self) -> None:
        self._connections.close_idle()

    def _close(self) -> None:
        self._connections.close()
        super()._close()

    async def _close_twin(self) -> None:
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        await super()._close_twin()
