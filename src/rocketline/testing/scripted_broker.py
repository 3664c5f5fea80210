"""What a scripted peer answers by itself: small tables that a test fills and looks into, and no rules beyond them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.wire import bodies, headers
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import REQUEST_HEADERS
from rocketline.wire.message_codec import encode_record

Body = TypeVar("Body")

CLUSTER: Final = "scripted"
_RECORD_BYTES: Final = 1000
"""How far apart the messages seem to lie in the log."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    channel: Channel
    command: Command
    time_s: float
    """On the peer's clock, to measure with."""
    time_ms: int

    @property
    def code(self) -> int:
        return self.command.code

    @property
    def ext(self) -> dict[str, str]:
        return self.command.ext

    @property
    def body(self) -> bytes:
        return self.command.body

    @property
    def is_oneway(self) -> bool:
        return self.command.is_oneway

    @property
    def header(self) -> Any:
        """The typed header of its code. `Any`, so that a test reads `received.header.queue_id` without a cast."""
        return headers.decode(REQUEST_HEADERS[self.code], self.command.ext)

    def decoded(self, cls: type[Body]) -> Body:
        """The body as one of the dataclasses of `wire.bodies`."""
        return bodies.decode(cls, self.command.body)


class HasAddress(Protocol):
    @property
    def address(self) -> str: ...


Brokers: TypeAlias = Mapping[str, "str | HasAddress | Mapping[int, str | HasAddress]"]
"""Broker names, each with its master's address, or with addresses by broker id."""


@dataclass(slots=True)
class _WaitingPull:
    received: Received
    queue: tuple[str, int]
    offset: int
    count_max: int


class ScriptedBroker:
    """The tables and the answers made of them. Codes that are not among them are answered "not supported" (3)."""

    def __init__(self, name: str) -> None:
        self.name, self.address = name, ""
        self.routes: dict[str, TopicRouteData] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        """Committed offsets by group, topic and queue id."""
        self.members: dict[str, list[str]] = {}
        """Client ids by group, as heartbeats told; a test may write others into it."""
        self.refused_locks: set[int] = set()
        """Ids of queues that somebody else has locked."""
        self.min_offsets: dict[tuple[str, int], int] = {}
        self._stored: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
        self._sent: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._waiting: list[_WaitingPull] = []
        self._answers: dict[int, Callable[[Received], Outcome]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumers,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._min_offset,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: _done,
            RequestCode.CHECK_CLIENT_CONFIG: _done,
            RequestCode.CONSUMER_SEND_MSG_BACK: _done,
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.LITE_PULL_MESSAGE: self._pull,
        }

    def answer(self, received: Received) -> Outcome:
        """What the tables say to a request."""
        answer = self._answers.get(received.code)
        if answer is None:
            return response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{received.code} is not in the script")
        return answer(received)

    # --- what a test sets

    def route(
        self,
        topic: str,
        brokers: Brokers | None = None,
        *,
        queues: int = 4,
        read_queues: int | None = None,
        perm: int = 6,
        order: str | None = None,
    ) -> None:
        """Let the topic lie on these brokers, or on this one."""
        read = queues if read_queues is None else read_queues
        named = {name: _addresses(where) for name, where in (brokers or {self.name: self.address}).items()}
        self.routes[topic] = TopicRouteData(
            [QueueData(name, read, queues, perm) for name in named],
            [BrokerData(CLUSTER, name, addresses) for name, addresses in named.items()],
            order_topic_conf=order,
        )

    def put(
        self,
        topic: str,
        *message_bodies: bytes,
        queue_id: int = 0,
        properties: Mapping[str, str] | None = None,
        reconsume_times: int = 0,
        sys_flag: int = 0,
    ) -> None:
        """Store messages, for pulls to find; pulls that wait at the queue are answered."""
        host = HostAddress.parse(self.address)
        queue = self._stored[topic, queue_id]
        for body in message_bodies:
            offset = self._first(topic, queue_id) + len(queue)
            message = StoredMessage(
                topic,
                body,
                dict(properties or {}),
                0,
                queue_id,
                QueueOffset(offset),
                LogOffset(offset * _RECORD_BYTES),
                sys_flag,
                1_700_000_000_000,
                host,
                1_700_000_000_000,
                host,
                reconsume_times,
            )
            queue.append(encode_record(message))
        self._answer_waiting(topic, queue_id)

    def release_pulls(self) -> None:
        """The time of every pull that waits is over: it found nothing."""
        waiting, self._waiting = self._waiting, []
        for pull in waiting:
            answer = self._not_found(*pull.queue, pull.offset)
            pull.received.channel.reply(pull.received.command, answer)

    @property
    def pulls_waiting(self) -> list[Received]:
        """Pulls at the end of their queue that have no answer yet."""
        return [pull.received for pull in self._waiting]

    # --- answers

    def _route(self, received: Received) -> Outcome:
        route = self.routes.get(received.header.topic)
        if route is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"no route of {received.header.topic}")
        return response(0, body=bodies.encode_route(route, strict=True))

    def _heartbeat(self, received: Received) -> Outcome:
        data = received.decoded(HeartbeatData)
        for consumer in data.consumer_data_set:
            members = self.members.setdefault(consumer.group_name, [])
            if data.client_id not in members:
                members.append(data.client_id)
        return response(0, ext={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})

    def _unregister(self, received: Received) -> Outcome:
        members = self.members.get(received.header.consumer_group or "", [])
        if received.header.client_id in members:
            members.remove(received.header.client_id)
        return response(0)

    def _consumers(self, received: Received) -> Outcome:
        members = self.members.get(received.header.consumer_group)
        if not members:
            return response(ResponseCode.SYSTEM_ERROR, f"no consumer in {received.header.consumer_group}")
        return response(0, body=bodies.encode(ConsumerList(list(members))))

    def _query_offset(self, received: Received) -> Outcome:
        header = received.header
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            return response(ResponseCode.QUERY_NOT_FOUND, "no offset yet")
        return response(0, ext={"offset": str(offset)})

    def _update_offset(self, received: Received) -> Outcome:
        header = received.header
        self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return response(0)

    def _max_offset(self, received: Received) -> Outcome:
        return response(0, ext={"offset": str(self._end(received.header.topic, received.header.queue_id))})

    def _min_offset(self, received: Received) -> Outcome:
        return response(0, ext={"offset": str(self._first(received.header.topic, received.header.queue_id))})

    def _lock(self, received: Received) -> Outcome:
        wanted = received.decoded(LockBatchRequestBody).mq_set
        locked = [queue for queue in wanted if queue.queue_id not in self.refused_locks]
        return response(0, body=bodies.encode(LockBatchResponseBody(locked)))

    def _send(self, received: Received) -> Outcome:
        """Stored nowhere: a test that wants to read what was sent looks at the record, or calls `put`."""
        header = received.header
        queue = header.topic, header.queue_id
        offset = self._sent[queue]
        self._sent[queue] += 1
        place = OffsetMessageId(HostAddress.parse(self.address), LogOffset(offset * _RECORD_BYTES))
        ext = {"msgId": str(place), "queueId": str(header.queue_id), "queueOffset": str(offset)}
        return response(0, ext=ext)

    def _pull(self, received: Received) -> Outcome:
        header = received.header
        pull = _WaitingPull(received, (header.topic, header.queue_id), header.queue_offset, header.max_msg_nums)
        answer = self._found(pull)
        if answer is None:
            self._waiting.append(pull)
            return LATER
        return answer

    def _found(self, pull: _WaitingPull) -> Command | None:
        queue = pull.queue
        first, end = self._first(*queue), self._end(*queue)
        if not first <= pull.offset <= end:
            ext = _pulled(first if pull.offset < first else end, first, end)
            return response(ResponseCode.PULL_OFFSET_MOVED, "outside of the queue", ext=ext)
        if pull.offset == end:
            return None
        records = self._stored[queue][pull.offset - first :][: pull.count_max]
        return response(0, ext=_pulled(pull.offset + len(records), first, end), body=b"".join(records))

    def _not_found(self, topic: str, queue_id: int, offset: int) -> Command:
        ext = _pulled(offset, self._first(topic, queue_id), self._end(topic, queue_id))
        return response(ResponseCode.PULL_NOT_FOUND, "nothing new", ext=ext)

    def _answer_waiting(self, topic: str, queue_id: int) -> None:
        due = [pull for pull in self._waiting if pull.queue == (topic, queue_id)]
        for pull in due:
            answer = self._found(pull)
            if answer is not None:
                self._waiting.remove(pull)
                pull.received.channel.reply(pull.received.command, answer)

    def _first(self, topic: str, queue_id: int) -> int:
        return self.min_offsets.get((topic, queue_id), 0)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._first(topic, queue_id) + len(self._stored.get((topic, queue_id), ()))


def _addresses(where: str | HasAddress | Mapping[int, str | HasAddress]) -> dict[int, str]:
    if isinstance(where, Mapping):
        return {broker_id: _address(one) for broker_id, one in where.items()}
    return {MASTER_ID: _address(where)}


def _address(where: str | HasAddress) -> str:
    return where if isinstance(where, str) else where.address


def _pulled(next_offset: int, first: int, end: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(first),
        "maxOffset": str(end),
    }


def _done(received: Received) -> Outcome:
    return response(0)
