"""Name servers: which one to ask, whom to ask next, and how to find them over HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from rocketline.client.options import ClientOptions, parse_name_servers
from rocketline.client.runtime.connections import Connections
from rocketline.clock import Clock
from rocketline.errors import (
    ConnectError,
    ConnectionLostError,
    NoNameServerError,
    NotNameServerError,
    RequestTimeoutError,
    TransportError,
)
from rocketline.net.address import parse_address
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

_EVERY_NAME_SERVER_KNOWS: Final = frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO})
"""And no broker does. Other requests may be too new for a name server."""
_DISCOVERY_PORT: Final = 8080
_DISCOVERY_S: Final = 3.0
_DISCOVERY_BYTES_MAX: Final = 64 * 1024


class NameServerChoice:
    """Which name server is asked: the same one while it works, the next one when it does not. Pure.

    The list is shuffled, so that clients spread over the servers.
    """

    def __init__(self, addresses: Sequence[str], dice: random.Random | None = None) -> None:
        self._dice = dice or random.Random()  # noqa: S311
        self.addresses: tuple[str, ...] = ()
        self.chosen: str | None = None
        self._next = 0
        self.replace(addresses)

    def replace(self, addresses: Sequence[str]) -> set[str]:
        """Take a new list; the order does not matter. Returns the addresses that are gone."""
        gone = set(self.addresses) - set(addresses)
        if set(addresses) != set(self.addresses):
            self.addresses = tuple(self._dice.sample(addresses, len(addresses)))
            if self.chosen in gone:
                self.chosen = None
        return gone

    def order(self) -> list[str]:
        """Each address once: the chosen one first, or the one whose turn it is."""
        if self.chosen is not None:
            self._next = self.addresses.index(self.chosen)
        return [*self.addresses[self._next :], *self.addresses[: self._next]]

    def works(self, address: str) -> None:
        """The name server answered: stay with it."""
        if address in self.addresses:
            self.chosen = address

    def failed(self, address: str) -> None:
        """The name server did not answer: the next call begins with the one after it."""
        if address in self.addresses:
            self.chosen = None
            self._next = (self.addresses.index(address) + 1) % len(self.addresses)


class NameServerCaller:
    """Asks name servers. A call tries each address once; only one that took the request and did not answer in time ends
    the call at once, as its time is over then."""

    def __init__(self, addresses: Sequence[str], connections: Connections, clock: Clock) -> None:
        self._choice = NameServerChoice(addresses)
        self._connections, self._clock = connections, clock

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._choice.addresses

    async def replace(self, addresses: Sequence[str]) -> None:
        """Ask these from now on, and close the connections to the others."""
        await self._connections.drop(self._choice.replace(addresses))

    async def ask(self, command: Command, timeout_s: float) -> Command:
        """The answer, whatever its code. Raises `NoNameServerError`, or what was wrong with the last one asked:
        a `TransportError` or `NotNameServerError`."""
        deadline_s = self._clock.monotonic() + timeout_s
        order = self._choice.order()
        problem: TransportError | NotNameServerError | None = None
        for tried, address in enumerate(order):
            try:
                # An address that nobody answers at must leave time for the others.
                left_s = max(deadline_s - self._clock.monotonic(), 0.0)
                await self._connections.connect(address, left_s / (len(order) - tried))
                answer = await self._connections.ask(address, command, deadline_s - self._clock.monotonic())
                check_name_server(address, command, answer)
            except (ConnectError, ConnectionLostError, RequestTimeoutError, NotNameServerError) as error:
                self._choice.failed(address)
                problem = error
                if isinstance(error, RequestTimeoutError):
                    break
            else:
                self._choice.works(address)
                return answer
        if isinstance(problem, ConnectError):
            advice = "no name server can be reached: look whether the address is right and the server runs"
            raise ConnectError(problem.address, f"{problem.problem}; {advice}") from problem
        raise problem or NoNameServerError()


def check_name_server(address: str, command: Command, answer: Command) -> None:
    """Raise `NotNameServerError` if whoever answered at `address` cannot be a name server."""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and command.code in _EVERY_NAME_SERVER_KNOWS:
        raise NotNameServerError(address, answer.remark)


def discovery_url(options: ClientOptions) -> str:
    """Where name servers are looked up. Java: MixAll.getWSAddr and DefaultTopAddressing.

    >>> discovery_url(ClientOptions(discovery_domain="ns.example", unit_name="U"))
    'http://ns.example:8080/rocketmq/nsaddr-U?nofix=1'
    """
    domain = options.discovery_domain
    host = domain if ":" in domain else f"{domain}:{_DISCOVERY_PORT}"
    unit = f"-{options.unit_name}?nofix=1" if options.unit_name.strip() else ""
    return f"http://{host}/rocketmq/{options.discovery_subgroup}{unit}"


async def discover(url: str, timeout_s: float = _DISCOVERY_S) -> tuple[str, ...]:
    """The name servers in the first line of what `url` gives. Raises `ConnectError`."""
    address, _, path = url.removeprefix("http://").partition("/")
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=_DISCOVERY_BYTES_MAX)
            try:
                # Version 1.0, so that the body comes in one piece and ends with the connection.
                writer.write(f"GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                answer = await reader.read(_DISCOVERY_BYTES_MAX)
                while more := await reader.read(_DISCOVERY_BYTES_MAX - len(answer)):
                    answer += more
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        raise ConnectError(url, f"no answer within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        raise ConnectError(url, str(error)) from error
    return parse_discovery(url, answer)


def parse_discovery(url: str, answer: bytes) -> tuple[str, ...]:
    """The addresses in an HTTP answer.

    >>> parse_discovery("http://d", b"HTTP/1.1 200 OK\\r\\nX: y\\r\\n\\r\\na:1;b:2\\nignored")
    ('a:1', 'b:2')
    """
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1] != b"200":
        raise ConnectError(url, f"answered {b' '.join(status).decode('latin-1')[:80]!r}, not 200")
    return parse_name_servers(body.decode("utf-8", "replace").strip().split("\n")[0].strip())
