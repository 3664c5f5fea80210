"""TLS on the same port as plain connections. Certificates are made for each run."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from rocketline.errors import ConfigError, ConnectError, TransportError
from rocketline.net.config import ClientAuth, TlsConfig, TlsMode
from rocketline.net.remote import Remote
from rocketline.wire import frame
from rocketline.wire.command import Command
from support.net.authorities import Authority
from support.net.servers import ECHO, read_command, serve


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def ask(address: str, context: ssl.SSLContext | None) -> int:
    async with Remote(address, tls=context) as remote:
        return (await remote.request(Command(ECHO, body=b"x" * 100_000), 5)).code


async def test_permissive_server_serves_plain_and_tls_on_one_port(authority: Authority) -> None:
    """S250."""
    async with serve(tls=authority.server()) as server:
        assert await ask(server.address, None) == 0
        assert await ask(server.address, authority.client()) == 0


async def test_enforcing_server_closes_plain_connections(authority: Authority) -> None:
    """S250."""
    async with serve(tls=authority.server(server_mode=TlsMode.ENFORCING)) as server:
        assert await ask(server.address, authority.client()) == 0
        with pytest.raises(TransportError):
            await ask(server.address, None)


async def test_disabled_server_closes_tls_connections(authority: Authority) -> None:
    """S250."""
    async with serve(tls=authority.server(server_mode=TlsMode.DISABLED)) as server:
        assert await ask(server.address, None) == 0
        with pytest.raises(ConnectError):
            await ask(server.address, authority.client())


async def test_permissive_server_without_a_certificate_closes_tls_connections(authority: Authority) -> None:
    async with serve() as server:
        with pytest.raises(ConnectError):
            await ask(server.address, authority.client())
        assert await ask(server.address, None) == 0


async def test_client_refuses_a_certificate_of_an_unknown_authority(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    async with serve(tls=authority.server()) as server:
        with pytest.raises(ConnectError, match="certificate is not accepted"):
            await ask(server.address, stranger.client())
        assert await ask(server.address, stranger.client(client_auth_server=False)) == 0


async def test_client_refuses_a_certificate_for_another_name(authority: Authority) -> None:
    certificate, key = authority.issue("elsewhere", "192.0.2.1")
    async with serve(tls=authority.server(server_cert_path=certificate, server_key_path=key)) as server:
        with pytest.raises(ConnectError, match="certificate is not accepted"):
            await ask(server.address, authority.client())


async def test_required_client_certificate_is_asked_for_and_checked(authority: Authority) -> None:
    tls = authority.server(need_client_auth=ClientAuth.REQUIRE, server_trust_cert_path=str(authority.trust))
    certificate, key = authority.issue("client", "client.test")
    async with serve(tls=tls) as server:
        assert await ask(server.address, authority.client(client_cert_path=certificate, client_key_path=key)) == 0
        with pytest.raises(TransportError):
            await ask(server.address, authority.client())
        assert await ask(server.address, authority.client(client_cert_path=certificate, client_key_path=key)) == 0


async def test_optional_client_certificate_may_be_left_out_but_not_be_foreign(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    certificate, key = Authority(tmp_path / "other").issue("client", "client.test")
    tls = authority.server(need_client_auth=ClientAuth.OPTIONAL, server_trust_cert_path=str(authority.trust))
    async with serve(tls=tls) as server:
        assert await ask(server.address, authority.client()) == 0
        with pytest.raises(TransportError):
            await ask(server.address, authority.client(client_cert_path=certificate, client_key_path=key))


async def test_proxy_preamble_before_tls(authority: Authority) -> None:
    async with serve(tls=authority.server()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\r\n")
        await writer.start_tls(authority.client(), server_hostname="127.0.0.1")
        writer.write(frame.encode(Command(ECHO, opaque=9)))
        assert (await read_command(reader)).opaque == 9
        writer.close()
        await writer.wait_closed()


async def test_handshake_that_arrives_byte_by_byte(authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    async with serve(tls=authority.server()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await writer.drain()
                incoming.write(await reader.read(65536))
        client.write(frame.encode(Command(ECHO, opaque=5)))
        writer.write(outgoing.read())
        while True:
            try:
                answer = client.read(65536)
                break
            except ssl.SSLWantReadError:
                incoming.write(await reader.read(65536))
        assert frame.decode(answer).opaque == 5
        writer.close()
        await writer.wait_closed()


async def test_renewed_certificate_serves_new_connections(authority: Authority, tmp_path: Path) -> None:
    """The new pair counts once both of its files have changed."""
    tls = authority.server()
    (tmp_path / "renewed").mkdir()
    renewed = Authority(tmp_path / "renewed")
    certificate, key = renewed.issue("server", "127.0.0.1")
    async with serve(tls=tls) as server:
        assert await ask(server.address, authority.client()) == 0
        _copy(certificate, tls.server_cert_path)
        assert await ask(server.address, authority.client()) == 0
        _copy(key, tls.server_key_path)
        assert await ask(server.address, renewed.client()) == 0


async def test_renewed_pair_in_one_file_serves_new_connections(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "renewed").mkdir()
    renewed = Authority(tmp_path / "renewed")
    both = tmp_path / "both.pem"
    _join(both, *authority.issue("server", "127.0.0.1"))
    async with serve(tls=TlsConfig(server_cert_path=str(both))) as server:
        assert await ask(server.address, authority.client()) == 0
        _join(both, *renewed.issue("server", "127.0.0.1"))
        assert await ask(server.address, renewed.client()) == 0


async def test_renewal_that_cannot_be_loaded_leaves_the_old_one(authority: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    _join(both, *authority.issue("server", "127.0.0.1"))
    async with serve(tls=TlsConfig(server_cert_path=str(both))) as server:
        both.write_bytes(b"no certificate")
        with pytest.raises(ConnectError):
            await ask(server.address, authority.client())
        assert await ask(server.address, authority.client()) == 0


def _join(target: Path, *sources: str) -> None:
    target.write_bytes(b"".join(Path(source).read_bytes() for source in sources) + b"\n")


def _copy(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes() + b"\n")  # one byte more: the clock of files may be coarse


async def test_certificate_that_cannot_be_read_stops_the_start_and_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        serve(tls=TlsConfig(server_cert_path=missing))


async def test_client_certificates_without_a_trust_file_stop_the_start(authority: Authority) -> None:
    with pytest.raises(ConfigError, match="trustCertPath"):
        serve(tls=authority.server(need_client_auth=ClientAuth.REQUIRE))
