"""The first bytes of an accepted connection: who really calls, and does it speak TLS?

An optional PROXY preamble, then a TLS hello or a frame. One byte tells them apart, and it is looked at once.
"""

from __future__ import annotations

from rocketline.errors import RemoteProtocolError
from rocketline.net import proxy_protocol
from rocketline.net.config import TlsMode
from rocketline.net.tls import HELLO, ServerTls, TlsLayer


class Preamble:
    """Decides how a connection is read. `receive` buffers until it is decided; then `layer` and `source` are final."""

    __slots__ = ("_head", "_is_past_preamble", "_mode", "_tls", "is_decided", "layer", "source")

    def __init__(self, mode: TlsMode, tls: ServerTls) -> None:
        self._mode, self._tls = mode, tls
        self._head = b""
        self._is_past_preamble = False
        self.is_decided = False
        self.layer: TlsLayer | None = None
        """TLS, if the peer began with its hello."""
        self.source: str | None = None
        """The address that a balancer named."""

    def receive(self, data: bytes) -> bytes:
        """What follows the preamble, once decided; nothing before. Raises `RemoteProtocolError` to refuse the peer."""
        self._head += data
        if not self._is_past_preamble and proxy_protocol.may_begin(self._head):
            preamble = proxy_protocol.parse(self._head)
            if preamble is None:
                return b""
            self.source, self._is_past_preamble = preamble.source, True
            self._head = self._head[preamble.size :]
        if not self._head:
            return b""
        self._decide(self._head[0] == HELLO)
        head, self._head = self._head, b""
        return head

    def _decide(self, is_hello: bool) -> None:
        if is_hello and self._mode is TlsMode.DISABLED:
            raise RemoteProtocolError("TLS is spoken and tls.server.mode is disabled")
        if not is_hello and self._mode is TlsMode.ENFORCING:
            raise RemoteProtocolError("TLS is not spoken and tls.server.mode is enforcing")
        if is_hello:
            context = self._tls.context()
            if context is None:
                raise RemoteProtocolError(
                    "TLS is spoken and no certificate is set: tls.server.certPath, tls.server.keyPath"
                )
            self.layer = TlsLayer(context)
        self.is_decided = True
