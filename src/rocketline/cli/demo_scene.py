"""What happens in `rocketline demo`: a producer and a consumer speak to a name server and a broker over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketline.broker.config import load_settings as load_broker_settings
from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.errors import RequestTimeoutError, ResponseError
from rocketline.model import property_names
from rocketline.model.message import StoredMessage
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.model.route import TopicRouteData
from rocketline.model.sys_flags import PULL_SUBSCRIPTION
from rocketline.nameserver.config import load_settings as load_name_server_settings
from rocketline.nameserver.server import NameServer
from rocketline.net.remote import Remote
from rocketline.settings import Flag
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.wire import headers
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from rocketline.wire.properties import format_properties

CLUSTER, BROKER, TOPIC, QUEUES = "DemoCluster", "broker-a", "orders", 4

_LOOPBACK = "127.0.0.1"
_MEMORY_BYTES = 256 * 1024**2
_SEGMENT_BYTES = 1024**2
_TIMEOUT_S = 3.0
_POLL_S = 0.01


def name_server(folder: Path) -> NameServer:
    """A name server on a free port."""
    flags = [
        Flag("demo", "bindAddress", _LOOPBACK),
        Flag("demo", "listenPort", "0"),
        Flag("demo", "kvConfigPath", str(folder / "kvConfig.json")),
        Flag("demo", "configStorePath", str(folder / "namesrv.properties")),
    ]
    return NameServer(load_name_server_settings(flags=flags))


@asynccontextmanager
async def broker(name_server: str) -> AsyncIterator[Broker]:
    """A broker on free ports that keeps its messages in memory, registered with the name server."""
    given = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER,
        "bindAddress": _LOOPBACK,
        "brokerIP1": _LOOPBACK,
        "brokerIP2": _LOOPBACK,
        "listenPort": "0",
        "namesrvAddr": name_server,
        "storePathRootDir": "/demo",
        "mappedFileSizeCommitLog": str(_SEGMENT_BYTES),
    }
    settings = load_broker_settings(flags=[Flag("demo", key, text) for key, text in given.items()])
    async with Broker(settings, files=MemoryFileSystem(SystemClock(), capacity=_MEMORY_BYTES)) as running:
        yield running


async def send(producer: Remote, queue_id: int, key: str, tag: str, body: str) -> int:
    """Store a message; the first one makes its topic. Returns its place in the queue."""
    properties = {property_names.KEYS: key, property_names.TAGS: tag, property_names.WAIT: "true"}
    header = headers.SendMessageRequestHeaderV2(
        producer_group="demo-producers",
        topic=TOPIC,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=SystemClock().wall_ms(),
        flag=0,
        properties=format_properties(properties),
    )
    command = Command(RequestCode.SEND_MESSAGE_V2, headers.encode(header), body.encode())
    answer = await _ask(producer, command)
    return headers.decode(headers.SendMessageResponseHeader, answer.ext).queue_offset


async def pull(consumer: Remote, queue_id: int, tags: str) -> list[StoredMessage]:
    """The messages of a queue that have one of the tags."""
    header = headers.PullMessageRequestHeader(
        consumer_group="demo-consumers",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=tags,
        sub_version=0,
        expression_type="TAG",
    )
    answer = await consumer.request(Command(RequestCode.PULL_MESSAGE, headers.encode(header)), _TIMEOUT_S)
    return decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else []


async def ask_clusters(client: Remote) -> ClusterInfo:
    """Who is there."""
    answer = await _ask(client, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    return decode(ClusterInfo, answer.body)


async def ask_until_known(client: Remote, topic: str) -> TopicRouteData:
    """Where a topic's queues are, asked for until the broker has told. Raises `RequestTimeoutError`."""
    header = headers.GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.encode(header))
                answer = await client.request(command, _TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    return decode(TopicRouteData, answer.body)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise RequestTimeoutError(client.address, f"does not know {topic} after {_TIMEOUT_S:g} s") from None


async def _ask(connection: Remote, command: Command) -> Command:
    answer = await connection.request(command, _TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        name = RequestCode(command.code).name
        raise ResponseError(answer.code, answer.remark, request=name, address=connection.address)
    return answer
