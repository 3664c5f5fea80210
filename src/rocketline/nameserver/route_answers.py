"""Answers to GET_ROUTEINFO_BY_TOPIC, kept for as long as nothing changes that they depend on.

Route queries are nearly all that a name server does, and the same few frames come again and again, different only in
their opaque number. So two things are kept: the encoded body of each topic, and whole replies by the bytes that asked
for them. Both belong to one version of the tables, the KV configuration and the settings, and go with it.
"""

from __future__ import annotations

from dataclasses import replace

from rocketline.errors import RemoteProtocolError
from rocketline.hot import HotPeer
from rocketline.model.route import TopicRouteData
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketline.nameserver.route_table import RouteTable
from rocketline.nameserver.route_view import with_acting_masters
from rocketline.settings import Settings
from rocketline.wire import frame
from rocketline.wire.bodies.routes import encode_route
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command
from rocketline.wire.connection import Connection

REPLIES_MAX = 65_536
REPLY_BYTES_MAX = 64 * 1024 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024
"""Of encoded routes that are kept; beyond it all are forgotten."""
_OPAQUE = b'"opaque":'
_OPAQUE_MAX = b"2147483647"
_NO_FRAME = bytes(8)
_QUESTION_BYTES_MAX = 1024
_BINARY = SerializeType.ROCKETMQ.value


class RouteAnswers:
    """Routes as this server tells them, and their encoded form."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        settings: Settings[NameServerConfig],
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._table, self._kv, self._settings = table, kv, settings
        self._version = -1
        self._bodies: dict[tuple[str, bool], bytes] = {}
        self._body_bytes_max = body_bytes_max
        self.kept_bytes = 0

    @property
    def version(self) -> int:
        """Never the same again once an answer may have changed: all three only grow."""
        return self._table.version + self._kv.version + self._settings.version

    def route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic under the settings in force, None if there is none."""
        route, config = self._table.route(topic), self._settings.value
        if route is None:
            return None
        if config.order_message_enable:
            route = replace(route, order_topic_conf=self._kv.get(ORDER_TOPIC_NAMESPACE, topic))
        return with_acting_masters(topic, route) if config.support_acting_master else route

    def body(self, topic: str, *, strict: bool) -> bytes | None:
        """The encoded route, None if there is none. `strict` is standard JSON, for those who read nothing else."""
        if self._version != self.version:
            self._version = self.version
            self._forget_all()
        body = self._bodies.get((topic, strict))
        if body is None and (route := self.route(topic)) is not None:
            body = encode_route(route, strict=strict)
            self._keep((topic, strict), body)
        return body

    def _keep(self, key: tuple[str, bool], body: bytes) -> None:
        if self.kept_bytes + len(body) > self._body_bytes_max:
            self._forget_all()
        if len(body) <= self._body_bytes_max:
            self._bodies[key] = body
            self.kept_bytes += len(body)

    def _forget_all(self) -> None:
        self._bodies.clear()
        self.kept_bytes = 0


class RouteReplies:
    """Whole replies by the frames that asked for them: the name server's hot path.

    `answer` is a hot path: it sees what was read before it is decoded. A frame that it has no reply for takes the usual
    way through decoder and handler, who then calls `remember`. Nothing is kept that was not answered that way first.

    A frame's key is all of it but its opaque, whose number of digits it tells nonetheless: by the frame's length or, if
    the header is binary, in the opaque's place. So replies to frames with one key differ in these digits only. That is
    true of replies with JSON headers; a server that writes binary ones does without.
    """

    def __init__(
        self,
        answers: RouteAnswers,
        *,
        replies_max: int = REPLIES_MAX,
        reply_bytes_max: int = REPLY_BYTES_MAX,
    ) -> None:
        self._answers = answers
        self._replies_max, self._reply_bytes_max = replies_max, reply_bytes_max
        self._connection: Connection[None] = Connection("")
        self._version = -1
        self._replies: dict[bytes, tuple[bytes, bytes]] = {}
        self._bytes = 0
        self._missed = _NO_FRAME

    def answer(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """The replies to the frames from `start` on, up to the first without a kept one; and where that begins."""
        if self._version != self._answers.version:
            self._forget_all()
        replies: list[bytes] = []
        kept, size = self._replies, 0
        # A whole frame ends within the data. Long ones are not kept, and the shortest has a prefix and a binary opaque.
        while size < reply_bytes_max and 17 <= (length := _length(data, start)) <= _QUESTION_BYTES_MAX:
            if start + length > len(data):
                break
            request = data[start : start + length]
            key, digits = _cut_opaque(request)
            reply = kept.get(key)
            if reply is None or not digits:
                self._missed = request
                break
            replies += (reply[0], digits, reply[1])
            size += len(reply[0]) + len(digits) + len(reply[1])
            start += length
        return start, b"".join(replies), 0

    def remember(self, request: Command, reply: Command) -> None:
        """Keep the successful `reply`, if the frame that `answer` saw last is indeed the one that asked for it."""
        asked, self._missed = self._missed, _NO_FRAME
        key, digits = _cut_opaque(asked)
        if digits != b"%d" % request.opaque or not _is_question(asked, digits, request):
            return
        data = self._connection.reply(request, replace(reply))
        at = data.index(_OPAQUE) + len(_OPAQUE)
        self._keep(key, (data[:at], data[at + len(digits) :]))

    def _keep(self, key: bytes, reply: tuple[bytes, bytes]) -> None:
        size = len(key) + len(reply[0]) + len(reply[1])
        if len(self._replies) >= self._replies_max or self._bytes + size > self._reply_bytes_max:
            self._forget_all()
        if self._version == self._answers.version and key not in self._replies:
            self._replies[key] = reply
            self._bytes += size

    def _forget_all(self) -> None:
        self._version = self._answers.version
        self._replies.clear()
        self._bytes = 0


def _length(data: bytes, start: int) -> int:
    """What the frame at `start` says of its length, that field included."""
    return 4 + int.from_bytes(data[start : start + 4], "big")


def _cut_opaque(request: bytes) -> tuple[bytes, bytes]:
    """A frame without its opaque, and the opaque as a reply writes it; b"" if the decoder shall judge what it is."""
    if request[4] == _BINARY:
        digits = b"%d" % int.from_bytes(request[13:17], "big", signed=True)
        return request[:13] + bytes((len(digits),)) + request[17:], digits
    at = request.find(_OPAQUE) + len(_OPAQUE)
    end = request.find(b",", at)
    digits = request[at:end]
    size = end - at
    is_plain = digits.isdigit() and (size == 1 or digits[0] != 0x30) and (size < 10 or digits <= _OPAQUE_MAX)
    return request[:at] + request[end:], digits if is_plain else b""


def _is_question(asked: bytes, digits: bytes, request: Command) -> bool:
    """Whether `asked` is the frame of `request`, with its opaque where `_cut_opaque` found these digits.

    In JSON they might be a field of that name elsewhere, one of two, or part of a text. Others in their place prove it.
    """
    if asked[4] == _BINARY:
        return _means(asked, request)
    ones = b"1" * len(digits)
    other = ones if digits != ones else ones[1:] + b"2"
    changed = asked.replace(_OPAQUE + digits + b",", _OPAQUE + other + b",", 1)
    return _means(asked, request) and _means(changed, replace(request, opaque=int(other)))


def _means(whole: bytes, request: Command) -> bool:
    try:
        return frame.decode(whole) == request
    except RemoteProtocolError:
        return False
