"""The settings of connections: `NetworkConfig` for the server's socket and limits, `TlsConfig` for certificates.

Java: NettyServerConfig and TlsSystemConfig. What sizes Java's threads and buffers is read and listed like every other
setting, so that an existing file loads and "get config" answers the same, but there is nothing in Rocketline to size.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from rocketline.record import record
from rocketline.settings import setting
from rocketline.wire.codes import SerializeType

_NO_MEANING = "Accepted for Apache's sake and without effect: one event loop does this work."


@record(kw_only=True)
class NetworkConfig:
    """Where a server listens, and the limits of its connections. Java: NettyServerConfig."""

    bind_address: str = setting("0.0.0.0", key="bindAddress", help="The address to listen on.")  # noqa: S104
    listen_port: int = setting(0, key="listenPort", high=65535, help="The port to listen on; 0 takes a free one.")
    backlog: int = setting(
        1024,
        key="serverSocketBacklog",
        low=1,
        help="Connections that may wait to be accepted; the system may allow fewer.",
    )
    idle_close_s: int = setting(
        120,
        key="serverChannelMaxIdleTimeSeconds",
        low=1,
        help="Seconds without a byte in either direction after which a connection is closed.",
    )
    send_buffer_bytes: int = setting(
        0, key="serverSocketSndBufSize", help="Bytes of the system's send buffer; 0 leaves its default."
    )
    receive_buffer_bytes: int = setting(
        0, key="serverSocketRcvBufSize", help="Bytes of the system's receive buffer; 0 leaves its default."
    )
    write_buffer_high_bytes: int = setting(
        0,
        key="writeBufferHighWaterMark",
        help="Unsent bytes at which we stop reading from that connection; 0 takes Rocketline's own mark.",
    )
    write_buffer_low_bytes: int = setting(
        0, key="writeBufferLowWaterMark", help="Unsent bytes at which reading goes on; 0 takes Rocketline's own mark."
    )
    oneway_in_flight_max: int = setting(
        256, key="serverOnewaySemaphoreValue", low=1, help="One-way requests that the server may be writing at once."
    )
    async_in_flight_max: int = setting(
        64, key="serverAsyncSemaphoreValue", low=1, help="Requests of the server to its peers that may await an answer."
    )
    goes_away_gracefully: bool = setting(
        False,
        key="enableShutdownGracefully",
        help="Whether a closing server first answers GO_AWAY, so that clients turn to another one.",
    )
    shutdown_wait_s: int = setting(
        30, key="shutdownWaitTimeSeconds", help="Longest time a graceful close waits for clients to leave."
    )
    serialize_type: SerializeType = setting(
        SerializeType.JSON,
        key="rocketmq.serialize.type",
        own=True,
        environment=("ROCKETMQ_SERIALIZE_TYPE",),
        help="How we write frame headers, JSON or ROCKETMQ (binary). Both are always read.",
    )
    server_worker_threads: int = setting(8, key="serverWorkerThreads", effect=False, help=_NO_MEANING)
    server_callback_executor_threads: int = setting(
        0, key="serverCallbackExecutorThreads", effect=False, help=_NO_MEANING
    )
    server_selector_threads: int = setting(3, key="serverSelectorThreads", effect=False, help=_NO_MEANING)
    server_netty_worker_group_enable: bool = setting(
        True, key="serverNettyWorkerGroupEnable", effect=False, help=_NO_MEANING
    )
    server_pooled_byte_buf_allocator_enable: bool = setting(
        True, key="serverPooledByteBufAllocatorEnable", effect=False, help=_NO_MEANING
    )
    use_epoll_native_selector: bool = setting(False, key="useEpollNativeSelector", effect=False, help=_NO_MEANING)

    def problems(self) -> Iterator[str]:
        high, low = self.write_buffer_high_bytes, self.write_buffer_low_bytes
        if high and low > high:
            yield f"writeBufferLowWaterMark={low} must not be above writeBufferHighWaterMark={high}"


class TlsMode(Enum):
    """Whether a server speaks TLS. Java: TlsMode."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(Enum):
    """Whether a server asks a client for its certificate. Java: tls.server.need.client.auth."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@record(kw_only=True)
class TlsConfig:
    """Certificates and who must show one. Java: TlsSystemConfig.

    Java takes these from system properties and `tls.config.file`; here the server's own file, the environment and flags
    hold them too. Differs: a client checks the server's certificate unless told not to.
    """

    server_mode: TlsMode = setting(
        TlsMode.PERMISSIVE,
        key="tls.server.mode",
        own=True,
        help="disabled refuses TLS, permissive serves both on one port, enforcing refuses plain connections.",
    )
    config_file: str = setting(
        "/etc/rocketmq/tls.properties",
        key="tls.config.file",
        own=True,
        include=True,
        help="A file with the other tls.* keys, over those of the main file; the default one may be missing.",
    )
    need_client_auth: ClientAuth = setting(
        ClientAuth.NONE,
        key="tls.server.need.client.auth",
        own=True,
        help="Whether a client's certificate is not asked for, checked if shown, or required.",
    )
    server_key_path: str = setting(
        "",
        key="tls.server.keyPath",
        own=True,
        help="The server's private key (PEM); empty: it is in the certificate's file.",
    )
    server_key_password: str = setting(
        "", key="tls.server.keyPassword", own=True, secret=True, help="The password of that key."
    )
    server_cert_path: str = setting(
        "", key="tls.server.certPath", own=True, help="The server's certificate chain (PEM); empty: no TLS is offered."
    )
    server_trust_cert_path: str = setting(
        "", key="tls.server.trustCertPath", own=True, help="Certificates (PEM) that may sign a client's."
    )
    server_auth_client: bool = setting(
        False,
        key="tls.server.authClient",
        own=True,
        help="Accepted for Apache's sake: a client's certificate that is asked for is always checked.",
    )
    client_enable: bool = setting(
        False, key="tls.enable", own=True, help="Whether our own connections to others use TLS."
    )
    client_auth_server: bool = setting(
        True, key="tls.client.authServer", own=True, help="Whether a server's certificate and name are checked."
    )
    client_key_path: str = setting(
        "", key="tls.client.keyPath", own=True, help="Our private key (PEM) towards servers that ask for a certificate."
    )
    client_key_password: str = setting(
        "", key="tls.client.keyPassword", own=True, secret=True, help="The password of that key."
    )
    client_cert_path: str = setting(
        "", key="tls.client.certPath", own=True, help="Our certificate chain (PEM) towards such servers."
    )
    client_trust_cert_path: str = setting(
        "",
        key="tls.client.trustCertPath",
        own=True,
        help="Certificates (PEM) that may sign a server's; empty: the system's.",
    )
    test_mode_enable: bool = setting(
        False,
        key="tls.test.mode.enable",
        own=True,
        only_default="Rocketline makes no certificates; name yours with tls.server.certPath and tls.server.keyPath",
        help="Java's mode with a certificate made at start; only false is supported.",
    )

    def problems(self) -> Iterator[str]:
        if self.server_mode is TlsMode.ENFORCING and not self.server_cert_path:
            yield "tls.server.mode=enforcing needs a certificate: set tls.server.certPath"
        for side, key, certificate in (
            ("server", self.server_key_path, self.server_cert_path),
            ("client", self.client_key_path, self.client_cert_path),
        ):
            if key and not certificate:
                yield f"tls.{side}.keyPath={key} is without its certificate: set tls.{side}.certPath"
