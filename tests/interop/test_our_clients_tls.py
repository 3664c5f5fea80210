"""Our clients over TLS, against Apache's name server and broker, which take nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from rocketline import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage, Tls, aio
from rocketline.admin.sync import Admin
from rocketline.errors import ConnectError, SendFailedError, TransportError
from rocketline.settings.properties import format_properties
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

COUNT: Final = 50
SOON_S: Final = 60.0
HANDSHAKE_S: Final = 30.0
"""A server that has just started takes its time for its first one, on a busy machine."""
BODIES: Final = sorted(b"%d" % number for number in range(COUNT))


class Files:
    """The files of an authority, of servers at 127.0.0.1, of a client, and of an authority that vouches for nobody."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        authority = trustme.CA()
        self.trust, self.stranger = str(folder / "trust.pem"), str(folder / "stranger.pem")
        authority.cert_pem.write_to_path(self.trust)
        trustme.CA().cert_pem.write_to_path(self.stranger)
        self.server = self._write("server", authority.issue_cert("127.0.0.1"))
        self.elsewhere = self._write("elsewhere", authority.issue_cert("elsewhere.example"))
        self.client = self._write("client", authority.issue_cert("client"))

    def _write(self, name: str, issued: trustme.LeafCert) -> tuple[str, str]:
        """Certificates and key, as paths. Netty reads keys in PKCS #8 form only."""
        chain, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        loaded = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        pkcs8 = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key.write_bytes(loaded.private_bytes(*pkcs8))
        return str(chain), str(key)

    def for_java(self, name: str, shown: tuple[str, str], **more: str) -> dict[str, str]:
        """System properties of a server that shows this certificate, and checks those of the servers that it dials."""
        lines = {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": shown[0],
            "tls.server.keyPath": shown[1],
            "tls.server.trustCertPath": self.trust,
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": self.trust,
            **more,
        }
        file = self._folder / f"{name}.properties"
        file.write_text(format_properties(lines), "ascii")
        return {"tls.enable": "true", "tls.server.mode": "enforcing", "tls.config.file": str(file)}


def patient_admin(address: str, tls: Tls | bool) -> Admin:
    return Admin(address, tls=tls, timeout_s=HANDSHAKE_S, connect_timeout_s=HANDSHAKE_S)


@dataclass(frozen=True, slots=True)
class Secured:
    """A name server and a broker of Apache's that show certificates; the broker wants to see one, too."""

    address: str
    files: Files

    @property
    def tls(self) -> Tls:
        chain, key = self.files.client
        return Tls(trust_path=self.files.trust, cert_path=chain, key_path=key)

    def topic(self, name: str) -> str:
        with patient_admin(self.address, self.tls) as admin:
            admin.topics.create(name, queue_count=2)
        return name


@pytest.fixture(scope="module")
def secured(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("tls")
    files = Files(home)
    for_name_server = files.for_java("name-server", files.server)
    strict = {"tls.server.need.client.auth": "require", "tls.server.authClient": "true"}
    for_broker = files.for_java("broker", files.server, **strict)
    with ApacheNameServer(release, home / "name-server", properties=for_name_server) as name_server:
        name_server.wait_until_ready()
        secured = Secured(name_server.address, files)
        known_to = {"namesrvAddr": name_server.address}  # that it is registered there shows over TLS only
        with ApacheBroker(
            release, home / "broker", name_servers=(), settings=known_to, properties=for_broker
        ) as broker:
            broker.wait_until_ready()
            broker.wait_until(lambda: _shows(secured, broker.address), "registered over TLS")
            yield secured


def _shows(secured: Secured, broker: str) -> bool:
    try:
        with patient_admin(secured.address, secured.tls) as admin:
            return broker in str(admin.brokers.clusters())
    except TransportError:
        return False


def test_blocking_clients_send_and_consume(secured: Secured) -> None:
    topic, taken, is_all = secured.topic("blocking"), list[bytes](), threading.Event()

    def take(message: ReceivedMessage) -> None:
        taken.append(message.body)
        if len(taken) >= COUNT:
            is_all.set()

    with Producer(secured.address, group="senders", tls=secured.tls) as producer:
        for number in range(COUNT):
            producer.send(Message(topic, b"%d" % number))
    consumer = PushConsumer(
        secured.address, group="blocking", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, tls=secured.tls
    )
    consumer.subscribe(topic, "*", take)
    with consumer:
        assert is_all.wait(SOON_S)
    assert sorted(taken) == BODIES


async def test_clients_on_a_loop_send_and_consume(secured: Secured) -> None:
    topic, taken, is_all = await asyncio.to_thread(secured.topic, "loop"), list[bytes](), asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        taken.append(message.body)
        if len(taken) >= COUNT:
            is_all.set()

    async with aio.Producer(secured.address, group="senders", tls=secured.tls) as producer:
        await asyncio.gather(*(producer.send(Message(topic, b"%d" % number)) for number in range(COUNT)))
    consumer = aio.PushConsumer(
        secured.address, group="loop", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, tls=secured.tls
    )
    consumer.subscribe(topic, "*", take)
    async with consumer, asyncio.timeout(SOON_S):
        await is_all.wait()
    assert sorted(taken) == BODIES


# --- what is refused


def test_servers_that_nobody_vouches_for_are_refused(secured: Secured) -> None:
    wrong = Tls(trust_path=secured.files.stranger)
    with (
        pytest.raises(ConnectError, match="certificate"),
        Producer(secured.address, group="wary", tls=wrong) as producer,
    ):
        producer.send(Message("TBW102", b"secret"))
    with pytest.raises(ConnectError, match="certificate"), patient_admin(secured.address, True) as admin:
        admin.brokers.clusters()


async def test_servers_that_nobody_vouches_for_are_refused_on_a_loop(secured: Secured) -> None:
    consumer = aio.PushConsumer(secured.address, group="wary", tls=Tls(trust_path=secured.files.stranger))
    with pytest.raises(ConnectError, match="certificate"):
        async with consumer:
            pass


def test_broker_that_wants_a_certificate_refuses_a_client_without_one(secured: Secured) -> None:
    topic = secured.topic("guarded")
    with Producer(secured.address, group="bare", tls=Tls(trust_path=secured.files.trust)) as producer:
        assert len(producer.queues(topic)) == 2  # the name server wants none
        with pytest.raises(SendFailedError, match="certificate"):  # TLS 1.3: after the handshake
            producer.send(Message(topic, b"secret"))


def test_plain_client_gets_nowhere(secured: Secured) -> None:
    with pytest.raises(TransportError), Admin(secured.address) as admin:
        admin.brokers.clusters()


def test_certificate_for_another_host_is_refused(secured: Secured, release: Release, tmp_path: Path) -> None:
    properties = secured.files.for_java("elsewhere", secured.files.elsewhere)
    with ApacheNameServer(release, tmp_path / "name-server", properties=properties) as name_server:
        name_server.wait_until_ready()
        with pytest.raises(ConnectError, match="certificate"), patient_admin(name_server.address, secured.tls) as admin:
            admin.brokers.clusters()
        with patient_admin(name_server.address, Tls(verifies=False)) as admin:
            assert admin.brokers.clusters() == []
