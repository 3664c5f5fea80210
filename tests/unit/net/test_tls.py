"""The TLS layer on a channel, without sockets."""

from __future__ import annotations

import ssl

import pytest
import trustme

from rocketline.errors import RemoteProtocolError
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.tls import TlsLayer
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.command import Command, response
from support.net.doubles import MemoryTransport, RecordingOwner, feed, turn

ASK = frame.encode(Command(105, opaque=1))


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    return server, client


def established(
    owner: RecordingOwner, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> tuple[Channel, MemoryTransport, TlsLayer]:
    """A server's channel and the layer of its peer, after their handshake."""
    client = TlsLayer(contexts[1], server_hostname="localhost")
    channel = Channel(owner, tls=TlsLayer(contexts[0]))
    transport = MemoryTransport(channel)
    channel.connection_made(transport)
    client.receive(b"")
    while output := client.take_output():
        feed(channel, output)
        client.receive(b"".join(transport.written))
        transport.written.clear()
    assert client.is_established
    return channel, transport, client


async def test_broken_record_while_an_answer_is_about_to_go_out_closes_the_connection(
    clock: FakeClock, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    owner = RecordingOwner(clock, lambda *_: LATER)
    channel, transport, client = established(owner, contexts)
    feed(channel, client.send(ASK))
    channel.reply(Command(105, opaque=1), response(0))
    feed(channel, b"\x17\x03\x03\x00\x40" + bytes(64))
    assert transport.closed
    await turn()
    ((_, reason),) = owner.closed
    assert isinstance(reason, RemoteProtocolError)


async def test_handler_that_closes_its_connection_and_answers_harms_nobody(
    clock: FakeClock, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    def close(channel: Channel, request: Command) -> Outcome:
        channel.close()
        return response(0)

    owner = RecordingOwner(clock, close)
    channel, transport, client = established(owner, contexts)
    feed(channel, client.send(ASK))
    assert client.receive(b"".join(transport.written)) == b""
    assert client.is_finished
    await turn()
    assert len(owner.closed) == 1
