"""TLS without sockets: contexts from settings, and a layer that turns ciphertext into plaintext and back.

The layer sits on memory buffers rather than on a loop's own TLS transport, because the server must look at the first
bytes of a connection before it knows whether TLS is spoken, and because it costs an idle connection little memory.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from rocketline.errors import ConfigError, RemoteProtocolError
from rocketline.net.config import ClientAuth, TlsConfig

HELLO = 0x16
"""The first byte of a TLS handshake. A frame never begins with it: that would be a length of 350 MB."""
_READ_BYTES = 64 * 1024


class TlsLayer:
    """One connection's TLS. Feed it what the socket gave, send what `take_output` returns."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_established", "is_finished")

    def __init__(self, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        """A client names the host whose certificate it expects; without a name this is the server's end."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self.is_established = False
        self.is_finished = False
        """The peer said goodbye: nothing more will come."""

    def receive(self, data: bytes) -> bytes:
        """The plaintext in `data`, once the handshake is through. Raises `RemoteProtocolError`."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.is_established:
                self._object.do_handshake()
                self.is_established = True
            while chunk := self._object.read(_READ_BYTES):
                plain.append(chunk)
            self.is_finished = True
        except ssl.SSLWantReadError:
            pass  # the rest is still on its way
        except ssl.SSLError as error:
            raise RemoteProtocolError(f"TLS: {_reason(error)}") from error
        return b"".join(plain)

    def send(self, data: bytes) -> bytes:
        """The ciphertext of `data`; nothing any more once the connection failed or we said goodbye."""
        view = memoryview(data)
        with suppress(ssl.SSLError):
            while view:
                view = view[self._object.write(view) :]
        return self._outgoing.read()

    def close(self) -> bytes:
        """The ciphertext that says goodbye, so that the peer can tell an end from a cut."""
        # It wants to wait for the peer's goodbye, which we do not need; or the handshake never ended.
        with suppress(ssl.SSLError):
            self._object.unwrap()
        return self._outgoing.read()

    def take_output(self) -> bytes:
        """What the handshake itself wants to send."""
        return self._outgoing.read()


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()


class ServerTls:
    """The server's context, loaded again for new connections when its files have changed.

    A changed trust file counts at once; certificate and key only together, because one is written before the other.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._pair = [path for path in (config.server_cert_path, config.server_key_path) if path]
        self._trust = [path for path in (config.server_trust_cert_path,) if path]
        self._pair_stamps, self._trust_stamps = _stamps(self._pair), _stamps(self._trust)
        self._context = self._load() if self._pair else None

    def context(self) -> ssl.SSLContext | None:
        """The context for a new connection; None if no certificate is configured.

        Raises `ConfigError` once if changed files cannot be loaded; after that the old ones go on until they change.
        """
        if self._context is None:
            return None
        pair, trust = _stamps(self._pair), _stamps(self._trust)
        is_pair_changed = all(now != then for now, then in zip(pair, self._pair_stamps, strict=True))
        if is_pair_changed or trust != self._trust_stamps:
            self._pair_stamps, self._trust_stamps = pair, trust
            self._context = self._load()
        return self._context

    def _load(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION  # in its middle nothing can be written
        _load_certificate(context, config.server_cert_path, config.server_key_path, config.server_key_password)
        if config.need_client_auth is not ClientAuth.NONE:
            if not config.server_trust_cert_path:
                raise ConfigError(
                    ["tls.server.need.client.auth asks for client certificates: set tls.server.trustCertPath"]
                )
            _load_trust(context, config.server_trust_cert_path)
            require = config.need_client_auth is ClientAuth.REQUIRE
            context.verify_mode = ssl.CERT_REQUIRED if require else ssl.CERT_OPTIONAL
        return context


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """A client's context. The server's certificate and name are checked unless `tls.client.authServer` is false."""
    context = ssl.create_default_context()
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not config.client_auth_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.client_trust_cert_path:
        _load_trust(context, config.client_trust_cert_path)
    if config.client_cert_path:
        _load_certificate(context, config.client_cert_path, config.client_key_path, config.client_key_password)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
    try:
        # A password is always passed: without one OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificate, key or None, password)
    except (OSError, ssl.SSLError) as error:
        paths = f"certificate {certificate}, key {key or 'in the same file'}"
        raise ConfigError([f"TLS cannot use {paths} (tls.server.* or tls.client.*): {error}"]) from error


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError([f"TLS trust file {path}: {error}"]) from error


def _stamps(paths: list[str]) -> list[tuple[int, int] | None]:
    """What tells a file from its successor: time and size; None where there is none at the moment."""
    return [_stamp(Path(path)) for path in paths]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
