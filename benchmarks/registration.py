"""A broker as far as a name server can tell: it registers topics, sends heartbeats and asks for routes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rocketline.errors import ResponseError
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

CLUSTER = "BenchCluster"
_REPLY_TIMEOUT_S = 60


def topic_names(prefix: str, count: int) -> list[str]:
    """The names that the load generator asks for.

    >>> topic_names("bench", 2)
    ['bench-0', 'bench-1']
    """
    return [f"{prefix}-{i}" for i in range(count)]


class Registrar:
    """One blocking connection to the name server at `port`. Closing it takes back what it registered.

    A name server tells brokers apart by name and by address: two registrars at one need different ones of both.
    """

    def __init__(self, port: int, *, broker_name: str = "bench", broker_port: int = 10911) -> None:
        self._identity = {
            "brokerName": broker_name,
            "brokerAddr": f"127.0.0.1:{broker_port}",
            "clusterName": CLUSTER,
            "brokerId": "0",
        }
        self._socket = socket.create_connection(("127.0.0.1", port), _REPLY_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = frame.FrameReader()
        self._opaque = 0

    def __enter__(self) -> Registrar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The name server notices, and drops the broker."""
        self._socket.close()

    def register(self, topics: Iterable[str], version: int) -> float:
        """Register a master with all of `topics` at data version `version`; the seconds until it was answered."""
        ext = self._identity | {"haServerAddr": "127.0.0.1:10912", "heartbeatTimeoutMillis": "120000"}
        request = Command(RequestCode.REGISTER_BROKER, ext, _registration_body(topics, version))
        began = time.perf_counter()
        self._ask(request)
        return time.perf_counter() - began

    def heartbeat(self) -> None:
        """Keep what was registered: after 120 s without a word a name server drops it."""
        self._ask(Command(RequestCode.BROKER_HEARTBEAT, self._identity))

    def route(self, topic: str) -> dict[str, Any] | None:
        """Where `topic` lives, or None if the name server does not know it."""
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        try:
            route: dict[str, Any] = json.loads(self._ask(request).body)
        except ResponseError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return None
        return route

    def _ask(self, request: Command) -> Command:
        self._opaque += 1
        request.opaque = self._opaque
        self._socket.sendall(frame.encode(request))
        while (reply := self._frames.take()) is None:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the name server closed the connection")
            self._frames.feed(data)
        response = frame.decode(reply)
        if response.opaque != request.opaque:
            raise ConnectionError(f"request {request.opaque} was answered with {response.opaque}")
        if response.code != ResponseCode.SUCCESS:
            raise ResponseError(response.code, response.remark, request=RequestCode(request.code).name)
        return response


def _registration_body(topics: Iterable[str], version: int) -> bytes:
    """RegisterBrokerBody, as a Java broker writes it."""
    data_version = {"counter": version, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    wrapper = {
        "dataVersion": data_version,
        "mappingDataVersion": data_version,
        "topicConfigTable": {name: _topic_config(name) for name in topics},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body, separators=(",", ":")).encode()


def _topic_config(name: str) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 8,
    }
