"""Two name servers that are told the same, request by request, and must answer the same.

What has no order in Java is compared without order. A body is compared twice: by its meaning, and by how often each
character occurs in it, which also tells differences of quotes, escapes and empty fields.
"""

from __future__ import annotations

import json
import socket
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rocketline.testing.exchange import Exchange
from rocketline.wire import fastjson
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

JAVA_5_5_0 = 513
JAVA_4_9_3 = 399
"""The last release that is answered in the dialect unless it asks for standard JSON."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that can be sent to both."""

    code: int
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = JAVA_5_5_0

    def command(self) -> Command:
        return Command(self.code, dict(self.ext), self.body, version=self.version, language="JAVA")


class Answer(NamedTuple):
    """What must be equal. A remark is a server's own words."""

    request: Request
    code: int
    ext: dict[str, str]
    body: Any
    spelling: dict[str, int]


class Caller(Exchange):
    """A connection to one of the two."""

    def close(self) -> None:
        """Return when the server has seen the end of it, and has ended its side, too; or when its time is up."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
            while self._connection.recv(65_536):
                pass
        super().close()


class Twin:
    """One of the two, with a connection per caller: whoever hangs up is taken for dead."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connections: dict[str, Caller] = {}

    def ask(self, request: Request, caller: str = "observer") -> Answer:
        if caller not in self._connections:
            self._connections[caller] = Caller(self.address)
        answer = self._connections[caller].ask(request.command())
        body: Any = answer.body.decode()
        if body[:1] == "{":
            body = _without_order(fastjson.parse(answer.body))
        if request.code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
            body.pop("brokerAddr", None)  # of any broker
            answer.body = b""
        return Answer(request, answer.code, answer.ext, body, _spelling(answer.body))

    def hang_up(self, caller: str) -> None:
        if caller in self._connections:
            self._connections.pop(caller).close()

    def close(self) -> None:
        for caller in list(self._connections):
            self.hang_up(caller)


@contextmanager
def twins(ours: str, apache: str) -> Iterator[tuple[Twin, Twin]]:
    """Connections to both, all closed afterwards."""
    both = Twin(ours), Twin(apache)
    try:
        yield both
    finally:
        for twin in both:
            twin.close()


def registration(
    fields: Mapping[str, str],
    topics: Mapping[str, Mapping[str, Any]],
    *,
    data_version: Mapping[str, int],
    mappings: Mapping[str, Any] | None = None,
    filter_servers: list[str] | None = None,
) -> Request:
    """REGISTER_BROKER with its body in Java's layout, written by hand so that our encoder is not asked."""
    table = {name: {"topicName": name, "topicFilterType": "SINGLE_TAG", **topic} for name, topic in topics.items()}
    wrapper = {
        "dataVersion": data_version,
        "topicConfigTable": table,
        "topicQueueMappingInfoMap": mappings or {},
    }
    content: dict[str, Any] = {"topicConfigSerializeWrapper": wrapper}
    if filter_servers is not None:
        content["filterServerList"] = filter_servers
    body = json.dumps(content).encode()
    checksum = {"bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
    return Request(RequestCode.REGISTER_BROKER, checksum | dict(fields), body)


def _spelling(body: bytes) -> dict[str, int]:
    """How often each character occurs."""
    return dict(sorted(Counter(body.decode()).items()))


def _without_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_order(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((_without_order(item) for item in value), key=repr)
    return value
