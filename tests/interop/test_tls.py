"""Apache's clients and broker over TLS, against our name server in its two TLS modes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from rocketline.settings.properties import format_properties
from rocketline.testing.apache import ApacheBroker, ClientJvm, Release, Traffic, cluster_info, running
from rocketline.testing.name_server import NameServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker that uses TLS, known to a permissive name server and to one that wants to see certificates."""

    permissive: NameServerProcess
    enforcing: NameServerProcess
    tls_clients: ClientJvm


def _issue(folder: Path) -> dict[str, Path]:
    """An authority, and one certificate for this machine. Netty reads keys in PKCS #8 form only."""
    folder.mkdir()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = {"trust": folder / "trust.pem", "chain": folder / "chain.pem", "key": folder / "key.pem"}
    authority.cert_pem.write_to_path(str(files["trust"]))
    files["chain"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    pkcs8 = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files["key"].write_bytes(key.private_bytes(*pkcs8))
    return files


def _side(files: dict[str, Path], side: str) -> dict[str, str]:
    return {
        f"tls.{side}.keyPath": str(files["key"]),
        f"tls.{side}.certPath": str(files["chain"]),
        f"tls.{side}.trustCertPath": str(files["trust"]),
    }


@pytest.fixture(scope="module")
def secured(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("tls")
    files = _issue(home / "certificates")
    server = _side(files, "server")
    strict = {"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require", "tls.server.authClient": "true"}
    permissive = NameServerProcess(home / "permissive", settings=server)
    enforcing = NameServerProcess(home / "enforcing", settings=server | strict)
    for_java = home / "tls.properties"
    checked = {"tls.test.mode.enable": "false", "tls.client.authServer": "true"}
    for_java.write_text(format_properties(server | _side(files, "client") | checked), "ascii")
    properties = {"tls.enable": "true", "tls.server.mode": "permissive", "tls.config.file": str(for_java)}
    # The broker registers with both, and shows itself to whoever looks without TLS in the permissive one only.
    known_to = {"namesrvAddr": f"{permissive.address};{enforcing.address}"}
    with (
        running(permissive, enforcing),
        ApacheBroker(
            release, home / "broker", name_servers=(permissive.address,), settings=known_to, properties=properties
        ) as broker,
        ClientJvm(release, home / "clients", properties=properties) as tls_clients,
    ):
        broker.wait_until(
            lambda: tls_clients.mqadmin(enforcing.address, "topicRoute", "-t", "TBW102").status == 0,
            "registered with the enforcing name server",
        )
        yield Secured(permissive, enforcing, tls_clients)


def test_permissive_name_server_serves_tls_and_plain_clients_on_one_port(secured: Secured, clients: ClientJvm) -> None:
    address = secured.permissive.address
    for jvm, topic in ((secured.tls_clients, "secret"), (clients, "plain")):
        jvm.mqadmin(address, "updateTopic", "-c", "DefaultCluster", "-t", topic)
        assert jvm.traffic(address, topic, group=topic, count=100) == Traffic(sent=100, received=100, distinct=100)


def test_enforcing_name_server_serves_clients_with_a_certificate_only(secured: Secured) -> None:
    address = secured.enforcing.address
    shown = secured.tls_clients.mqadmin(address, "topicRoute", "-t", "TBW102")
    assert (shown.status, shown.error) == (0, "")
    with pytest.raises(ConnectionError):
        cluster_info(address)
