"""Clients over TLS, on both loops: the server is checked, and a client shows its own certificate where one is asked."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from rocketline import Message, Tls
from rocketline import Producer as BlockingProducer
from rocketline.aio import Producer
from rocketline.errors import ConnectError, TransportError
from rocketline.net.config import ClientAuth, TlsConfig, TlsMode
from rocketline.testing.scripted_peer import ScriptedPeer


class Files:
    """The files of an authority, a server at 127.0.0.1 and a client."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.trust = str(folder / "trust.pem")
        authority.cert_pem.write_to_path(self.trust)
        self.server, self.client = str(folder / "server.pem"), str(folder / "client.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.server)
        authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(self.client)
        trustme.CA().cert_pem.write_to_path(folder / "stranger.pem")
        self.stranger = str(folder / "stranger.pem")

    def peer(self, auth: ClientAuth = ClientAuth.NONE) -> ScriptedPeer:
        return ScriptedPeer(
            tls=TlsConfig(
                server_mode=TlsMode.ENFORCING,
                server_cert_path=self.server,
                server_trust_cert_path=self.trust,
                need_client_auth=auth,
            )
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def send(peer: ScriptedPeer, tls: bool | Tls | ssl.SSLContext) -> str:
    peer.route("T")
    async with Producer(peer.address, group="P", tls=tls) as producer:
        return (await producer.send(Message("T", b"secret"))).queue.topic


async def test_paths_of_certificates_are_enough(files: Files) -> None:
    async with files.peer() as peer:
        assert await send(peer, Tls(trust_path=files.trust)) == "T"


async def test_context_of_ones_own_is_used(files: Files) -> None:
    async with files.peer() as peer:
        assert await send(peer, ssl.create_default_context(cafile=files.trust)) == "T"


async def test_client_shows_its_certificate_where_it_must(files: Files) -> None:
    async with files.peer(ClientAuth.REQUIRE) as peer:
        assert await send(peer, Tls(trust_path=files.trust, cert_path=files.client)) == "T"


@pytest.mark.parametrize("trusted", ["system", "stranger"])
async def test_server_that_nobody_vouches_for_is_refused(files: Files, trusted: str) -> None:
    tls = True if trusted == "system" else Tls(trust_path=files.stranger)
    async with files.peer() as peer:
        with pytest.raises(ConnectError, match="certificate"):
            await send(peer, tls)


async def test_unverified_server_is_taken_only_when_told_so(files: Files) -> None:
    async with files.peer() as peer:
        assert await send(peer, Tls(verifies=False)) == "T"


async def test_plain_client_gets_nowhere(files: Files) -> None:
    async with files.peer() as peer:
        with pytest.raises(TransportError):
            await send(peer, False)


async def test_blocking_producer_speaks_tls_too(files: Files) -> None:
    def use(address: str) -> str:
        with BlockingProducer(address, group="P", tls=Tls(trust_path=files.trust)) as producer:
            return producer.send(Message("T", b"secret")).queue.topic

    async with files.peer() as peer:
        peer.route("T")
        assert await asyncio.to_thread(use, peer.address) == "T"
