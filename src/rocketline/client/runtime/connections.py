"""The connections of one runtime: one for each address, and what is added to every request on its way out."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from rocketline.client.options import ClientOptions, RpcHook, Tls
from rocketline.clock import Clock
from rocketline.errors import ClosedError, ConfigError, ConnectError, ConnectionLostError
from rocketline.net.address import is_port
from rocketline.net.channel import Channel, ChannelLimits, Dispatch
from rocketline.net.config import TlsConfig
from rocketline.net.remote import Remote
from rocketline.net.tls import client_context
from rocketline.wire.acl import Credentials, sign
from rocketline.wire.command import Command
from rocketline.wire.namespaces import namespace_v2_fields

_READ_BUFFER_BYTES: Final = 256 * 1024
_STREAM_FIELDS: Final = {"ReqT": "0"}
_ZONE_FIELDS: Final = {"__ZONE_NAME": "ROCKETMQ_ZONE", "__ZONE_MODE": "ROCKETMQ_ZONE_MODE"}
"""The field of a request, and the environment variable that it tells."""
_VIP_OFFSET: Final = 2


class RequestDecorator:
    """What every request gets before it is sent: namespace, stream mark, the hooks' fields, signature, zone, in this
    order. The zone is not signed. Used from any thread."""

    def __init__(self, options: ClientOptions, environ: Mapping[str, str] = os.environ) -> None:
        self._first = namespace_v2_fields(options.namespace_v2) if options.namespace_v2 else {}
        if options.stream_requests:
            self._first |= _STREAM_FIELDS
        self.hooks: tuple[RpcHook, ...] = tuple(options.rpc_hooks)
        self._credentials: Credentials | None = options.credentials
        self._zone = {field: environ[name] for field, name in _ZONE_FIELDS.items() if environ.get(name)}
        self.is_needed = bool(self._first or self.hooks or self._credentials or self._zone)
        """Whether `apply` does anything at all."""

    def apply(self, command: Command, address: str) -> None:
        """Complete `command`, whose fields and body must be final but for this."""
        ext = command.ext
        ext.update(self._first)
        for hook in self.hooks:
            hook.before_request(address, command)
        if self._credentials is not None:
            sign(command, self._credentials)
        ext.update(self._zone)

    def finish(self, command: Command, address: str, answer: Command) -> None:
        """Show the answer to the hooks."""
        for hook in self.hooks:
            hook.after_response(address, command, answer)


class Connections:
    """One connection for each address, made when first needed and made again when lost. On one loop, until `close`.

    `dispatch` answers what servers ask; `on_connect` hears of every new connection, `on_lost` of every one that ended.
    All run on the loop.
    """

    def __init__(
        self,
        options: ClientOptions,
        decorator: RequestDecorator,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None,
        dispatch: Dispatch,
        on_connect: Callable[[str], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._options, self._decorator, self._clock = options, decorator, clock
        self._dispatch, self._on_connect, self._on_lost = dispatch, on_connect, on_lost
        self._remotes: dict[str, Remote] = {}
        self._read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._tls = tls
        self._is_closed = False
        self._limits = ChannelLimits(in_flight_max=options.in_flight_max, closes_when_silent=True)

    def __len__(self) -> int:
        """How many are open."""
        return sum(remote.channel is not None for remote in self._remotes.values())

    def channel(self, address: str) -> Channel | None:
        """The live connection to `address`, if there is one."""
        remote = self._remotes.get(address)
        return None if remote is None else remote.channel

    async def connect(self, address: str, timeout_s: float) -> Channel:
        """The live connection to `address`, made now if need be. Raises `ConnectError`."""
        with _lost_if_dropped(address):
            return self.channel(address) or await self._remote(address).connect(timeout_s)

    async def ask(self, address: str, command: Command, timeout_s: float) -> Command:
        """Prepare and send `command`, and wait for the answer, whatever its code. GO_AWAY leads to a new connection and
        the same request once more, within the same time. Raises `TransportError` or, when sent away twice,
        `ResponseError`."""
        prepared = self._prepared(command, address)
        with _lost_if_dropped(address):
            answer = await self._remote(address).request(prepared, timeout_s)
        if self._decorator.is_needed:
            self._decorator.finish(prepared, address, answer)
        return answer

    async def send_oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Prepare and send `command`; nobody answers. Raises `TransportError`."""
        with _lost_if_dropped(address):
            await self._remote(address).send_oneway(self._prepared(command, address), timeout_s)

    def begin(self, channel: Channel, address: str, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Prepare and send `command`, which nobody else uses, on a live connection. See `Channel.begin`."""
        if not self._decorator.is_needed:
            return channel.begin(command, timeout_s)
        self._decorator.apply(command, address)
        answer = channel.begin(command, timeout_s)
        if self._decorator.hooks:
            answer.add_done_callback(lambda done: self._finish(command, address, done))
        return answer

    def look_at_clock(self) -> None:
        """A clock was turned by hand: close what is idle, fail what is overdue."""
        for remote in self._remotes.values():
            remote.look_at_clock()

    async def drop(self, addresses: Collection[str]) -> None:
        """Close the connections to these addresses."""
        gone = [self._remotes.pop(address) for address in addresses if address in self._remotes]
        await asyncio.gather(*(remote.close() for remote in gone))

    def forget_unused(self) -> None:
        """Keep nothing of addresses without a connection: brokers come and go, and their addresses with them."""
        self._remotes = {address: remote for address, remote in self._remotes.items() if not remote.is_unused}

    async def close(self) -> None:
        """Close all, and make no more. Whoever waits for an answer gets `ConnectionLostError`."""
        self._is_closed = True
        await self.drop(list(self._remotes))

    def _remote(self, address: str) -> Remote:
        remote = self._remotes.get(address)
        if remote is None:
            if self._is_closed:
                raise ClosedError(f"the client was closed: nobody at {address} is asked any more")
            remote = self._remotes[address] = self._new_remote(address)
        return remote

    def _new_remote(self, address: str) -> Remote:
        try:
            return Remote(
                address,
                dispatch=self._dispatch,
                tls=self._tls,
                connect_timeout_s=self._options.connect_timeout_s,
                limits=self._limits,
                idle_s=self._options.idle_close_s,
                read_buffer=self._read_buffer,
                on_connect=lambda: self._on_connect(address),
                on_lost=lambda: self._on_lost(address),
                clock=self._clock,
            )
        except ConfigError as error:  # brokers may register any text
            raise ConnectError(address, str(error)) from None

    def _prepared(self, command: Command, address: str) -> Command:
        """A copy with what is added: the caller may send the same command to several addresses."""
        if not self._decorator.is_needed:
            return command
        prepared = replace(command, ext=dict(command.ext))
        self._decorator.apply(prepared, address)
        return prepared

    def _finish(self, command: Command, address: str, done: asyncio.Future[Command]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._decorator.finish(command, address, done.result())


@contextmanager
def _lost_if_dropped(address: str) -> Iterator[None]:
    """To whoever waits for a connection that is dropped meanwhile, it is one more that was lost: the client goes on."""
    try:
        yield
    except ClosedError as error:
        raise ConnectionLostError(address, "dropped: its server is in no route any more") from error


def vip_address(address: str) -> str:
    """The broker's second port, which does not serve pulls. Java: MixAll.brokerVIPChannel.

    >>> vip_address("127.0.0.1:10911")
    '127.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - _VIP_OFFSET}" if is_port(port) else address


def tls_context(tls: bool | Tls | ssl.SSLContext) -> ssl.SSLContext | None:
    """What to encrypt with; None: nothing is encrypted. Raises `ConfigError` if a file cannot be used."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not tls:
        return None
    files = tls if isinstance(tls, Tls) else Tls()
    return client_context(
        TlsConfig(
            client_auth_server=files.verifies,
            client_trust_cert_path=files.trust_path,
            client_cert_path=files.cert_path,
            client_key_path=files.key_path,
            client_key_password=files.key_password,
        )
    )
