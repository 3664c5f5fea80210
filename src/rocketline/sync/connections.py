"""Connections for threads that wait: a plain blocking socket for the time of one call, out of a pool.

A call through the portal's loop wakes two threads and costs up to a quarter of a millisecond; a thread that writes and
reads a socket of its own needs neither. Heartbeats stay on the loop: brokers know these connections by no client id.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from rocketline.clock import Clock, SystemClock
from rocketline.errors import (
    ClosedError,
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
from rocketline.wire.command import ONEWAY_FLAG, Command, response

Encode: TypeAlias = Callable[[int], bytes]
"""Makes the frame of a request, given its number."""

IDLE_S: Final = 120.0
_READ_BYTES: Final = 64 * 1024
_FRESH_S: Final = 1.0
"""A connection that was used so lately is not looked at before it is used again."""
_OPAQUE_MAX: Final = 2**31 - 1
_TIMEVAL: Final = struct.Struct("ll")


class BlockingConnection:
    """One connection, used by one thread at a time. After any error it must be closed: its next bytes are not known."""

    def __init__(
        self, address: str, *, tls: ssl.SSLContext | None, timeout_s: float, clock: Clock, serialize_type: SerializeType
    ) -> None:
        """Dial, and shake hands if `tls` is given. Raises `ConnectError`."""
        host, port = parse_address(address)
        self.address, self.used_s = address, 0.0
        self._clock, self._serialize_type = clock, serialize_type
        self._opaque = 0
        self._wait_ms = 0
        self._reader = frame.FrameReader()
        self._tls: TlsLayer | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except TimeoutError:
            raise ConnectError(address, f"no connection within {timeout_s:g} s") from None
        except (OSError, UnicodeError) as error:  # the latter is what some host names give
            raise ConnectError(address, getattr(error, "strerror", None) or str(error)) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)
            if tls is not None:
                self._shake_hands(TlsLayer(tls, server_hostname=host), timeout_s)
        except (TransportError, ProtocolError, OSError) as error:
            self.close()
            raise ConnectError(address, getattr(error, "problem", str(error))) from error
        except BaseException:
            self.close()
            raise

    def ask(self, encode: Encode, timeout_s: float) -> Command:
        """Send a request and wait for its answer, whatever its code. Raises `TransportError` or `ProtocolError`."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < _OPAQUE_MAX else 0
        self._limit_waits(timeout_s)
        self._write(encode(opaque))
        end_s = 0.0
        while True:
            whole = self._reader.take()
            if whole is None:
                if end_s:
                    self._limit_waits(end_s - self._clock.monotonic())
                else:
                    end_s = self._clock.monotonic() + timeout_s
                self._reader.feed(self._read())
                continue
            command = frame.decode(whole)
            if not command.is_response:
                self._refuse(command)
            elif command.opaque == opaque:
                return command

    def tell(self, encode: Encode, timeout_s: float) -> None:
        """Send a request that nobody answers."""
        self._opaque = self._opaque + 1 if self._opaque < _OPAQUE_MAX else 0
        self._limit_waits(timeout_s)
        self._write(encode(self._opaque))

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

    def _refuse(self, request: Command) -> None:
        """Peers ask on connections that sent heartbeats; should one ask here, it is told that nobody is in."""
        if not request.is_oneway:
            answer = response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "nobody answers on this connection")
            self._write(frame.encode(replace(answer, opaque=request.opaque, serialize_type=self._serialize_type)))

    def _shake_hands(self, tls: TlsLayer, timeout_s: float) -> None:
        end_s = self._clock.monotonic() + timeout_s
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
        wait_ms = math.ceil(round(timeout_s * 1000, 3))
        if wait_ms != self._wait_ms:
            limit = _TIMEVAL.pack(wait_ms // 1000, wait_ms % 1000 * 1000)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._wait_ms = wait_ms

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data if self._tls is None else self._tls.send(data))
        except BlockingIOError:
            raise RequestTimeoutError(self.address, f"the peer took no bytes for {self._wait_ms / 1000:g} s") from None
        except OSError as error:
            raise self._lost(error) from error

    def _read(self) -> bytes:
        """What came, decrypted; it may be nothing of use yet."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            raise RequestTimeoutError(self.address, f"no answer in {self._wait_ms / 1000:g} s") from None
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(None)
        return data if self._tls is None else self._tls.receive(data)

    def _lost(self, error: OSError | None) -> ConnectionLostError:
        reason = f": {error.strerror or error}" if error else ""
        return ConnectionLostError(self.address, f"the connection closed{reason}")


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
        clock: Clock | None = None,
    ) -> None:
        self._tls, self._connect_timeout_s, self._idle_s = tls, connect_timeout_s, idle_s
        self._serialize_type, self._clock = serialize_type, clock or SystemClock()
        self._idle: dict[str, list[BlockingConnection]] = {}
        """By address; the one used last lies on top."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def request(self, address: str, command: Command, timeout_s: float) -> Command:
        """Ask and wait for the answer, whatever its code; dialling counts into `timeout_s`.

        Raises `TransportError`, `ProtocolError`, or `ResponseError` if the server sends us away twice.
        """

        def encode(opaque: int) -> bytes:
            return frame.encode(replace(command, opaque=opaque, serialize_type=self._serialize_type))

        return self.request_frame(address, encode, timeout_s)

    def request_frame(self, address: str, encode: Encode, timeout_s: float) -> Command:
        """The same for a request whose frame `encode` makes."""
        end_s = self._clock.monotonic() + timeout_s
        answer = self._ask(address, encode, timeout_s)
        if answer.code == ResponseCode.GO_AWAY:
            # The server is leaving, and says so on old connections only: one more try, on a new one.
            self._drop(address)
            answer = self._ask(address, encode, end_s - self._clock.monotonic())
            if answer.code == ResponseCode.GO_AWAY:
                self._drop(address)
                raise ResponseError(answer.code, answer.remark, request="request", address=address)
        return answer

    def send_oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Send a request that nobody answers; wait for nothing but room to send."""

        def encode(opaque: int) -> bytes:
            flag = command.flag | ONEWAY_FLAG
            return frame.encode(replace(command, opaque=opaque, flag=flag, serialize_type=self._serialize_type))

        self.send_frame(address, encode, timeout_s)

    def send_frame(self, address: str, encode: Encode, timeout_s: float) -> None:
        """The same for a request whose frame `encode` makes."""
        connection, left_s = self._take(address, timeout_s)
        try:
            connection.tell(encode, left_s)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def _ask(self, address: str, encode: Encode, timeout_s: float) -> Command:
        connection, left_s = self._take(address, timeout_s)
        try:
            answer = connection.ask(encode, left_s)
        except ConnectionLostError:
            connection.close()
            self._drop(address)  # the others of this address were lost with it, most likely
            raise
        except BaseException:  # also Ctrl-C: the answer would come to whoever has the connection next
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def _take(self, address: str, timeout_s: float) -> tuple[BlockingConnection, float]:
        """A connection that nobody else has, and the time that is left."""
        if self._pid != os.getpid():
            raise ForkedError("the client")
        now_s = self._clock.monotonic()
        if timeout_s <= 0:
            raise RequestTimeoutError(address, "no time is left for another request")
        while True:
            with self._lock:
                if self._is_closed:
                    raise ClosedError("the client is closed")
                idle = self._idle.get(address)
                connection = idle.pop() if idle else None
            if connection is None:
                break
            if now_s - connection.used_s < _FRESH_S or connection.is_quiet():
                return connection, timeout_s
            connection.close()
        connection = BlockingConnection(
            address,
            tls=self._tls,
            timeout_s=min(timeout_s, self._connect_timeout_s),
            clock=self._clock,
            serialize_type=self._serialize_type,
        )
        return connection, timeout_s - (self._clock.monotonic() - now_s)

    def _give_back(self, connection: BlockingConnection) -> None:
        connection.used_s = self._clock.monotonic()
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(connection.address, []).append(connection)
                return
        connection.close()

    def _drop(self, address: str) -> None:
        with self._lock:
            dropped = self._idle.pop(address, [])
        for connection in dropped:
            connection.close()

    def close_idle(self) -> None:
        """Close what nobody has used for two minutes."""
        oldest_s = self._clock.monotonic() - self._idle_s
        old: list[BlockingConnection] = []
        with self._lock:
            for address, idle in list(self._idle.items()):
                old += [connection for connection in idle if connection.used_s <= oldest_s]
                self._idle[address] = [connection for connection in idle if connection.used_s > oldest_s]
                if not self._idle[address]:
                    del self._idle[address]
        for connection in old:
            connection.close()

    def close(self) -> None:
        """Close all that are idle; those in use are closed after their call, and no new call begins."""
        if self._pid != os.getpid():
            return  # the connections are the parent's, which would not expect our farewell on them
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()
