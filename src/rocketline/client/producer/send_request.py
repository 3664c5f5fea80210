"""From a message to the request that carries it: everything but the queue, which is chosen last.

Two forms of the same request: a `Command`, to which hooks and signatures may add, and its frame made in one go, for the
usual case that nobody wants to add anything.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from json.encoder import encode_basestring as quote
from typing import Final

from rocketline.client.producer.options import ProducerOptions
from rocketline.client.replies import MSG_TYPE_REPLY
from rocketline.client.validation import check_message, check_topic_to_send
from rocketline.errors import InvalidMessageError, LocalProtocolError, MissingExtraError
from rocketline.logs import Log
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.names import is_retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.wire.batch import encode_batch, encode_entry
from rocketline.wire.codes import CURRENT_VERSION, RequestCode
from rocketline.wire.command import Command
from rocketline.wire.compression import compress
from rocketline.wire.frame import FRAME_BYTES_MAX
from rocketline.wire.namespaces import with_namespace
from rocketline.wire.properties import PROPERTIES_BYTES_MAX, format_properties
from rocketline.wire.unique_id import UniqueIdGenerator

_log = Log(__name__)
_PREFIX: Final = struct.Struct(">II")
_SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_REPLY_CODE: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_SURELY_SHORT: Final = PROPERTIES_BYTES_MAX // 4
"""So many characters fit whatever they are: one takes four bytes at most."""
_MOVED_TO_HEADER: Final = (property_names.RECONSUME_TIME, property_names.MAX_RECONSUME_TIMES)


class SendRequest:
    """One message, or one batch, ready to go to any queue of its topic. The same at every attempt, its id included."""

    __slots__ = (
        "batch_id",
        "body",
        "code",
        "flag",
        "head",
        "message_id",
        "messages",
        "moved",
        "properties",
        "sent_ms",
        "sys_flag",
        "topic",
    )

    code: int
    """Of the request: a message's, a batch's, or a reply's."""
    topic: str
    """As it is called on the wire."""
    head: str
    """The header's beginning that all messages of the topic share."""
    messages: Sequence[Message]
    """What the application handed over."""
    message_id: str
    batch_id: str | None
    """The id of a batch as a whole; None tells that it is none."""
    properties: str
    moved: dict[str, str] | None
    """Fields of the header that came as properties, of a message to a retry topic."""
    sys_flag: int
    flag: int
    body: bytes
    sent_ms: int
    """When the last attempt began. Only producers that trace set it."""


class SendRequests:
    """Makes the requests of one producer. Any thread may call it."""

    def __init__(self, group: str, options: ProducerOptions, namespace: str, ids: UniqueIdGenerator) -> None:
        """`group` is the producer's as it is called on the wire."""
        self._group, self._options, self._namespace, self._ids = group, options, namespace, ids
        self._bytes_max, self._compress_over_bytes = options.message_bytes_max, options.compress_over_bytes
        self._instance = f"{property_names.INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._topics: dict[str, tuple[str, str, bool]] = {}
        """By the application's name: the name on the wire, what begins the header, whether it is a retry topic."""

    def prepare(self, message: Message) -> SendRequest:
        """The request for a message. Raises `InvalidNameError` or `InvalidMessageError`."""
        body, properties = message.body, message.properties
        request = SendRequest()
        request.topic, request.head, is_retry = self._topics.get(message.topic) or self._learn(message.topic)
        if (
            type(body) is not bytes
            or not 0 < len(body) <= self._bytes_max
            or message.flag
            or property_names.INNER_MULTI_DISPATCH in properties
        ):
            check_message(message, self._bytes_max)
        request.messages, request.flag = (message,), message.flag
        request.batch_id = request.moved = None
        if is_retry:
            properties, request.moved = _move_to_header(properties)
        if properties:
            request.message_id = properties.get(property_names.UNIQ_KEY) or self._ids.make()
            request.properties = self._format(message.topic, properties, request.message_id)
            request.code = _SEND_CODE
            if properties.get(property_names.MSG_TYPE) == MSG_TYPE_REPLY:
                request.code = _REPLY_CODE
                if self._namespace:
                    request.topic, request.head = message.topic, self._head(message.topic)
        else:
            request.code = _SEND_CODE
            request.message_id = self._ids.make()
            request.properties = f"UNIQ_KEY\x01{request.message_id}\x02{self._instance}"
        request.body, request.sys_flag = body, 0
        if len(body) >= self._compress_over_bytes:
            self._compress(request)
        return request

    def prepare_batch(self, messages: Sequence[Message]) -> SendRequest:
        """The request for several messages at once, none of which is compressed."""
        if not all(isinstance(message, Message) for message in messages):
            raise TypeError(f"a Message is sent, or a sequence of them, not {messages!r:.100}")
        options = self._options
        topic = messages[0].topic if messages else ""
        request = SendRequest()
        members = []
        for message in messages:
            check_message(message, options.message_bytes_max)
            own = dict(message.properties)
            own.setdefault(property_names.UNIQ_KEY, self._ids.make())
            if self._namespace:
                own[property_names.INSTANCE_ID] = self._namespace
            members.append(Message.of(message.topic, message.body, own, message.flag))
        try:
            request.body = encode_batch(members)
        except LocalProtocolError as error:
            raise InvalidMessageError(topic, str(error)) from None
        request.topic, request.head, _ = self._topics.get(topic) or self._learn(topic)
        if len(request.body) > options.message_bytes_max:
            raise InvalidMessageError(
                topic,
                f"the batch has {len(request.body)} bytes: {options.message_bytes_max} are allowed (message_bytes_max)",
            )
        wait = messages[0].properties.get(property_names.WAIT)
        shared = {} if wait is None else {property_names.WAIT: wait}
        request.messages, request.sys_flag, request.flag, request.moved = tuple(messages), 0, 0, None
        request.message_id = ",".join([member.properties[property_names.UNIQ_KEY] for member in members])
        request.code, request.batch_id = _BATCH_CODE, self._ids.make()
        request.properties = self._format(topic, shared, request.batch_id)
        return request

    def prepare_gathered(self, members: Sequence[tuple[SendRequest, bytes]]) -> SendRequest:
        """The batch of messages that were prepared each for itself, for one topic, and are alike in their WAIT; each
        comes with its `entry_of`."""
        first, request = members[0][0], SendRequest()
        request.topic, request.head = first.topic, first.head
        request.messages = [each.messages[0] for each, _ in members]
        request.code, request.sys_flag, request.flag, request.moved = _BATCH_CODE, 0, 0, None
        request.body = b"".join([entry for _, entry in members])
        request.message_id = ",".join([each.message_id for each, _ in members])
        request.batch_id = self._ids.make()
        wait = request.messages[0].properties.get(property_names.WAIT)
        shared = {} if wait is None else {property_names.WAIT: wait}
        request.properties = self._format(first.topic, shared, request.batch_id)
        return request

    def prepare_laid_out(self, topic: str, body: bytes) -> SendRequest:
        """The request for a batch that is laid out already, each message in it with an id. Nothing in it is checked."""
        request = SendRequest()
        request.topic, request.head, _ = self._topics.get(topic) or self._learn(topic)
        request.messages, request.sys_flag, request.flag, request.moved = (), 0, 0, None
        request.code = _BATCH_CODE
        request.message_id = request.batch_id = self._ids.make()
        request.properties = self._format(topic, {}, request.batch_id)
        request.body = body
        return request

    def _learn(self, topic: str) -> tuple[str, str, bool]:
        if not isinstance(topic, str):
            raise InvalidMessageError(str(topic), f"the topic is {type(topic).__name__}, not text")
        name = with_namespace(self._namespace, topic)
        check_topic_to_send(name)
        learnt = self._topics[topic] = name, self._head(name), is_retry_topic(name)
        return learnt

    def _head(self, name: str) -> str:
        """For a topic by its name on the wire. A cluster has one topic for replies, which is in no namespace."""
        options = self._options
        return (
            f'"extFields":{{"a":{quote(self._group)},"b":{quote(name)},"c":{quote(options.create_topic_key)},'
            f'"d":"{options.default_topic_queue_nums}","k":"{_text(options.unit_mode)}",'
        )

    def _format(self, topic: str, properties: dict[str, str], message_id: str) -> str:
        try:
            text = format_properties(properties)
        except LocalProtocolError as error:
            raise InvalidMessageError(topic, str(error)) from None
        if property_names.UNIQ_KEY not in properties:
            text = f"{text}UNIQ_KEY\x01{message_id}\x02"
        text += self._instance
        if len(text) > _SURELY_SHORT and (size := len(text.encode("utf-8", "replace"))) > PROPERTIES_BYTES_MAX:
            raise InvalidMessageError(topic, f"its properties have {size} bytes: {PROPERTIES_BYTES_MAX} are allowed")
        return text

    def _compress(self, request: SendRequest) -> None:
        options = self._options
        try:
            request.body = compress(request.body, options.compression, options.compression_level)
        except (LocalProtocolError, MissingExtraError) as error:
            # The options were checked, so this is the library's own failure. The message goes as it is, as in Java.
            _log.warning("body not compressed", topic=request.topic, problem=str(error))
        else:
            request.sys_flag = options.compression.sys_flag

    # --- the two forms

    def command(self, request: SendRequest, queue: MessageQueue, broker_name: str, born_ms: int) -> Command:
        """The request for this queue, open for additions. `broker_name`: the real one, of a static topic's queue."""
        options = self._options
        ext = {
            "a": self._group,
            "b": request.topic,
            "c": options.create_topic_key,
            "d": str(options.default_topic_queue_nums),
            "k": _text(options.unit_mode),
            "e": str(queue.queue_id),
            "f": str(request.sys_flag),
            "g": str(born_ms),
            "h": str(request.flag),
            "i": request.properties,
            "j": "0",
            "m": _text(request.batch_id is not None),
            "n": broker_name,
            **(request.moved or {}),
        }
        return Command(request.code, ext, request.body)

    def frame(
        self, request: SendRequest, queue: MessageQueue, broker_name: str, born_ms: int, opaque: int, flag: int = 0
    ) -> bytes:
        """The bytes that `frame.encode` makes of `command`, with this number and these flags and a JSON header."""
        is_batch = "false" if request.batch_id is None else "true"
        counts = '"j":"0",'
        if request.moved:
            counts = "".join([f'"{name}":{quote(value)},' for name, value in request.moved.items()])
        header = (
            f'{{"code":{request.code},{request.head}"e":"{queue.queue_id}","f":"{request.sys_flag}","g":"{born_ms}",'
            f'"h":"{request.flag}","i":{quote(request.properties)},{counts}"m":"{is_batch}","n":{quote(broker_name)}}},'
            f'"flag":{flag},"language":"PYTHON","opaque":{opaque},"serializeTypeCurrentRPC":"JSON",'
            f'"version":{CURRENT_VERSION}}}'
        ).encode("utf-8", "replace")
        size = 4 + len(header) + len(request.body)
        if size + 4 > FRAME_BYTES_MAX:
            raise LocalProtocolError(f"frame of {size + 4} bytes: peers accept at most {FRAME_BYTES_MAX}")
        return b"".join((_PREFIX.pack(size, len(header)), header, request.body))


def entry_of(request: SendRequest) -> bytes:
    """What a message that was prepared is in a batch."""
    return encode_entry(request.flag, request.body, request.properties.encode("utf-8", "replace"))


def _text(value: bool) -> str:
    return "true" if value else "false"


def _move_to_header(properties: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A retry's counts travel in the header; brokers do not look for them among the properties."""
    kept = {name: value for name, value in properties.items() if name not in _MOVED_TO_HEADER}
    times, times_max = (properties.get(name) for name in _MOVED_TO_HEADER)
    moved = {"j": times or "0"}
    if times_max is not None:
        moved["l"] = times_max
    return kept, moved
