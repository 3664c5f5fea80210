"""A server that we talk to: dialled when first needed, and again when the connection was lost."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Self, TypeAlias

from rocketline.clock import Clock, SystemClock
from rocketline.errors import ClosedError, ConnectError, ConnectionLostError, ResponseError, RocketlineError, one_more
from rocketline.net.address import parse_address
from rocketline.net.channel import Channel, ChannelLimits, Dispatch, Outcome
from rocketline.net.open_channels import OpenChannels
from rocketline.net.tls import TlsLayer
from rocketline.wire.codes import ResponseCode, SerializeType
from rocketline.wire.command import Command, response

_Made: TypeAlias = "asyncio.Future[Channel | None]"
IDLE_S = 120.0
_CLOSE_S = 1.0
_READ_BUFFER_BYTES = 64 * 1024
"""Smaller than a server's: there may be many remotes."""


class Remote:
    """One peer address and at most one live connection to it, shared by all who ask. Use it as `async with`.

    When the server answers GO_AWAY, a new connection is made and the request sent once more within its time; the old
    connection stays for the answers that are still due on it and is closed with the last of them.
    """

    hot_path = None
    long_turns = None

    def __init__(
        self,
        address: str,
        *,
        dispatch: Dispatch | None = None,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = 3.0,
        limits: ChannelLimits | None = None,
        serialize_type: SerializeType = SerializeType.JSON,
        idle_s: float = IDLE_S,
        read_buffer: memoryview | None = None,
        on_connect: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`dispatch` answers what the server asks of us; without it every such request is answered "not supported".

        `read_buffer` may be shared by all remotes of one loop. `on_connect` is called for every new connection,
        `on_lost` for each that has ended, whoever ended it.
        """
        self._host, self._port = parse_address(address)
        self.address = address
        self.dispatch: Dispatch = dispatch or _refuse
        self.clock = clock or SystemClock()
        self.limits = limits or ChannelLimits()
        self.serialize_type = serialize_type
        self.read_buffer = read_buffer or memoryview(bytearray(_READ_BUFFER_BYTES))
        self._tls, self._connect_timeout_s = tls, connect_timeout_s
        self._on_connect, self._on_lost = on_connect, on_lost
        self._channel: Channel | None = None
        self._channels = OpenChannels(self.clock, idle_s)
        self._waiting: list[_Made] | None = None
        """Who waits for the one who dials; None while nobody does."""
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def channel(self) -> Channel | None:
        """The connection that new requests go to, if there is one at the moment."""
        channel = self._channel
        return None if channel is None or channel.is_leaving or channel.is_closed else channel

    @property
    def is_unused(self) -> bool:
        """There is no connection, and nobody is making one."""
        return not len(self._channels) and self._waiting is None

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Ask and wait for the answer, whatever its code; dialling counts into `timeout_s`.

        Raises `TransportError`, or `ResponseError` if the server sends us away twice.
        """
        deadline_s = self.clock.monotonic() + timeout_s
        for _ in range(2):
            channel = self.channel or await self.connect(deadline_s - self.clock.monotonic())
            answer = await channel.request(replace(command), max(deadline_s - self.clock.monotonic(), 0.0))
            if answer.code != ResponseCode.GO_AWAY:
                return answer
        raise ResponseError(answer.code, answer.remark, request=f"request {command.code}", address=self.address)

    async def send_oneway(self, command: Command, timeout_s: float) -> None:
        """Send and wait for nothing but room to send."""
        deadline_s = self.clock.monotonic() + timeout_s
        channel = self.channel or await self.connect(timeout_s)
        await channel.send_oneway(replace(command), max(deadline_s - self.clock.monotonic(), 0.0))

    async def close(self) -> None:
        """Close every connection; whoever waits for an answer gets `ConnectionLostError`."""
        self._is_closed = True
        await self._channels.close(_CLOSE_S)

    async def connect(self, timeout_s: float) -> Channel:
        """The connection, made by one of those who need it while the others wait for that, each its own time.

        If it cannot be made, all are told why; if only the time of the one is over, another one goes on.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        channel = self.channel
        while channel is None:
            left_s = end_s - loop.time()
            if left_s <= 0:
                raise no_connection(self.address, timeout_s)
            try:
                channel = await (self._dial_for_all(left_s) if self._waiting is None else self._wait_for_it(left_s))
            except TimeoutError:
                raise no_connection(self.address, timeout_s) from None
        return channel

    async def _dial_for_all(self, timeout_s: float) -> Channel:
        waiting: list[_Made] = []
        self._waiting = waiting
        outcome: Channel | RocketlineError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                outcome = self._channel = await self._dial(self._connect_timeout_s)
        except RocketlineError as error:
            outcome = error
            raise
        finally:
            self._waiting = None
            for waiter in waiting:
                _resolve(waiter, one_more(outcome) if isinstance(outcome, RocketlineError) else outcome)
        return outcome

    async def _wait_for_it(self, timeout_s: float) -> Channel | None:
        """Without a task, a lock or a context: thousands may wait. None: whoever dialled has given up."""
        assert self._waiting is not None
        loop = asyncio.get_running_loop()
        made: _Made = loop.create_future()
        self._waiting.append(made)
        alarm = loop.call_later(timeout_s, _resolve, made, TimeoutError())
        try:
            return await made
        finally:
            alarm.cancel()

    def look_at_clock(self) -> None:
        """Close what is idle and fail what is overdue. This happens by itself; a clock turned by hand calls it."""
        self._channels.close_idle()
        for channel in list(self._channels):
            channel.expire()

    async def _dial(self, timeout_s: float) -> Channel:
        if self._is_closed:
            raise ClosedError(f"the connection to {self.address} was closed on this side")
        loop = asyncio.get_running_loop()
        channel = Channel(self, tls=TlsLayer(self._tls, server_hostname=self._host) if self._tls else None)
        try:
            async with asyncio.timeout(timeout_s):
                if self._tls is not None:
                    channel.established = loop.create_future()
                await loop.create_connection(lambda: channel, self._host, self._port)
                if channel.established is not None:
                    await channel.established
        except TimeoutError:
            channel.give_up()
            raise no_connection(self.address, timeout_s) from None
        except (OSError, ValueError) as error:  # the latter is what some host names give
            channel.give_up()
            raise ConnectError(self.address, getattr(error, "strerror", None) or str(error)) from error
        except ConnectionLostError as error:
            raise ConnectError(self.address, error.problem) from error
        except BaseException:
            channel.give_up()
            raise
        if self._on_connect is not None:
            self._on_connect()
        return channel

    # --- what a channel tells its owner

    def channel_opened(self, channel: Channel) -> None:
        self._channels.add(channel)

    def channel_closed(self, channel: Channel, reason: Exception | None) -> None:
        self._channels.discard(channel)
        if self._on_lost is not None:
            self._on_lost()


def no_connection(address: str, timeout_s: float) -> ConnectError:
    """None was made in the time given."""
    problem = f"no connection within {timeout_s:g} s" if timeout_s > 0 else "no time was left for a connection"
    return ConnectError(address, problem)


def _resolve(waiter: _Made, outcome: Channel | Exception | None) -> None:
    if waiter.done():
        return
    if isinstance(outcome, Exception):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)


def _refuse(channel: Channel, request: Command) -> Outcome:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return response(code, f"request code {request.code} is not supported by this client")
