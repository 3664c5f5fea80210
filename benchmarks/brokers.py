"""The brokers to compare, each in a process of its own, and the few questions that a benchmark has for one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from benchmarks.servers import Server, answering, check_speed, rocketline_command, rocketline_label
from rocketline.clock import SystemClock
from rocketline.errors import ResponseError
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.model.subscription import MessageRequestMode
from rocketline.settings.properties import format_properties, parse_properties
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.exchange import Exchange
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.pop import SetMessageRequestModeRequestBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

APACHE_HEAP = "2g"
APACHE_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
)
"""As Apache's own start script has it, but for the size of the heap, and without touching all of it at the start."""

_APACHE_DEFAULT_SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "brokerFastFailureEnable": "true",
    "osPageCacheBusyTimeOutMills": "1000",
    "timerFlushIntervalMs": "1000",
}
"""What `ApacheBroker` changes for tests, back to Apache's defaults."""
_SYNC_FLUSH = {"flushDiskType": "SYNC_FLUSH"}
_START_TIMEOUT_S = 300
"""A broker that recovers a large store takes its time."""
_READ_AND_WRITE = 6


class StartBroker(Protocol):
    """Starts a broker on the store in the folder `home`; what was there is found again."""

    def __call__(self, home: Path, *, is_sync: bool = False) -> Server: ...


def start_apache(release: Release, name_servers: Sequence[str], home: Path, *, is_sync: bool = False) -> Server:
    """Apache's broker in its default configuration. With `is_sync`, a send is answered once it is on the disk."""
    settings = _APACHE_DEFAULT_SETTINGS | (_SYNC_FLUSH if is_sync else {})
    began = time.perf_counter()
    process = ApacheBroker(
        release, home, name_servers=name_servers, settings=settings, heap=APACHE_HEAP, jvm=APACHE_JVM
    )
    return answering(f"Apache {release.version}", process, began, _obstacle_to_sends, timeout_s=_START_TIMEOUT_S)


def start_rocketline(
    home: Path,
    *,
    has_speed: bool,
    is_sync: bool = False,
    name_server_port: int | None = None,
    checkout: Path | None = None,
) -> Server:
    """`rocketline serve`, name server and broker in one process, in its default configuration but for `is_sync`.

    With a `checkout`, the code that is there instead of this.
    """
    home.mkdir(parents=True, exist_ok=True)
    port, config = free_port(), home / "broker.conf"
    config.write_text(format_properties(_SYNC_FLUSH if is_sync else {}), "ascii")
    ports = ["--nameserver-port", str(name_server_port or free_port()), "--broker-port", str(port)]
    places = ["--host", LOOPBACK, "--dir", str(home / "data"), "-c", str(config)]
    command = [*rocketline_command(has_speed=has_speed), "serve", *ports, *places]
    label = str(checkout) if checkout else rocketline_label(has_speed=has_speed)
    environment = {"HOME": str(home)} | ({"PYTHONPATH": str(checkout / "src")} if checkout else {})
    began = time.perf_counter()
    process = ServerProcess(label, command, port=port, output=home / "output.txt", environment=environment)
    server = answering(label, process, began, _obstacle_to_sends, timeout_s=_START_TIMEOUT_S)
    check_speed(server, has_speed=has_speed)
    return server


class Questions:
    """One blocking connection to a broker, which closes it after 120 s without a question.

    Every question raises `ResponseError` unless it is answered with success.
    """

    def __init__(self, port: int) -> None:
        self._exchange = Exchange(f"{LOOPBACK}:{port}", timeout_s=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exchange.close()

    def create_topic(self, topic: str, queues: int) -> None:
        """Make a topic with so many queues, or leave it as it is."""
        header = headers.CreateTopicRequestHeader(
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=_READ_AND_WRITE,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
        )
        self._ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def create_group(self, group: str) -> None:
        """Make a consumer group."""
        self._ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode(SubscriptionGroupConfig(group)))

    def let_pop(self, topic: str, group: str) -> None:
        """Have push consumers of the group pop."""
        body = SetMessageRequestModeRequestBody(topic, group, MessageRequestMode.POP)
        self._ask(RequestCode.SET_MESSAGE_REQUEST_MODE, None, encode(body))

    def broker_name(self) -> str:
        """What the broker calls itself, and handles name."""
        answer = self._ask(RequestCode.GET_BROKER_CONFIG, None)
        return next(line.value for line in parse_properties(answer.body) if line.key == "brokerName")

    def depths(self, topic: str, queues: int) -> list[int]:
        """How many messages each queue has ever got."""
        return [self._max_offset(topic, queue_id) for queue_id in range(queues)]

    def _max_offset(self, topic: str, queue_id: int) -> int:
        header = headers.GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = self._ask(RequestCode.GET_MAX_OFFSET, header)
        return headers.decode(headers.GetMaxOffsetResponseHeader, answer.ext).offset

    def send_to_each(self, topic: str, queues: int) -> None:
        """Store one small message in each queue."""
        for queue_id in range(queues):
            self.send(topic, queue_id)

    def send(self, topic: str, queue_id: int = 0) -> None:
        """Store one small message; a topic that is not there is made."""
        header = headers.SendMessageRequestHeaderV2(
            producer_group="bench-producer",
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=1,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=SystemClock().wall_ms(),
            flag=0,
        )
        self._ask(RequestCode.SEND_MESSAGE_V2, header, b"first")

    def pull_one(self, topic: str, queue_id: int, offset: int) -> bytes:
        """The record of one message."""
        return self._ask(RequestCode.PULL_MESSAGE, _pull_header(topic, queue_id, offset, 1)).body

    def pull(self, topic: str, offset: int) -> bytes:
        """Records of the first queue from there on; none if there are none."""
        header = _pull_header(topic, 0, offset, 32)
        answer = self._exchange.ask(Command(RequestCode.PULL_MESSAGE, headers.encode(header)))
        return answer.body if answer.code == ResponseCode.SUCCESS else b""

    def _ask(self, code: RequestCode, header: headers.Header | None, body: bytes = b"") -> Command:
        answer = self._exchange.ask(Command(code, {} if header is None else headers.encode(header), body))
        if answer.code != ResponseCode.SUCCESS:
            raise ResponseError(answer.code, answer.remark, request=code.name)
        return answer


def _obstacle_to_sends(port: int) -> str | None:
    """Why a broker stores no message yet."""
    try:
        with Questions(port) as questions:
            questions.send("bench-start")
    except (OSError, ResponseError) as error:
        return str(error)
    return None


def _pull_header(topic: str, queue_id: int, offset: int, count: int) -> headers.PullMessageRequestHeader:
    return headers.PullMessageRequestHeader(
        consumer_group="bench-consumer",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=4,  # with the subscription
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
