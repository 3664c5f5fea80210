"""Connections for threads that wait: a plain blocking socket for the time of one call, out of a pool.

A call through the portal's loop wakes two threads and costs up to a quarter of a millisecond; a thread that writes and
reads a socket of its own needs neither. Heartbeats stay on the loop: brokers know these connections by no client id.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import ssl
import struct
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rocketline.client.sync.resolving import resolve
from rocketline.clock import Clock, SystemClock
from rocketline.errors import (
    ClosedError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ForkedError,
    ProtocolError,
    RequestTimeoutError,
    ResponseError,
    TransportError,
)
from rocketline.net.address import parse_address
from rocketline.net.tls import TlsLayer
from rocketline.wire import frame
from rocketline.wire.codes import ResponseCode, SerializeType
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, response

IDLE_S: Final = 120.0
_READ_BYTES: Final = 64 * 1024
_FIRST_READ_BYTES: Final = 4096
"""Most answers are short, and memory that is not taken need not be fetched."""
_FRESH_S: Final = 1.0
"""A connection that was used so lately is not looked at before it is used again."""
_SENT_AT_ONCE_BYTES: Final = 64 * 1024
"""The system takes so much without waiting for the peer."""
_OPAQUE_MASK: Final = 2**31 - 1
_TRIAL_CALLS: Final = 16
"""Of so many calls that looked for their answers half must have seen them come, or looking pauses."""
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 10.0
"""The looking pauses for the first at first, and twice as long each time, up to the second."""
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_TIMEVAL: Final = struct.Struct("ll")


class BlockingConnection:
    """One connection, used by one thread at a time. After any error it must be closed: its next bytes are not known."""

    def __init__(
        self,
        address: str,
        *,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        clock: Clock,
        serialize_type: SerializeType,
        busy_wait_s: float = 0.0,
    ) -> None:
        """Dial, and shake hands if `tls` is given. For `busy_wait_s` see `BusyPoll`. Raises `ConnectError`."""
        try:
            host, port = parse_address(address)
        except ConfigError as error:  # brokers may register any text
            raise ConnectError(address, str(error)) from None
        self.address = address
        self.used_s = 0.0
        """When it was last used; 0 if it is new."""
        self._clock, self._serialize_type = clock, serialize_type
        self._wait_ms = 0
        self._busy_poll = BusyPoll(busy_wait_s)
        self._reader = frame.FrameReader()
        self._tls: TlsLayer | None = None
        end_s = clock.monotonic() + timeout_s
        try:
            self._socket = _dial(host, port, timeout_s)
        except TimeoutError:
            raise ConnectError(address, f"no connection within {timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # the latter is what some host names give
            raise ConnectError(address, getattr(error, "strerror", None) or str(error)) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)
            if tls is not None:
                self._shake_hands(TlsLayer(tls, server_hostname=host), end_s)
        except (TransportError, ProtocolError, OSError) as error:
            self.close()
            raise ConnectError(address, getattr(error, "problem", str(error))) from error
        except BaseException:
            self.close()
            raise

    def ask(self, data: bytes, opaque: int, timeout_s: float, end_s: float, *, is_alone: bool = False) -> Command:
        """Send a request, the frame `data`, and wait for its answer, whatever its code.

        `end_s` is when `timeout_s` will be over. A caller who `is_alone` may wait busily for a moment, see `BusyPoll`.
        Raises `TransportError` or `ProtocolError`.
        """
        self._limit_waits(timeout_s)
        if self._tls is not None or len(data) > _SENT_AT_ONCE_BYTES:
            self._write(data, end_s)
            received = self._read()
        else:
            # The usual case without detours: after a wait the code is cold, and each call costs ten times its usual.
            try:
                self._socket.sendall(data)
                received = (is_alone and self._busy_poll.watch(self._socket)) or self._socket.recv(_FIRST_READ_BYTES)
            except OSError as error:
                raise self._failure(error, "no answer") from error
            if not received:
                raise self._lost(None)
        if int.from_bytes(received[:4], "big") + 4 == len(received) > 8 and not self._reader.waiting_bytes:
            command = frame.decode(received)
            if command.opaque == opaque and command.flag & RESPONSE_FLAG:
                return command
        self._reader.feed(received)
        return self._next_answer(opaque, end_s)

    def receive(self, end_s: float) -> Command:
        """The next answer, to whichever request: for callers who `tell` several before they wait for any."""
        return self._next_answer(None, end_s)

    def receive_bytes(self, end_s: float) -> bytes:
        """What came next, decrypted and not cut into frames; under TLS it may be nothing of use yet."""
        self._limit_waits(end_s - self._clock.monotonic())
        return self._read()

    def _next_answer(self, opaque: int | None, end_s: float) -> Command:
        while True:
            whole = self._reader.take()
            if whole is None:
                self._reader.feed(self.receive_bytes(end_s))
                continue
            command = frame.decode(whole)
            if not command.flag & RESPONSE_FLAG:
                self._refuse(command, end_s)
            elif opaque is None or command.opaque == opaque:
                return command

    def tell(self, data: bytes, timeout_s: float) -> None:
        """Send a request that nobody answers."""
        self._limit_waits(timeout_s)
        self._write(data, self._clock.monotonic() + timeout_s)

    def is_quiet(self) -> bool:
        """Nothing came in while nobody waited; if something did, it is most likely the peer's farewell."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        if self._tls is not None:
            with suppress(OSError):
                self._socket.sendall(self._tls.close())
        self._socket.close()

    def _refuse(self, request: Command, end_s: float) -> None:
        """Peers ask on connections that sent heartbeats; should one ask here, it is told that nobody is in."""
        if not request.is_oneway:
            answer = response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "nobody answers on this connection")
            data = frame.encode(replace(answer, opaque=request.opaque, serialize_type=self._serialize_type))
            self._write(data, end_s)

    def _shake_hands(self, tls: TlsLayer, end_s: float) -> None:
        data = b""
        while True:
            try:
                plain = tls.receive(data)
            finally:
                self._socket.sendall(tls.take_output())  # also after a failure: the alert tells what was wrong
            if tls.is_established:
                break
            self._limit_waits(end_s - self._clock.monotonic())
            data = self._read()
        self._tls = tls
        self._reader.feed(plain)

    # --- the socket

    def _limit_waits(self, timeout_s: float) -> None:
        """How long one read or write may take. The system keeps the time: Python's own timeouts poll before each."""
        if timeout_s <= 0:
            raise RequestTimeoutError(self.address, "no answer in time")
        wait_ms = int(timeout_s * 1000) + 1  # never too short, and the same for calls whose time is nearly the same
        if wait_ms != self._wait_ms:
            limit = _TIMEVAL.pack(wait_ms // 1000, wait_ms % 1000 * 1000)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._wait_ms = wait_ms

    def _write(self, data: bytes, end_s: float) -> None:
        """Send all of it. The system's limit is for one wait, and a peer that is slow has us wait many times."""
        rest = memoryview(data if self._tls is None else self._tls.send(data))
        try:
            while rest:
                rest = rest[self._socket.send(rest) :]
                self._limit_waits(end_s - self._clock.monotonic())
        except OSError as error:
            raise self._failure(error, "the peer took no bytes") from error

    def _read(self) -> bytes:
        """What came, decrypted; it may be nothing of use yet."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise self._failure(error, "no answer") from error
        if not data:
            raise self._lost(None)
        return data if self._tls is None else self._tls.receive(data)

    def _failure(self, error: OSError, meanwhile: str) -> TransportError:
        if isinstance(error, BlockingIOError):
            return RequestTimeoutError(self.address, f"{meanwhile} in {self._wait_ms / 1000:g} s")
        return self._lost(error)

    def _lost(self, error: OSError | None) -> ConnectionLostError:
        reason = f": {error.strerror or error}" if error else ""
        return ConnectionLostError(self.address, f"the connection closed{reason}")


class BusyPoll:
    """Looks for an answer again and again for a moment, before the thread goes to sleep over it.

    An answer from nearby comes in a tenth of a millisecond, and a processor that fell asleep takes as long to come
    back. Where answers take longer than the moment it pauses, and tries again at times, for a few calls: the first
    ones of a row are slower, as the other processors wake up.
    """

    def __init__(self, moment_s: float) -> None:
        self._moment_s = moment_s
        self._pause_s, self._pauses_until_s = _PAUSE_S, 0.0 if moment_s else math.inf
        self._calls = self._seen = 0

    def watch(self, peer: socket.socket) -> bytes:
        """The first bytes of the answer; nothing if they did not come meanwhile, or the peer has closed."""
        now_s = time.perf_counter()
        if now_s < self._pauses_until_s:
            return b""
        end_s, data = now_s + self._moment_s, None
        while data is None and now_s < end_s:
            try:
                data = peer.recv(_FIRST_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                now_s = time.perf_counter()
        self._note(data is not None, now_s)
        return data or b""

    def _note(self, was_seen: bool, now_s: float) -> None:
        self._calls += 1
        self._seen += was_seen
        if self._calls == _TRIAL_CALLS:
            if 2 * self._seen >= self._calls:
                self._pause_s = _PAUSE_S
            else:
                self._pauses_until_s = now_s + self._pause_s
                self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
            self._calls = self._seen = 0


def _dial(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection to the first address of `host` that accepts one, within the time for all of them together.

    The standard library's function gives each address the whole time, and the resolver as long as it takes.
    """
    end_s = time.monotonic() + timeout_s
    failure: OSError = TimeoutError()
    for family, kind, protocol, address in resolve(host, port, timeout_s):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        dialling = None
        try:
            dialling = socket.socket(family, kind, protocol)
            dialling.settimeout(left_s)
            dialling.connect(address)
        except BaseException as error:
            if dialling is not None:
                dialling.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return dialling
    raise failure


class BlockingConnections:
    """The pool. Any thread may call it; each call has a connection to itself, so there are as many as calls at once.

    A connection is kept for the next call, and closed by `close_idle` when none came for two minutes.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = 3.0,
        idle_s: float = IDLE_S,
        serialize_type: SerializeType = SerializeType.JSON,
        busy_wait_s: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        """A busy wait needs a processor to itself: where there is but one, there is none."""
        self._busy_wait_s = busy_wait_s if _processors() > 1 else 0.0
        self._tls, self._connect_timeout_s, self._idle_s = tls, connect_timeout_s, idle_s
        self._serialize_type, self._clock = serialize_type, clock or SystemClock()
        self._idle: dict[str, list[BlockingConnection]] = {}
        """By address; the one used last lies on top. Lists are pushed and popped without a lock, which is safe."""
        self._busy: set[BlockingConnection] = set()
        """Connections in use; sets are changed without a lock, too."""
        self._is_closed = False
        self._forks = _forks
        self._opaques = itertools.count(1)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def next_opaque(self) -> int:
        """A number for a request. On a connection there is never more than one to be told apart from strays."""
        return next(self._opaques) & _OPAQUE_MASK

    def request(self, address: str, command: Command, timeout_s: float) -> Command:
        """Ask and wait for the answer, whatever its code; dialling counts into `timeout_s`.

        Raises `TransportError`, or `ResponseError` if the server sends us away twice.
        """
        opaque = self.next_opaque()
        data = frame.encode(replace(command, opaque=opaque, serialize_type=self._serialize_type))
        return self.request_frame(address, data, opaque, timeout_s)

    def request_frame(self, address: str, data: bytes, opaque: int, timeout_s: float) -> Command:
        """The same for the frame of a request with this number."""
        now_s = self._clock.monotonic()
        answer = self._ask(address, data, opaque, now_s, timeout_s)
        if answer.code != _GO_AWAY:
            return answer
        # The server is leaving, and says so on old connections only: one more try, on a new one.
        self._drop(address)
        again_s = self._clock.monotonic()
        answer = self._ask(address, data, opaque, again_s, timeout_s - (again_s - now_s))
        if answer.code == _GO_AWAY:
            self._drop(address)
            raise ResponseError(answer.code, answer.remark, request="request", address=address)
        return answer

    def send_oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Send a request that nobody answers; wait for nothing but room to send."""
        flag, opaque = command.flag | ONEWAY_FLAG, self.next_opaque()
        data = frame.encode(replace(command, opaque=opaque, flag=flag, serialize_type=self._serialize_type))
        now_s = self._clock.monotonic()
        connection = self._take(address, now_s, timeout_s)
        try:
            connection.tell(data, now_s + timeout_s - self._clock.monotonic())
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def _ask(self, address: str, data: bytes, opaque: int, now_s: float, timeout_s: float) -> Command:
        connection = self._take(address, now_s, timeout_s)
        try:
            self._busy.add(connection)
            left_s = timeout_s if connection.used_s else now_s + timeout_s - self._clock.monotonic()  # it was dialled
            # No other call is under way, and none left an idle connection within `idle_s`: a single caller, for whom
            # polling pays.
            is_alone = len(self._busy) == 1 and not self._idle.get(address)
            answer = connection.ask(data, opaque, left_s, now_s + timeout_s, is_alone=is_alone)
        except ConnectionLostError:
            connection.close()
            self._drop(address)  # the others of this address were lost with it, most likely
            raise
        except ProtocolError as error:  # a frame that is none, or TLS that ends, as where a certificate is missing
            connection.close()
            raise ConnectionLostError(address, f"the connection closed: {error}") from error
        except BaseException:  # also Ctrl-C: the answer would come to whoever has the connection next
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        self._give_back(connection)
        return answer

    def _take(self, address: str, now_s: float, timeout_s: float) -> BlockingConnection:
        """A connection that nobody else has."""
        if self._forks != _forks:
            raise ForkedError("the client")
        if self._is_closed:
            raise ClosedError("the client is closed")
        if timeout_s <= 0:
            raise RequestTimeoutError(address, "no time is left for another request")
        idle = self._idle.get(address)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was quicker
                break
            if now_s - connection.used_s < _FRESH_S or connection.is_quiet():
                return connection
            connection.close()
        return BlockingConnection(
            address,
            tls=self._tls,
            timeout_s=min(timeout_s, self._connect_timeout_s),
            clock=self._clock,
            serialize_type=self._serialize_type,
            busy_wait_s=self._busy_wait_s,
        )

    def _give_back(self, connection: BlockingConnection) -> None:
        connection.used_s = self._clock.monotonic()
        idle = self._idle.get(connection.address)
        if idle is None:
            idle = self._idle.setdefault(connection.address, [])
        idle.append(connection)
        if self._is_closed:  # maybe only just now, when this one was not to be seen
            self._drop(connection.address)

    def _drop(self, address: str) -> None:
        """Close the idle connections to `address`."""
        idle = self._idle.get(address, [])
        with suppress(IndexError):
            while True:
                idle.pop().close()

    def close_idle(self) -> None:
        """Close what nobody has used for two minutes."""
        oldest_s = self._clock.monotonic() - self._idle_s
        for idle in list(self._idle.values()):
            while idle:
                try:
                    connection = idle.pop(0)
                except IndexError:  # another thread was quicker
                    break
                if connection.used_s > oldest_s:
                    idle.insert(0, connection)
                    break
                connection.close()

    def close(self) -> None:
        """Close all that are idle; those in use are closed after their call, and no new call begins."""
        self._is_closed = True
        if self._forks != _forks:
            return  # they are the parent's: a farewell over TLS would end them there, too
        for address in list(self._idle):
            self._drop(address)


def _processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_forks = 0
"""How often this process was forked off: what was opened before belongs to the parent."""


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)
