"""Listening sockets: at the address that is configured, or on ports that were held since they were chosen."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from rocketline.errors import ListenError
from rocketline.net.address import format_address

_ACCEPTS_PER_EVENT: Final = 1
"""asyncio takes one number for the backlog and for how often it accepts in a row. Were that a thousand, running out of
file descriptors would give a thousand lines in the log at once, and as many timers that try again."""
_TRIES_MAX: Final = 100
"""How many free ports are looked at for one whose neighbour is free, too."""

Place = tuple[int, str, tuple[Any, ...]]
"""A family of addresses, one of them, and what the system writes behind its port."""
Held = Sequence[socket.socket]
"""Bound sockets with one port, for each address of a host. Nobody else can have the port until they are closed."""


async def hold_ports(host: str, *, below: int) -> tuple[Held, Held]:
    """A free port and the one `below` it, held from now on; a server listens on them once it is ready to serve.

    Raises `ListenError`. Whoever gets them closes them.
    """
    try:
        places = await _places(host)
        for _ in range(_TRIES_MAX):
            if (held := _hold_pair(places, below)) is not None:
                return held
    except OSError as error:
        raise ListenError(format_address(host, 0), _problem(error)) from error
    raise ListenError(format_address(host, 0), f"no free port has a free one {below} below it")


async def listen(
    accept: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, held: Held, backlog: int
) -> list[asyncio.Server]:
    """Listen on what is `held`, or else at the address. Raises `ListenError`."""
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        try:
            if not held:
                listeners = [await loop.create_server(accept, host, port, backlog=_ACCEPTS_PER_EVENT)]
                stack.callback(listeners[0].close)
            else:
                listeners = []
                for bound in held:
                    # Only now: before, it would have let others have the port. Its connections pass it on, and as
                    # long as the system remembers one without it, no server could start again on this port.
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    listeners.append(await loop.create_server(accept, sock=bound, backlog=_ACCEPTS_PER_EVENT))
                    stack.callback(listeners[-1].close)
            for listener in listeners:
                _set_backlog(listener, backlog)
        except OSError as error:
            raise ListenError(format_address(host, port), _problem(error)) from error
        stack.pop_all()
    return listeners


async def _places(host: str) -> list[Place]:
    """The addresses to listen on: those of a name, all of this machine for an empty text."""
    lookup = asyncio.get_running_loop().getaddrinfo
    found = await lookup(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(ip), tuple(rest)) for family, *_, (ip, _, *rest) in found))


def _hold_pair(places: list[Place], below: int) -> tuple[Held, Held] | None:
    with ExitStack() as stack:
        try:
            first = _hold(stack, places, 0)
            second = _hold(stack, places, first[0].getsockname()[1] - below)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        stack.pop_all()
    return first, second


def _hold(stack: ExitStack, places: list[Place], port: int) -> list[socket.socket]:
    """A socket for each address, all with the same port: any free one if it is 0."""
    held = []
    for family, ip, rest in places:
        bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((ip, port, *rest))
        port = int(bound.getsockname()[1])
        held.append(bound)
    return held


def _set_backlog(listener: asyncio.Server, backlog: int) -> None:
    """Tell the system how many connections may wait to be accepted."""
    for listening in listener.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(backlog)


def _problem(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "this host name is not known"
    if error.errno == errno.EADDRINUSE:
        return "another program listens there already"
    return os.strerror(error.errno) if error.errno else str(error)
