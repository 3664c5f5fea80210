"""A broker with TLS switched on: messages go in and out, on both ports, and strangers are turned away."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from rocketline.broker.server import Broker
from rocketline.errors import TransportError
from rocketline.net.remote import Remote
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.messages import create_topic
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, pull
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2
from support.name_servers.running import name_server
from support.net.authorities import Authority

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def secured(authority: Authority, mode: str) -> dict[str, str]:
    certificate, key = authority.issue("broker", "127.0.0.1")
    return {"tls.server.mode": mode, "tls.server.certPath": certificate, "tls.server.keyPath": key}


def secured_broker(authority: Authority, mode: str, **settings: str) -> AbstractAsyncContextManager[Broker]:
    return broker(clock=None, files=None, **secured(authority, mode), **settings)


async def test_messages_go_in_and_out_over_tls_and_wake_who_waits(authority: Authority) -> None:
    async with (
        secured_broker(authority, "enforcing") as running,
        Remote(running.address, tls=authority.client()) as producer,
        Remote(running.address, tls=authority.client()) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        assert (await producer.request(send_v2(b"first"), 20)).code == 0
        waiting = tasks.create_task(consumer.request(pull(1, flags=SUSPEND | SUBSCRIPTION), 20))
        answers = await asyncio.gather(*[producer.request(send_v2(b"%d" % n, opaque=n), 20) for n in range(200)])
        assert sorted(int(answer.ext["queueOffset"]) for answer in answers) == list(range(1, 201))
        assert (await waiting).code == 0
        found = decode_records((await consumer.request(pull(1, maxMsgNums="500"), 20)).body)
        assert sorted(one.body for one in found) == sorted(b"%d" % n for n in range(200))
        large = await producer.request(send_v2(b"x" * 1_000_000), 20)
        assert large.code == 0
        assert len((await consumer.request(pull(201), 20)).body) > 1_000_000


@pytest.mark.parametrize(("mode", "is_served"), [("permissive", True), ("enforcing", False)])
async def test_plain_client_is_served_if_the_mode_permits(authority: Authority, mode: str, is_served: bool) -> None:
    async with secured_broker(authority, mode) as running, Remote(running.address) as plain:
        request = plain.request(Command(RequestCode.GET_BROKER_RUNTIME_INFO), 20)
        if is_served:
            assert (await request).code == 0
        else:
            with pytest.raises(TransportError):
                await request


async def test_fast_port_speaks_tls_too(authority: Authority) -> None:
    async with secured_broker(authority, "enforcing") as running:
        host, _, port = running.address.rpartition(":")
        async with Remote(f"{host}:{int(port) - 2}", tls=authority.client()) as remote:
            assert (await remote.request(send_v2(b"fast"), 20)).code == 0


async def test_broker_registers_with_a_name_server_that_speaks_tls_only(authority: Authority, tmp_path: Path) -> None:
    own = {"tls.enable": "true", "tls.client.trustCertPath": str(authority.trust)}
    async with (
        name_server(tmp_path, clock=None, **secured(authority, "enforcing")) as names,
        secured_broker(authority, "enforcing", namesrvAddr=names.address, **own) as running,
        Remote(names.address, tls=authority.client()) as client,
    ):
        found = await client.request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}), 20)
        assert running.address.encode() in found.body


async def test_broker_without_tls_turns_a_hello_away_and_serves_on(authority: Authority) -> None:
    async with (
        broker(clock=None, files=None, **{"tls.server.mode": "disabled"}) as running,
        BrokerPeer(running.address) as peer,
    ):
        async with Remote(running.address, tls=authority.client()) as stranger:
            with pytest.raises(TransportError):
                await stranger.request(Command(RequestCode.GET_BROKER_RUNTIME_INFO), 5)
        await create_topic(peer, "T")
        assert (await peer.request(send_v2(), 20)).code == 0
