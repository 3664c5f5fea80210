"""A name server of our own on a free loopback port, and a peer that talks to it as brokers and clients do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rocketline.clock import Clock
from rocketline.model.route import TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.config import load_settings
from rocketline.nameserver.route_answers import RouteReplies
from rocketline.nameserver.server import NameServer
from rocketline.net.remote import Remote
from rocketline.settings import Flag
from rocketline.wire.bodies import RegisterBrokerBody, decode, encode_register_body
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import CURRENT_VERSION, RequestCode
from rocketline.wire.command import Command

MASTER, SLAVE, OTHER = "127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931"


@asynccontextmanager
async def name_server(home: Path, *, clock: Clock | None = None, **settings: str) -> AsyncIterator[NameServer]:
    """`settings` are Apache's keys. A file in `home` keeps what is updated, and the KV configuration."""
    given = {
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(home / "namesrv.conf"),
        **settings,
    }
    flags = [Flag("test", key, value) for key, value in given.items()]
    async with NameServer(load_settings(environ={}, flags=flags), clock=clock) as server:
        yield server


class Peer(Remote):
    """One connection to a name server."""

    async def __aenter__(self) -> Peer:
        return self

    async def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, version: int = CURRENT_VERSION
    ) -> Command:
        return await self.request(Command(code, ext or {}, body, version=version), 5)

    async def register(self, *topics: str | TopicConfig, **broker: Any) -> Command:
        return await self.request(registration(*topics, **broker), 5)

    async def unregister(self, **broker: Any) -> Command:
        return await self.ask(RequestCode.UNREGISTER_BROKER, broker_header(**broker))

    async def ask_route(self, topic: str, *, version: int = CURRENT_VERSION, **ext: str) -> Command:
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **ext}, version=version)

    async def route(self, topic: str) -> TopicRouteData:
        answer = await self.ask_route(topic)
        assert answer.code == 0, answer.remark
        return decode(TopicRouteData, answer.body)

    async def addresses(self, topic: str, name: str = "B") -> dict[int, str]:
        return next(d.broker_addrs for d in (await self.route(topic)).broker_datas if d.broker_name == name)

    async def perm(self, topic: str, name: str = "B") -> int:
        return next(q.perm for q in (await self.route(topic)).queue_datas if q.broker_name == name)

    async def clusters(self) -> ClusterInfo:
        return decode(ClusterInfo, (await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)

    async def until_unknown(self, topic: str) -> None:
        """Ask until the topic is gone; the test's timeout is the bound."""
        while (await self.ask_route(topic)).code != 17:
            pass


def registration(
    *topics: str | TopicConfig,
    broker_id: int = 0,
    address: str = MASTER,
    name: str = "B",
    cluster: str = "C",
    data_version: DataVersion | None = None,
    **ext: str,
) -> Command:
    """REGISTER_BROKER with these topics; `ext` are further header fields."""
    configs = [TopicConfig(topic, 4, 4) if isinstance(topic, str) else topic for topic in topics]
    table = TopicConfigTable(
        data_version or DataVersion(counter=1), topic_config_table={config.topic_name: config for config in configs}
    )
    header = broker_header(broker_id, address, name, cluster) | {"haServerAddr": f"{address}1"} | ext
    body = encode_register_body(RegisterBrokerBody(table), compressed=False)
    return Command(RequestCode.REGISTER_BROKER, header, body)


def broker_header(broker_id: int = 0, address: str = MASTER, name: str = "B", cluster: str = "C") -> dict[str, str]:
    return {"brokerName": name, "brokerAddr": address, "clusterName": cluster, "brokerId": str(broker_id)}


@asynccontextmanager
async def serving(home: Path, *, clock: Clock | None = None, **settings: str) -> AsyncIterator[Peer]:
    """A name server and one peer of it."""
    async with name_server(home, clock=clock, **settings) as server, Peer(server.address) as peer:
        yield peer


class UnusedPeer:
    """Who asks a hot path that answers everybody alike and at once."""

    peer = ""
    read_s = 0.0

    def reply_bytes(self, replies: bytes, count: int) -> None:
        raise AssertionError("nothing was to be answered later")


UNUSED_PEER = UnusedPeer()


def kept_reply(replies: RouteReplies, whole: bytes) -> bytes | None:
    """What the hot path makes of a single frame: its reply, or None if it leaves the frame alone."""
    end, reply, _ = replies.answer(UNUSED_PEER, whole, 0, 1)
    assert end in (0, len(whole))
    return reply if end else None
