"""What happens in `rocketline demo`: made-up brokers and a client speak to a name server over TCP, as real ones do.

The brokers are only told of: nobody listens at their addresses. The frames, the name server and its answers are real.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rocketline.errors import RequestTimeoutError, ResponseError
from rocketline.model.route import MASTER_ID, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.net.remote import Remote
from rocketline.wire.bodies import RegisterBrokerBody, decode, encode_register_body
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetRouteInfoRequestHeader, RegisterBrokerRequestHeader, encode

CLUSTER = "DemoCluster"
TOPICS = (TopicConfig("orders", 8, 8), TopicConfig("payments", 4, 4))

_TIMEOUT_S = 3.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class DemoBroker:
    """A broker that exists in the name server's tables only."""

    name: str
    broker_id: int
    address: str


BROKERS = (
    DemoBroker("broker-a", MASTER_ID, "127.0.0.1:10911"),
    DemoBroker("broker-a", 1, "127.0.0.1:10921"),
    DemoBroker("broker-b", MASTER_ID, "127.0.0.1:11911"),
)


async def register(connection: Remote, broker: DemoBroker) -> None:
    """Tell the name server of a broker and its topics. The broker lasts as long as the connection."""
    header = RegisterBrokerRequestHeader(
        broker_name=broker.name,
        broker_addr=broker.address,
        cluster_name=CLUSTER,
        ha_server_addr=broker.address,
        broker_id=broker.broker_id,
    )
    table = TopicConfigTable(DataVersion(counter=1), topic_config_table={topic.topic_name: topic for topic in TOPICS})
    body = encode_register_body(RegisterBrokerBody(table), compressed=False)
    await _ask(connection, Command(RequestCode.REGISTER_BROKER, encode(header), body))


async def ask_clusters(connection: Remote) -> ClusterInfo:
    """Who is there."""
    answer = await _ask(connection, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    return decode(ClusterInfo, answer.body)


async def ask_route(connection: Remote, topic: str) -> TopicRouteData:
    """Where a topic's queues are."""
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    answer = await _ask(connection, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, encode(header)))
    return decode(TopicRouteData, answer.body)


async def ask_until_gone(connection: Remote, topic: str, broker_name: str) -> TopicRouteData:
    """The topic's route without that broker, asked for as often as it takes. Raises `RequestTimeoutError`."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                route = await ask_route(connection, topic)
                if broker_name not in {queues.broker_name for queues in route.queue_datas}:
                    return route
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise RequestTimeoutError(connection.address, f"still offers {broker_name} after {_TIMEOUT_S:g} s") from None


async def _ask(connection: Remote, command: Command) -> Command:
    answer = await connection.request(command, _TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        name = RequestCode(command.code).name
        raise ResponseError(answer.code, answer.remark, request=name, address=connection.address)
    return answer
