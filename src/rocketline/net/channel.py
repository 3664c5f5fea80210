"""One TCP connection, either end of it: many frames per read, one write for all that a read brought about.

Flow control, so that no peer can make us hold more than a bounded amount for it:

- What we write waits in the transport up to its high-water mark. Above it we handle no further request of the peer.
- Requests whose answers come later (`LATER`) are counted; at the bound we handle no further one until one is answered.
- A request that must not be handled yet stops the reading (`ReadGate` has the states). Until one comes we read on,
  because the peer may be stuck with its answers to our own requests: if both ends waited for the other to read, neither
  ever would. An answer that makes room lets it in with the next turn of the loop: requests are handled by what the
  loop calls, and by nobody who answers.
- One turn of the loop handles frames until 256 KiB of answers are made or 10 ms are over; the rest waits for the next
  turn, so that the transport can tell us that it is full, and so that other connections get theirs. Whoever needed
  10 ms stands in line with others who did before it is served again (`LongTurns`).
- Requests of our own are bounded by `Connection`.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeAlias, cast

from rocketline.clock import Clock
from rocketline.errors import (
    ConnectionLostError,
    LocalProtocolError,
    ProtocolError,
    RequestTimeoutError,
    RocketlineError,
)
from rocketline.hot import HotPath
from rocketline.net.preamble import Preamble
from rocketline.net.read_gate import ReadGate
from rocketline.net.tls import TlsLayer
from rocketline.net.turns import LONG_S, LongTurns
from rocketline.wire import frame, header_json
from rocketline.wire.codes import ResponseCode, SerializeType
from rocketline.wire.command import RESPONSE_FLAG, Command, response
from rocketline.wire.connection import Connection

_TURN_BYTES_MAX: Final = 256 * 1024
_TIMED_BYTES_MIN: Final = 8 * 1024
"""What the hot path takes of a read that is smaller is no long work, whatever it is."""
_LONG_BYTES: Final = 64 * 1024
"""A frame that is longer may bring work for a long turn."""
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_PREFIX: Final = struct.Struct(">II")
_EXPIRY_S_MIN: Final = 0.02
"""Requests whose time is over are looked for no more often than this."""
_FAIR_TIMEOUT_S: Final = 0.1
"""A request that had less time than this says nothing about its connection."""


class Later(Enum):
    """What a handler returns if the answer comes through `Channel.reply` at some later time."""

    LATER = 1


LATER: Final = Later.LATER
Outcome: TypeAlias = "Command | Later | None"
"""A handler's answer now, a promise of one, or deliberate silence."""
Dispatch: TypeAlias = "Callable[[Channel, Command], Outcome]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """The bounds of one connection."""

    frame_bytes_max: int = frame.FRAME_BYTES_MAX
    header_bytes_max: int = frame.FRAME_BYTES_MAX
    """Reading a header takes twenty times its size, and the loop's time; whoever serves strangers wants less."""
    in_flight_max: int = 65_535
    """Requests of ours that wait for an answer; one more raises `OverloadedError`."""
    unanswered_max: int = 16_384
    """Requests of the peer whose answers come later; with one more we stop reading. Pulls that wait for messages count,
    so these are the queues that a client can wait at over one connection; each takes about 2 KB."""
    write_high_bytes: int = 64 * 1024
    write_low_bytes: int = 32 * 1024
    closes_when_silent: bool = False
    """A request of ours whose time is over closes the connection, if not a byte came since it was sent: the way may be
    cut without either end having noticed, and only a new connection finds out."""


class Waiter(Protocol):
    """Who waits for an answer: a future, or whatever else can be told. It is told once, and on the loop."""

    def done(self) -> bool: ...

    def set_result(self, answer: Command, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...

    def exception(self) -> object: ...


_Deadline: TypeAlias = tuple[float, float, int]
"""Until when an answer is waited for and since when, by the owner's clock, and the code of the request."""


class Owner(Protocol):
    """Who a channel belongs to: the server that accepted it or the remote that dialled it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def limits(self) -> ChannelLimits: ...

    @property
    def read_buffer(self) -> memoryview:
        """Shared by all channels of one loop: it is filled and emptied within one callback."""
        ...

    @property
    def long_turns(self) -> LongTurns | None:
        """Shared likewise; None if nobody else waits, whatever a peer brings."""
        ...

    @property
    def dispatch(self) -> Dispatch: ...

    @property
    def hot_path(self) -> HotPath | None: ...

    @property
    def serialize_type(self) -> SerializeType: ...

    def channel_opened(self, channel: Channel) -> None: ...

    def channel_closed(self, channel: Channel, reason: Exception | None) -> None:
        """Called exactly once for every channel that was opened. A `ProtocolError` says how the peer misbehaved."""
        ...


class Channel(asyncio.BufferedProtocol):
    """One connection. Made by `Server` and `Remote`; handlers get it with each request."""

    __slots__ = (
        "_connection",
        "_deadlines",
        "_drained",
        "_expiry",
        "_expiry_due_s",
        "_gate",
        "_has_long_turn",
        "_is_flush_due",
        "_is_handling",
        "_is_slow",
        "_out",
        "_out_bytes",
        "_owner",
        "_preamble",
        "_reader",
        "_reason",
        "_tls",
        "_transport",
        "established",
        "is_leaving",
        "last_active",
        "peer",
        "read_s",
    )

    def __init__(self, owner: Owner, *, preamble: Preamble | None = None, tls: TlsLayer | None = None) -> None:
        self._owner = owner
        self._preamble, self._tls = preamble, tls
        self._reader = frame.FrameReader(owner.limits.frame_bytes_max, owner.limits.header_bytes_max)
        self._connection: Connection[Waiter] = Connection(
            "", in_flight_max=owner.limits.in_flight_max, serialize_type=owner.serialize_type
        )
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._gate = ReadGate(owner.limits.unanswered_max)
        self._is_flush_due = self._is_handling = False
        self._is_slow = False  # what it asked for last took long: it stands in line with others of its kind
        self._has_long_turn = False
        self._drained: asyncio.Future[None] | None = None
        self._deadlines: dict[int, _Deadline] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_due_s = math.inf
        self._reason: Exception | None = None
        self.established: asyncio.Future[None] | None = None
        """Set by whoever waits for the TLS handshake of a dialled connection."""
        self.is_leaving = False
        """The peer answered GO_AWAY: ask elsewhere. The channel closes with the last answer that is due on it."""
        self.last_active = owner.clock.monotonic()
        self.read_s = self.last_active
        """When the bytes that are being handled were read; if we held them back ourselves, when we let them in.
        Nothing is read while a request waits to be handled."""
        self.peer = ""
        """The other end as `host:port`: the client's own address where a balancer named it."""

    def __repr__(self) -> str:
        return f"<Channel {self.peer} {'closed' if self.is_closed else 'open'}>"

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_congested(self) -> bool:
        """The peer does not take what was written to it: whoever answers later had better make it short."""
        return self._gate.is_write_paused and not self.is_closed

    @property
    def in_flight(self) -> int:
        """Requests of ours that wait for an answer."""
        return self._connection.in_flight

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if (
            self._gate.is_closed
        ):  # whoever dialled gave up just before: uvloop has closed its end, and would not tell us
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)
        limits = self._owner.limits
        self._transport.set_write_buffer_limits(limits.write_high_bytes, limits.write_low_bytes)
        self._name_peer(_endpoint(transport.get_extra_info("peername")))
        self._owner.channel_opened(self)
        if self._tls is not None:
            self._receive(b"")  # in TLS the client speaks first

    def set_socket_buffers(self, send_bytes: int, receive_bytes: int) -> None:
        """The sizes of the system's own buffers; 0 leaves what it chose."""
        sock = cast("asyncio.Transport", self._transport).get_extra_info("socket")
        for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
            if size:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return  # it was given up before it was made
        self._gate.close()
        self._out.clear()
        self._deadlines.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        reason = self._reason or exc
        problem = f"the connection closed{f': {reason}' if reason else ''}"
        for waiter in (*self._connection.close(), self._drained, self.established):
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionLostError(self.peer, problem))  # raised in many places: to each its own
                waiter.exception()  # marks it as seen: its owner may have been cancelled meanwhile
        self._owner.channel_closed(self, reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._owner.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        owner = self._owner
        self.last_active = self.read_s = owner.clock.monotonic()
        data = bytes(owner.read_buffer[:nbytes])
        if self._preamble is not None or self._tls is not None:
            self._receive(data)
        elif owner.hot_path is None or self._reader.waiting_bytes or self._gate.is_full or self._is_slow:
            self._reader.feed(data)
            self._handle_frames()
        else:
            self._take(owner.hot_path, data)

    def pause_writing(self) -> None:
        self._gate.is_write_paused = True

    def resume_writing(self) -> None:
        self._gate.is_write_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self._look_for_room()

    # --- receiving

    def _receive(self, data: bytes) -> None:
        """The way in for connections that are not, or not yet known to be, plain."""
        try:
            if self._preamble is not None:
                data = self._preamble.receive(data)
                if not self._preamble.is_decided:
                    return
                if self._preamble.source is not None:
                    self._name_peer(self._preamble.source)
                self._tls, self._preamble = self._preamble.layer, None
            if self._tls is not None:
                data = self._decrypt(self._tls, data)
        except RocketlineError as error:
            self._fail(error)
            return
        self._reader.feed(data)
        self._handle_frames()
        if self._tls is not None and self._tls.is_finished:
            self.close()

    def _decrypt(self, tls: TlsLayer, data: bytes) -> bytes:
        try:
            data = tls.receive(data)
        finally:
            # Also after a failure: the alert tells the peer what was wrong.
            if output := tls.take_output():
                self._write(output)
        if tls.is_established and self.established is not None and not self.established.done():
            self.established.set_result(None)
        return data

    def _take(self, hot_path: HotPath, data: bytes) -> None:
        """Let the hot path have what was read: the short way for what comes most often."""
        self._is_handling = True
        try:
            at, replies, later = hot_path(self, data, 0, _TURN_BYTES_MAX)
        finally:
            self._is_handling = False
        self._gate.unanswered += later
        if len(data) >= _TIMED_BYTES_MIN and self._owner.clock.monotonic() >= self.read_s + LONG_S:
            self._is_slow = True
        if at == len(data) and not self._out:
            if replies:
                self._send(replies)
            return
        if replies:
            self._out.append(replies)
            self._out_bytes += len(replies)
        if at < len(data):
            self._reader.feed(data[at:])
            self._handle_frames(is_cold=True)
        else:
            self._flush()

    def _handle_frames(self, *, is_cold: bool = False) -> None:
        """Handle the frames that are whole, until a bound is reached; write what that brought about in one go.

        `is_cold`: the hot path has seen the first of them already and does not want it.
        """
        if self._must_stand_in_line:
            self._end_turn(is_long=True)
            return
        gate, reader, hot_path, clock = self._gate, self._reader, self._owner.hot_path, self._owner.clock
        end_s, is_long = clock.monotonic() + LONG_S, self._is_slow
        self._is_handling = True
        try:
            if hot_path is None:
                self._take_answers()
            while gate.is_open:
                if hot_path is not None and not is_cold and not gate.is_full:
                    room = _TURN_BYTES_MAX - self._out_bytes
                    at = reader.at
                    reader.at, replies, later = hot_path(self, reader.data, at, room)
                    if replies:
                        self._out.append(replies)
                        self._out_bytes += len(replies)
                    gate.unanswered += later
                    is_long = clock.monotonic() >= end_s if reader.at > at else is_long
                is_cold = False
                if self._out_bytes < _TURN_BYTES_MAX:
                    whole = reader.take()
                    if whole is None:
                        break
                    self._handle(whole)
                    is_long = clock.monotonic() >= end_s
                if is_long or self._out_bytes >= _TURN_BYTES_MAX:
                    self._end_turn(is_long=is_long)
        except ProtocolError as error:
            self._fail(error)
        finally:
            self._is_handling = False
            self._is_slow = is_long
        if self._out_bytes:
            self._flush()

    def _take_answers(self) -> None:
        """Hand on the answers at the head of what was read: the short way for a client with many requests in flight.

        At the first frame that is no whole answer in JSON it stops, and that one takes the ordinary way.
        """
        reader, decode = self._reader, header_json.decode
        data, at = reader.data, reader.at
        last = len(data) - 8
        try:
            while at <= last:
                size, header_bytes = _PREFIX.unpack_from(data, at)
                header_end, end = at + 8 + header_bytes, at + 4 + size
                if not header_end <= end <= len(data):  # cut short, broken, or a header that is no JSON
                    break
                answer = decode(data[at + 8 : header_end], data[header_end:end])
                if not answer.flag & RESPONSE_FLAG:
                    break
                at = end
                self._handle_answer(answer)
        except ProtocolError:
            pass
        reader.at = at

    def _handle(self, whole: bytes) -> None:
        command = frame.decode(whole)
        if command.flag & RESPONSE_FLAG:
            self._handle_answer(command)
        elif self._gate.is_full:
            self._reader.put_back(whole)
            self._gate.hold()
            self._pause_reading()
        else:
            self._handle_request(command)

    def _handle_answer(self, answer: Command) -> None:
        waiter = self._connection.waiter_of(answer)
        if waiter is None:
            return  # nobody waits for it any more
        self._deadlines.pop(answer.opaque, None)
        if answer.code == _GO_AWAY:
            self.is_leaving = True
        if not waiter.done():
            waiter.set_result(answer)
        if self.is_leaving:
            self._leave()

    def _handle_request(self, request: Command) -> None:
        outcome = self._owner.dispatch(self, request)
        if outcome is LATER:
            self._gate.unanswered += 1
        elif isinstance(outcome, Command) and not request.is_oneway:
            self._send(self._encode_reply(request, outcome))

    # --- flow control

    @property
    def _must_stand_in_line(self) -> bool:
        may_be_long = self._is_slow or self._reader.is_next_longer(_LONG_BYTES)
        return may_be_long and not self._has_long_turn and self._owner.long_turns is not None

    def _end_turn(self, *, is_long: bool) -> None:
        if not self._gate.end_turn():
            return
        self._pause_reading()
        if is_long and self._owner.long_turns is not None:
            self._owner.long_turns.wait(self._begin_long_turn)
        else:
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Handle what was read already, then read on. Called by the loop, or by the line of those who take long."""
        if self._gate.begin_turn() and not self.is_closed:
            self._handle_frames()
            if self._gate.is_open and not self.is_closed:
                cast("asyncio.Transport", self._transport).resume_reading()

    def _begin_long_turn(self) -> None:
        self._has_long_turn = True
        try:
            self._begin_turn()
        finally:
            self._has_long_turn = False

    def _look_for_room(self) -> None:
        """An answer has left, or the peer takes bytes again: let the request in that was held for want of room.

        In a turn of its own: whoever answers may be in the midst of a commit, and the request would begin another.
        """
        if self._gate.let_in():
            self.read_s = self._owner.clock.monotonic()
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _pause_reading(self) -> None:
        if not self.is_closed:
            cast("asyncio.Transport", self._transport).pause_reading()

    # --- sending

    def reply(self, request: Command, answer: Command) -> None:
        """Answer a request for which the handler returned `LATER`. On a closed connection this does nothing."""
        self._gate.unanswered -= 1
        if not self.is_closed:
            if not request.is_oneway:
                self._send(self._encode_reply(request, answer))
            self._look_for_room()

    def reply_bytes(self, replies: bytes, count: int) -> None:
        """Send the encoded answers to `count` requests for which the hot path promised them."""
        self._gate.unanswered -= count
        if self.is_closed:
            return
        if self._is_handling or self._out_bytes or self._tls is not None:
            self._send(replies)
        else:  # they come once a turn for each connection, so there is nothing to wait for
            cast("asyncio.Transport", self._transport).write(replies)
        if not self._gate.is_open:
            self._look_for_room()

    def _encode_reply(self, request: Command, answer: Command) -> bytes:
        try:
            return self._connection.reply(request, answer)
        except LocalProtocolError as error:  # too big, or not to be written in this header encoding
            return self._connection.reply(request, response(ResponseCode.SYSTEM_ERROR, str(error)))

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Ask the peer and wait for its answer, whatever its code.

        Raises `RequestTimeoutError`, `ConnectionLostError` or `OverloadedError`.
        """
        if self._gate.is_write_paused:
            deadline_s = self._owner.clock.monotonic() + timeout_s
            await self.wait_writable(timeout_s)
            timeout_s = max(deadline_s - self._owner.clock.monotonic(), 0.0)
        answer = self.begin(command, timeout_s)
        opaque = command.opaque  # the same command may be sent, and numbered, elsewhere meanwhile
        try:
            return await answer
        except asyncio.CancelledError:
            self._forget(opaque)
            raise

    def begin(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Ask, and return at once; the future gets the answer, whatever its code, or the error of `request`.

        The way for many requests in flight: it takes no task and no timer of its own. It does not wait for room either,
        so ask `is_congested` before, and `wait_writable`. Raises `ConnectionLostError` or `OverloadedError`.
        """
        self._check_open()
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._send(self._connection.request(command, answer))
        self._limit_wait(command.opaque, command.code, timeout_s)
        return answer

    def expect(self, waiter: Waiter, code: int, timeout_s: float) -> int:
        """The same for a request whose frame the caller makes and gives to `send_frame` at once: its number.

        `waiter` gets what the future would get.
        """
        self._check_open()
        opaque = self._connection.expect(waiter)
        self._limit_wait(opaque, code, timeout_s)
        return opaque

    def send_frame(self, data: bytes) -> None:
        """Send a frame together with whatever else this turn of the loop produces."""
        self._send(data)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ConnectionLostError(self.peer, "the connection is closed")

    def _limit_wait(self, opaque: int, code: int, timeout_s: float) -> None:
        now_s = self._owner.clock.monotonic()
        due_s = now_s + max(timeout_s, 0.0)
        self._deadlines[opaque] = due_s, now_s, code
        if due_s < self._expiry_due_s - _EXPIRY_S_MIN:
            self._set_expiry(timeout_s)

    def expire(self) -> None:
        """Fail the requests whose time is over. This happens by itself; a clock that was turned by hand calls it."""
        now_s, is_silent = self._owner.clock.monotonic(), False
        for opaque, (due_s, asked_s, code) in [entry for entry in self._deadlines.items() if entry[1][0] <= now_s]:
            given_s = due_s - asked_s
            is_silent |= self.read_s <= asked_s and given_s >= _FAIR_TIMEOUT_S
            waiter = self._forget(opaque)
            if waiter is not None and not waiter.done():
                problem = f"no answer to request {code} in {given_s:g} s"
                waiter.set_exception(RequestTimeoutError(self.peer, problem))
                waiter.exception()  # marks it as seen: its owner may have been cancelled meanwhile
        if is_silent and self._owner.limits.closes_when_silent:
            self.abort()
        elif self._deadlines:
            self._set_expiry(min(self._deadlines.values())[0] - now_s)

    def _set_expiry(self, delay_s: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        delay_s = max(delay_s, _EXPIRY_S_MIN)
        self._expiry = asyncio.get_running_loop().call_later(delay_s, self._look_for_expired)
        self._expiry_due_s = self._owner.clock.monotonic() + delay_s

    def _look_for_expired(self) -> None:
        self._expiry, self._expiry_due_s = None, math.inf
        self.expire()

    def _forget(self, opaque: int) -> Waiter | None:
        self._deadlines.pop(opaque, None)
        waiter = self._connection.forget(opaque)
        if self.is_leaving:
            self._leave()
        return waiter

    def _leave(self) -> None:
        if not self._connection.in_flight:
            self.close()

    async def send_oneway(self, command: Command, timeout_s: float) -> None:
        """Send a request that nobody answers; wait only while the connection cannot take it."""
        await self.wait_writable(timeout_s)
        self._send(self._connection.oneway(command))

    async def wait_writable(self, timeout_s: float) -> None:
        """Return once the peer takes bytes. Raises `RequestTimeoutError` or `ConnectionLostError`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._writable()
        except TimeoutError:
            raise RequestTimeoutError(self.peer, f"the peer took no bytes for {max(timeout_s, 0.0):g} s") from None

    async def _writable(self) -> None:
        while self._gate.is_write_paused and not self.is_closed:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self.is_closed:
            raise ConnectionLostError(self.peer, "the connection is closed")

    def _send(self, data: bytes) -> None:
        """Write together with whatever else this turn of the loop produces, unless that is much already."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._is_handling:
            return
        if self._out_bytes >= _TURN_BYTES_MAX:
            self._flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if not self._out_bytes:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        self.last_active = self._owner.clock.monotonic()
        self._write(data if self._tls is None else self._tls.send(data))

    def _write(self, data: bytes) -> None:
        # On a closing transport uvloop raises and asyncio logs.
        if not self.is_closed:
            cast("asyncio.Transport", self._transport).write(data)

    # --- closing

    def close(self) -> None:
        """Close once what was written has gone out."""
        self._flush()
        if self._tls is not None:
            self._write(self._tls.close())
        self._gate.close()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what the peer has not taken is dropped."""
        self._gate.close()
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> None:
        """Whoever dialled does not want it any more, whether it was made or not."""
        self.abort()
        if self._transport is not None:
            # uvloop closes what it was cancelled over: such a transport neither says so nor calls `connection_lost`.
            self.connection_lost(None)
            self._transport = None

    def _fail(self, reason: Exception) -> None:
        """The peer broke the rules: it loses this connection, and nothing else happens."""
        # Its traceback leads back to this channel: a circle for each broken peer, which only the collector would break.
        reason.__traceback__ = reason.__context__ = reason.__cause__ = None
        self._reason = reason
        self.close()

    def _name_peer(self, address: str) -> None:
        self.peer = self._connection.address = address


def _endpoint(address: object) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ""
