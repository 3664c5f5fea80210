"""A server of our own on a free loopback port, with handlers that a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from rocketline.clock import Clock, SystemClock
from rocketline.hot import HotPath
from rocketline.logs import Throttle
from rocketline.net.channel import Channel, Outcome
from rocketline.net.config import NetworkConfig, TlsConfig
from rocketline.net.dispatch import Dispatcher, Handler
from rocketline.net.server import Server
from rocketline.wire import frame
from rocketline.wire.command import Command, response

ECHO, FAIL = 1000, 1001


def echo(channel: Channel, request: Command) -> Outcome:
    return response(0, ext=request.ext, body=request.body)


def fail(channel: Channel, request: Command) -> Outcome:
    raise KeyError("a handler's own fault")


def serve(
    handlers: Mapping[int, Handler] | None = None,
    *,
    network: NetworkConfig | None = None,
    tls: TlsConfig | None = None,
    clock: Clock | None = None,
    hot_path: HotPath | None = None,
    on_close: Callable[[Channel], None] | None = None,
) -> AbstractAsyncContextManager[Server]:
    log = Throttle(clock or SystemClock())
    return Server(
        network or loopback(),
        tls or TlsConfig(),
        Dispatcher(handlers or {ECHO: echo, FAIL: fail}, log),
        log=log,
        clock=clock,
        hot_path=hot_path,
        on_close=on_close,
    )


def loopback(*, goes_away_gracefully: bool = False, shutdown_wait_s: int = 30) -> NetworkConfig:
    return NetworkConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        goes_away_gracefully=goes_away_gracefully,
        shutdown_wait_s=shutdown_wait_s,
    )


async def read_command(reader: asyncio.StreamReader) -> Command:
    """The next frame of a raw stream."""
    size = await reader.readexactly(4)
    return frame.decode(size + await reader.readexactly(int.from_bytes(size, "big")))
