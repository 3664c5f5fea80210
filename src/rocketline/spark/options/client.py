"""How clients reach a cluster and who they are there, as the options `nameServer` and `rocketmq.…` say."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketline.client.options import ClientKeywords, Credentials, Tls, parse_name_servers
from rocketline.errors import ConfigError
from rocketline.net.address import parse_address
from rocketline.spark.options.reader import OptionReader
from rocketline.wire.namespaces import with_namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Plain values: it can be pickled, compared, and be the key of a cache of connections."""

    name_servers: str
    """`host:port;host:port`."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    """None: not encrypted."""
    namespace: str = ""
    namespace_v2: str = ""
    unit_name: str = ""
    vip_channel: bool = False
    connect_timeout_s: float = 3.0
    api_timeout_s: float = 3.0

    @property
    def credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    def keywords(self) -> ClientKeywords:
        """Keywords of any client of Rocketline, beside the name servers."""
        return {
            "credentials": self.credentials,
            "tls": self.tls or False,
            "namespace": self.namespace,
            "namespace_v2": self.namespace_v2,
            "unit_name": self.unit_name,
            "vip_channel": self.vip_channel,
            "connect_timeout_s": self.connect_timeout_s,
            "api_timeout_s": self.api_timeout_s,
        }

    def on_wire(self, name: str) -> str:
        """A topic or group, which users name without the namespace, as brokers know it."""
        return with_namespace(self.namespace, name)


def client_settings(reader: OptionReader) -> ClientSettings:
    """What the options say; what is wrong with them is noted in `reader`."""
    access_key, secret_key = reader.text("rocketmq.accessKey") or None, reader.secret("rocketmq.secretKey") or None
    if (access_key is None) != (secret_key is None):
        reader.problem("rocketmq.accessKey and rocketmq.secretKey belong together: give both or none")
    namespace, namespace_v2 = reader.text("rocketmq.namespace"), reader.text("rocketmq.namespaceV2")
    if namespace and namespace_v2:
        reader.problem("rocketmq.namespace and rocketmq.namespaceV2 exclude each other: take what your cluster uses")
    return ClientSettings(
        name_servers=_name_servers(reader),
        access_key=access_key,
        secret_key=secret_key,
        security_token=reader.text("rocketmq.securityToken") or None,
        tls=_tls(reader),
        namespace=namespace,
        namespace_v2=namespace_v2,
        unit_name=reader.text("rocketmq.unitName"),
        vip_channel=reader.flag("rocketmq.vipChannelEnabled"),
        connect_timeout_s=reader.milliseconds("rocketmq.connectTimeoutMillis"),
        api_timeout_s=reader.milliseconds("rocketmq.mqClientApiTimeout"),
    )


def _name_servers(reader: OptionReader) -> str:
    text = reader.required("nameServer", "write host:port, several separated by ;")
    addresses = parse_name_servers(text.replace(",", ";"))
    for address in addresses:
        try:
            parse_address(address)
        except ConfigError as error:
            reader.problem(f"nameServer: {error}")
    return ";".join(addresses)


def _tls(reader: OptionReader) -> Tls | None:
    prefix = "rocketmq.tls.client."
    tls = Tls(
        trust_path=reader.text(prefix + "trustCertPath"),
        cert_path=reader.text(prefix + "certPath"),
        key_path=reader.text(prefix + "keyPath"),
        key_password=reader.secret(prefix + "keyPassword"),
        verifies=reader.flag(prefix + "authServer"),
    )
    if reader.flag("rocketmq.useTLS"):
        return tls
    if tls != Tls():
        reader.problem(f"{prefix}… has no effect without rocketmq.useTLS=true")
    return None
