"""What every client can be told: `ClientOptions`. Producers and consumers add their own options to it.

Options are keywords of the constructors, with Java's defaults. Durations are seconds and end in `_s`. All that is wrong
is found, and listed, when the client is made.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from rocketline.errors import ConfigError
from rocketline.net.address import parse_address
from rocketline.wire.acl import Credentials as Credentials
from rocketline.wire.command import Command

if TYPE_CHECKING:
    from ssl import SSLContext

DEFAULT_INSTANCE = "DEFAULT"
NAME_SERVERS_VARIABLE = "NAMESRV_ADDR"


class RpcHook(Protocol):
    """Sees every request of a client, also oneway ones. Java: RPCHook.

    It may add fields to `request.ext`; they are signed with the rest. An exception fails the request.
    """

    def before_request(self, address: str, request: Command) -> None: ...

    def after_response(self, address: str, request: Command, response: Command) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS towards name servers and brokers, by the paths of PEM files. Java: tls.client.*

    The server's certificate and host name are checked against `trust_path`, or the system's certificates without it.
    """

    trust_path: str = ""
    """The certificates to trust; empty: the system's. Java: tls.client.trustCertPath."""
    cert_path: str = ""
    """Our own certificate, for servers that ask for one. Java: tls.client.certPath."""
    key_path: str = ""
    """Its key. Java: tls.client.keyPath."""
    key_password: str = field(default="", repr=False)
    """If the key is encrypted. Java: tls.client.keyPassword."""
    verifies: bool = True
    """False takes any certificate: who listens in is not noticed. Java: tls.client.authServer, which is false."""


def option(default: Any, *, low: float | None = None, above: float | None = None, high: float | None = None) -> Any:
    """Declares a number with its bounds: at least `low`, more than `above`, at most `high`."""
    return field(default=default, metadata={"low": low, "above": above, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options that all clients share. Java: ClientConfig."""

    name_servers: tuple[str, ...] = ()
    """Where routes are asked for, each `host:port`. Empty: `discovery_domain` is asked. Java: namesrvAddr."""
    client_ip: str = ""
    """The first part of the client's id; empty: the address of the interface that leads outside. Java: clientIP."""
    instance_name: str = DEFAULT_INSTANCE
    """The second part of the client's id. The default becomes one that no other client has. Java: instanceName."""
    unit_name: str = ""
    """A part of the client's id, and of the discovery address. Java: unitName."""
    unit_mode: bool = False
    """Told to brokers in messages and heartbeats. Java: unitMode."""
    namespace: str = ""
    """Topics and groups are `namespace%name` on the wire, and `name` here. Java: namespace."""
    namespace_v2: str = ""
    """Sent with every request, for gateways; names stay as they are. Java: namespaceV2."""
    credentials: Credentials | None = None
    """Who signs the requests. Java: AclClientRPCHook."""
    rpc_hooks: tuple[RpcHook, ...] = ()
    """Called in this order for every request. Java: RPCHook."""
    tls: bool | Tls | SSLContext = False
    """True: servers are checked against the system's certificates; `Tls` names files; or a context. Java: useTLS."""
    vip_channel: bool = False
    """Send most requests to the broker's second port, the one two below. Java: vipChannelEnabled."""
    stream_requests: bool = False
    """Mark the client's id and all requests as a stream's. Java: enableStreamRequestType."""
    api_timeout_s: float = option(3.0, above=0)
    """For routes, heartbeats, member lists and farewells. Java: mqClientApiTimeout."""
    connect_timeout_s: float = option(3.0, above=0)
    """For one connection; it counts into the time of the call that needs it. Java: connectTimeoutMillis."""
    idle_close_s: float = option(120.0, above=0)
    """A connection without a byte in either direction is closed after this. Java: clientChannelMaxIdleTimeSeconds."""
    in_flight_max: int = option(65_535, low=1)
    """Requests that wait for an answer on one connection. Java: clientAsyncSemaphoreValue."""
    route_period_s: float = option(30.0, above=0)
    """How often routes are asked for. Java: pollNameServerInterval."""
    heartbeat_period_s: float = option(30.0, above=0)
    """How often brokers hear of us; after 120 s of silence they forget a client. Java: heartbeatBrokerInterval."""
    heartbeat_on_connect: bool = True
    """A new connection to a known broker begins with a heartbeat. Java: enableHeartbeatChannelEventListener."""
    offset_persist_period_s: float = option(5.0, above=0)
    """How often consumers save their offsets. Java: persistConsumerOffsetInterval."""
    pull_pause_s: float = option(1.0, low=0)
    """How long a queue rests after a failed pull. Java: pullTimeDelayMillsWhenException."""
    discovery_domain: str = ""
    """Who is asked for name servers, over HTTP, if none is given; `host` (port 8080) or `host:port`; empty: nobody.
    Java: rocketmq.namesrv.domain, which has a default that exists inside of one company only."""
    discovery_subgroup: str = "nsaddr"
    """The last part of that address. Java: rocketmq.namesrv.domain.subgroup."""

    def __post_init__(self) -> None:
        if problems := [*self._bound_problems(), *self.problems()]:
            raise ConfigError(problems)

    @property
    def is_name_stable(self) -> bool:
        """Whether a client must be called the same in every run: see `own_client_id`."""
        return False

    def problems(self) -> Iterator[str]:
        """What is wrong beyond bounds. Whoever extends it goes on with `yield from ClientOptions.problems(self)`."""
        for address in self.name_servers:
            try:
                parse_address(address)
            except ConfigError as error:
                yield f"name_servers: {error}"
        if self.namespace and self.namespace_v2:
            yield "namespace and namespace_v2 exclude each other: choose the one that your cluster uses"

    def _bound_problems(self) -> Iterator[str]:
        for declared in fields(self):
            low, above, high = (declared.metadata.get(bound) for bound in ("low", "above", "high"))
            value = getattr(self, declared.name)
            if (low, above, high) == (None, None, None) or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                yield f"{declared.name}={value!r}: a number is wanted"
            elif (low is not None and value < low) or (above is not None and value <= above):
                yield f"{declared.name}={value}: must be {f'at least {low}' if low is not None else f'above {above}'}"
            elif high is not None and value > high:
                yield f"{declared.name}={value}: must be at most {high}"


class ClientKeywords(TypedDict, total=False):
    """`ClientOptions` as keywords of a constructor; the name servers come first, without a keyword."""

    client_ip: str
    instance_name: str
    unit_name: str
    unit_mode: bool
    namespace: str
    namespace_v2: str
    credentials: Credentials | None
    rpc_hooks: tuple[RpcHook, ...]
    tls: bool | Tls | SSLContext
    vip_channel: bool
    stream_requests: bool
    api_timeout_s: float
    connect_timeout_s: float
    idle_close_s: float
    in_flight_max: int
    route_period_s: float
    heartbeat_period_s: float
    heartbeat_on_connect: bool
    offset_persist_period_s: float
    pull_pause_s: float
    discovery_domain: str
    discovery_subgroup: str


Options = TypeVar("Options", bound=ClientOptions)


def make_options(
    kind: type[Options],
    name_servers: str | Sequence[str] | None,
    keywords: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
) -> Options:
    """The options that a constructor was called with. Without name servers NAMESRV_ADDR names them.

    Raises `TypeError` for a keyword that does not exist and `ConfigError`, with all problems, for wrong values.

    >>> make_options(ClientOptions, "a:9876;b:9876", {"unit_name": "u"}).name_servers
    ('a:9876', 'b:9876')
    """
    known = {declared.name for declared in fields(kind)} - {"name_servers"}
    for unknown in keywords.keys() - known:
        nearest = difflib.get_close_matches(unknown, known, n=1)
        hint = f": did you mean {nearest[0]}?" if nearest else ""
        raise TypeError(f"there is no option {unknown}{hint}")
    given = environ.get(NAME_SERVERS_VARIABLE, "") if name_servers is None else name_servers
    return kind(name_servers=parse_name_servers(given), **keywords)


def parse_name_servers(given: str | Sequence[str]) -> tuple[str, ...]:
    """Each address once, in the order given. A URL stands for what follows its last slash, as in Java.

    >>> parse_name_servers("http://old/a:1;b:2; a:1")
    ('a:1', 'b:2')
    """
    parts = given.split(";") if isinstance(given, str) else given
    addresses = [part.strip().rpartition("/")[2] for part in parts]
    return tuple(dict.fromkeys(address for address in addresses if address))
