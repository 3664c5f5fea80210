"""A name server and broker that says what a test tells it to, and remembers everything it was asked.

    async with ScriptedPeer(clock=clock) as peer:
        peer.route("orders", queues=4)
        peer.on(RequestCode.SEND_MESSAGE_V2).reply(code=2, remark="busy").default()
        ...                                     # a client with the name server peer.address sends a message
        first, second = peer.requests(RequestCode.SEND_MESSAGE_V2)

Without a script a request is answered as `scripted_broker.ScriptedBroker` says: routes, heartbeats, offsets, locks,
sends and pulls work. Several peers are several brokers: `name_server.route("orders", {"a": peer_a, "b": peer_b})`.

The peer lives on the test's loop. A blocking client is called beside it: `await asyncio.to_thread(producer.send, …)`.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from rocketline.clock import Clock, SystemClock
from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.config import NetworkConfig, TlsConfig
from rocketline.net.dispatch import Dispatcher
from rocketline.net.server import Server
from rocketline.testing.scripted_broker import Brokers, Received, ScriptedBroker
from rocketline.testing.server_process import LOOPBACK
from rocketline.wire import bodies, headers
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command, response
from rocketline.wire.headers import Header

_TIMEOUT_S: Final = 10.0
"""How long `received` waits in real time: long enough for a busy machine, short enough to see a failing test."""

Say = Callable[[Received], Outcome]
"""What one step of a script does: an answer, silence (None), or `LATER` after it kept the request for itself."""


@dataclass(slots=True)
class _Step:
    say: Say
    left: int


class Script:
    """What a peer does with requests of one code, step by step. Each step serves `times` requests; the last one stays.

    >>> script = Script(lambda received: None).reply(code=2, times=2).never()
    >>> script.steps_left
    3
    """

    def __init__(self, default: Say) -> None:
        self._default = default
        self._steps: deque[_Step] = deque()
        self._held: list[tuple[Received, Say]] = []

    @property
    def steps_left(self) -> int:
        """How many requests it takes until the last step is used up once; 0 when the script has been played."""
        return sum(max(step.left, 0) for step in self._steps)

    def reply(
        self,
        header: Header | Mapping[str, str] | None = None,
        body: bytes | object = b"",
        *,
        code: int = 0,
        remark: str | None = None,
        times: int = 1,
    ) -> Self:
        """Answer with these fields and this body, which may be one of the dataclasses in `wire.bodies`."""
        ext = headers.encode(header) if isinstance(header, Header) else dict(header or {})
        data = body if isinstance(body, bytes) else bodies.encode(body)
        return self.call(lambda received: response(code, remark, ext=dict(ext), body=data), times=times)

    def default(self, *, times: int = 1) -> Self:
        """Answer as if there were no script."""
        return self.call(self._default, times=times)

    def never(self, *, times: int = 1) -> Self:
        """Do not answer, and keep the connection."""
        return self.call(lambda received: None, times=times)

    def drop(self, *, times: int = 1) -> Self:
        """Do not answer, and close the connection."""
        return self.call(_drop, times=times)

    def delay(self, seconds: float, say: Say | None = None, *, times: int = 1) -> Self:
        """Answer, as if there were no script or with `say`, after so many seconds of the loop's time."""
        return self.call(functools.partial(_say_later, say or self._default, seconds), times=times)

    def hold(self, say: Say | None = None, *, times: int = 1) -> Self:
        """Answer, as if there were no script or with `say`, once the test calls `release`."""

        def keep(received: Received) -> Outcome:
            self._held.append((received, say or self._default))
            return LATER

        return self.call(keep, times=times)

    def call(self, say: Say, *, times: int = 1) -> Self:
        """Answer what `say` returns."""
        self._steps.append(_Step(say, times))
        return self

    def release(self) -> None:
        """Answer everything that `hold` holds."""
        held, self._held = self._held, []
        for received, say in held:
            _give(received, say(received))

    def play(self, received: Received) -> Outcome:
        """The next step; what there would be without a script if it has none."""
        while len(self._steps) > 1 and not self._steps[0].left:
            self._steps.popleft()
        if not self._steps:
            return self._default(received)
        step = self._steps[0]
        step.left = max(step.left - 1, 0)
        return step.say(received)


class ScriptedPeer:
    """A double of a name server, a broker, or both, on a loopback port. Use it as `async with`."""

    def __init__(
        self,
        *,
        broker_name: str = "broker-a",
        port: int = 0,
        clock: Clock | None = None,
        tls: TlsConfig | None = None,
        serialize_type: SerializeType = SerializeType.JSON,
    ) -> None:
        self.clock = clock or SystemClock()
        self.broker = ScriptedBroker(broker_name)
        """What it answers by itself, and the tables behind that: offsets, members, locks, stored messages."""
        self.received: list[Received] = []
        """All requests since the start, or since `forget`."""
        self._port, self._tls, self._serialize_type = port, tls or TlsConfig(), serialize_type
        self._scripts: dict[int, Script] = {}
        self._arrived = asyncio.Event()
        self._server: Server | None = None
        self._spoke_last: Channel | None = None
        self.connections_opened = 0
        """How many connections were ever made to it."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen: on the same port as before, if it was stopped."""
        network = NetworkConfig(bind_address=LOOPBACK, listen_port=self._port, serialize_type=self._serialize_type)
        log = Throttle(self.clock, name=__name__)
        server = _CountingServer(network, self._tls, _Script(self._play, log), log=log, clock=self.clock)
        server.count = self._count
        self._server = await server.__aenter__()
        self._port = self._server.port
        self.broker.address = self._server.address

    async def stop(self) -> None:
        """Close every connection and listen no more: from now on connections are refused."""
        if self._server is not None:
            await self._server.close()
            self._server = None

    @property
    def address(self) -> str:
        return self.broker.address

    @property
    def port(self) -> int:
        return self._port

    @property
    def connections(self) -> list[Channel]:
        """The open connections."""
        return [] if self._server is None else list(self._server.channels)

    # --- what it says

    def on(self, code: int) -> Script:
        """A new script for requests of this code, in place of an older one."""
        script = self._scripts[code] = Script(self.broker.answer)
        return script

    def route(
        self,
        topic: str,
        brokers: Brokers | None = None,
        *,
        queues: int = 4,
        read_queues: int | None = None,
        perm: int = 6,
        order: str | None = None,
    ) -> None:
        """From now on the topic lies on `brokers`: a name each, with an address, a peer, or addresses by broker id.

        Without `brokers` it lies on this peer.
        """
        self.broker.route(topic, brokers, queues=queues, read_queues=read_queues, perm=perm, order=order)

    def close_connections(self) -> None:
        """Close every connection from this side; it listens on."""
        for channel in self.connections:
            channel.abort()

    async def ask(self, code: int, header: Header | None = None, body: bytes | object = b"") -> Command:
        """Ask the client that spoke last, and wait for its answer."""
        return await self._client().request(_command(code, header, body), _TIMEOUT_S)

    async def tell(self, code: int, header: Header | None = None, body: bytes | object = b"") -> None:
        """Tell the client that spoke last something that is not answered."""
        await self._client().send_oneway(_command(code, header, body), _TIMEOUT_S)

    def _client(self) -> Channel:
        assert self._spoke_last is not None, "no client has said anything yet"
        return self._spoke_last

    # --- what it heard

    def requests(self, code: int) -> list[Received]:
        """The requests of this code so far, in the order of their arrival."""
        return [received for received in self.received if received.code == code]

    def forget(self) -> None:
        """Begin the record anew; scripts and tables stay."""
        self.received.clear()

    async def wait_for(self, code: int, count: int = 1, *, timeout_s: float = _TIMEOUT_S) -> list[Received]:
        """All requests of this code, once there are at least `count`. Raises `AssertionError` if they do not come."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(found := self.requests(code)) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            heard = ", ".join(str(received.code) for received in self.received) or "nothing"
            raise AssertionError(
                f"{count} requests of code {code} expected, {len(self.requests(code))} came; heard: {heard}"
            ) from None
        return found

    def _play(self, channel: Channel, request: Command) -> Outcome:
        received = Received(channel, request, self.clock.monotonic(), self.clock.wall_ms())
        self.received.append(received)
        self._spoke_last = channel
        self._arrived.set()
        script = self._scripts.get(request.code)
        return self.broker.answer(received) if script is None else script.play(received)

    def _count(self) -> None:
        self.connections_opened += 1


class _Script(Dispatcher):
    """What a `Server` dispatches to, with one handler for all codes."""

    def __init__(self, play: Callable[[Channel, Command], Outcome], log: Throttle) -> None:
        super().__init__({}, log)
        self._play = play

    def __call__(self, channel: Channel, request: Command) -> Outcome:
        return self._play(channel, request)


class _CountingServer(Server):
    count: Callable[[], None]

    def channel_opened(self, channel: Channel) -> None:
        super().channel_opened(channel)
        self.count()


def _command(code: int, header: Header | None, body: bytes | object) -> Command:
    data = body if isinstance(body, bytes) else bodies.encode(body)
    return Command(code, headers.encode(header) if header else {}, data)


def _drop(received: Received) -> Outcome:
    received.channel.abort()
    return None


def _say_later(say: Say, seconds: float, received: Received) -> Outcome:
    asyncio.get_running_loop().call_later(seconds, lambda: _give(received, say(received)))
    return LATER


def _give(received: Received, outcome: Outcome) -> None:
    if isinstance(outcome, Command):
        received.channel.reply(received.command, outcome)
