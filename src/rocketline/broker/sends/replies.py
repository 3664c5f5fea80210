"""SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325): what a consumer answers to a message that is a request.

A reply is passed on to the client that asked, by PUSH_REPLY_MESSAGE_TO_CLIENT (326), on the connection whose heartbeats
name it as a producer; with `storeReplyMessageEnable` it is stored as well, whatever becomes of the push. The replier is
answered when the requester has taken it (0), or that the requester is gone, silent for 10 s, or refused it (1).
Java: ReplyMessageProcessor.

Differs: the reply is stored while the requester is asked, not after, and nothing of it is kept once it is written. What
waits for requesters that take no bytes is bounded, and beyond that the replier is told to try again (2). A stored reply
keeps the mark of its compression, without which nobody could read it. A delay in it counts for nothing: it is needed
now.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from rocketline.broker.clients.memberships import NAME_MAX, Client
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.clients.pushes import Pushes
from rocketline.broker.config import BrokerConfig
from rocketline.broker.sends.checks import RefusalError, SendChecks
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.clock import Clock
from rocketline.errors import OverloadedError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import COMPRESSED, COMPRESSION_TYPE_MASK
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    send_header_v1,
)
from rocketline.wire.properties import format_properties

_REMARK_MAX: Final = 1024
"""Characters of a requester's words that its replier is told."""
_NOT_STORED: Final = "0"
"""The id of a reply that is only passed on: Java's clients want one."""


class ReplyHandlers:
    """Passes replies on to those who wait for them."""

    def __init__(
        self,
        producers: ProducerRegistry,
        pushes: Pushes,
        checks: SendChecks,
        put: MessagePut,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        store_host: HostAddress,
        clock: Clock,
        log: Throttle,
        *,
        choose_queue: Callable[[int], int] = random.randrange,
    ) -> None:
        self._producers, self._pushes, self._checks, self._put = producers, pushes, checks, put
        self._stats = stats
        self._settings, self._store_host, self._clock, self._log = settings, store_host, clock, log
        self._choose_queue = choose_queue
        self._id_prefix = (store_host.ip + store_host.port.to_bytes(4, "big")).hex().upper()

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.SEND_REPLY_MESSAGE: self._reply, RequestCode.SEND_REPLY_MESSAGE_V2: self._reply}

    def _reply(self, channel: Channel, request: Command) -> Outcome:
        asked = (
            headers.read(SendMessageRequestHeader, request.ext)
            if request.code == RequestCode.SEND_REPLY_MESSAGE
            else send_header_v1(headers.read(SendMessageRequestHeaderV2, request.ext))
        )
        try:
            queue_id, properties = self._queue_id(asked), self._checks.properties(asked)
        except RefusalError as refusal:
            return self._checks.with_region(refusal.answer)
        later = LaterAnswer(channel, request)
        reply = _ReplyOutcome(queue_id, lambda made: later.give(self._answer(made)))
        self._push(channel, request, asked, properties, reply)
        if self._settings.value.store_reply_message_enable:
            self._store(channel, request, asked, properties, reply)
        else:
            reply.stored(None)
        return later.outcome()

    def _queue_id(self, asked: SendMessageRequestHeader) -> int:
        topic = self._checks.topic(asked)
        if asked.queue_id >= 0:
            return asked.queue_id
        if topic.write_queue_nums <= 0:
            raise RefusalError(ResponseCode.INVALID_PARAMETER, f"the topic {asked.topic} has no queue to write to")
        return self._choose_queue(topic.write_queue_nums)

    # --- to the client that asked

    def _push(
        self,
        channel: Channel,
        request: Command,
        asked: SendMessageRequestHeader,
        properties: dict[str, str],
        reply: _ReplyOutcome,
    ) -> None:
        client_id = properties.get(property_names.REPLY_TO_CLIENT)
        if client_id is None:
            reply.pushed("it has no property REPLY_TO_CLIENT, so nobody knows whose request it answers")
            return
        client = self._producers.client(client_id)
        if client is None:
            reply.pushed(
                f"the client <{client_id[:NAME_MAX]}> is not connected to this broker as a producer: it is gone, "
                "or its first heartbeat has not come yet"
            )
        else:
            call = self._call(channel, request, asked, properties)
            self._pushes.push(client, call, lambda told: reply.pushed(*_judged(client, told)))

    def _call(
        self, channel: Channel, request: Command, asked: SendMessageRequestHeader, properties: dict[str, str]
    ) -> Command:
        now_ms = self._clock.wall_ms()
        header = ReplyMessageRequestHeader(
            producer_group=asked.producer_group,
            topic=asked.topic,
            default_topic=asked.default_topic,
            default_topic_queue_nums=asked.default_topic_queue_nums,
            queue_id=asked.queue_id,
            sys_flag=asked.sys_flag,
            born_timestamp=asked.born_timestamp,
            flag=asked.flag,
            properties=format_properties({**properties, property_names.PUSH_REPLY_TIME: str(now_ms)}),
            reconsume_times=asked.reconsume_times,
            unit_mode=bool(asked.unit_mode),
            born_host=channel.peer,
            store_host=str(self._store_host),
            store_timestamp=now_ms,
        )
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, headers.encode(header), request.body)

    # --- into the store

    def _store(
        self,
        channel: Channel,
        request: Command,
        asked: SendMessageRequestHeader,
        properties: dict[str, str],
        reply: _ReplyOutcome,
    ) -> None:
        if not request.body:  # it tells the requester something, and no record is without a body
            reply.stored(None)
            return
        properties.pop(property_names.DELAY, None)
        message = StoredMessage(
            asked.topic,
            request.body,
            properties,
            asked.flag,
            reply.queue_id,
            QueueOffset(0),
            LogOffset(0),
            asked.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK),
            asked.born_timestamp,
            HostAddress.parse(channel.peer),
            0,
            self._store_host,
            asked.reconsume_times or 0,
        )
        self._put.put(message, lambda result: reply.stored(self._place(result, message)))

    def _place(self, result: PutResult, message: StoredMessage) -> tuple[str, int] | None:
        if not result.status.is_stored:
            self._stats.put_failed()
            problem = f"{result.status.name}: {result.problem}"
            self._log.warning("reply not stored", f"it was passed on all the same; {problem}", topic=message.topic)
            return None
        self._stats.put(message.topic, message.queue_id, 1, result.size, took_ms=0)
        return f"{self._id_prefix}{result.places[0]:016X}", message.queue_offset

    def _answer(self, made: _ReplyOutcome) -> Command:
        config, place = self._settings.value, made.place
        is_pushed = made.problem is None
        if place is None and is_pushed:
            place = _NOT_STORED, 0
        ext: dict[str, str] = {}
        if place is not None:
            header = SendMessageResponseHeader(msg_id=place[0], queue_id=made.queue_id, queue_offset=place[1])
            ext = headers.encode(header)
        if is_pushed:
            return self._checks.with_region(response(ResponseCode.SUCCESS, ext=ext))
        self._log.warning("reply not delivered", str(made.problem), broker=config.broker_name)
        return self._checks.with_region(response(made.code, f"the reply was not delivered: {made.problem}", ext=ext))


def _judged(client: Client, told: Command | RocketlineError) -> tuple[str | None, ResponseCode]:
    """Why the requester has not got the reply, and the code for it; None if it has."""
    if isinstance(told, RocketlineError):
        is_busy = isinstance(told, OverloadedError)
        code = ResponseCode.SYSTEM_BUSY if is_busy else ResponseCode.SYSTEM_ERROR
        return f"the client <{client.client_id}> at {told}", code
    if told.code == ResponseCode.SUCCESS:
        return None, ResponseCode.SUCCESS
    remark = (told.remark or "no remark")[:_REMARK_MAX]
    problem = f"the client <{client.client_id}> refused it with code {told.code}: {remark}"
    return problem, ResponseCode.SYSTEM_ERROR


class _ReplyOutcome:
    """What becomes of one reply: whether it was pushed, where it is stored. `done` is called when both are known."""

    __slots__ = ("_done", "_left", "code", "place", "problem", "queue_id")

    def __init__(self, queue_id: int, done: Callable[[_ReplyOutcome], None]) -> None:
        self.queue_id, self._done, self._left = queue_id, done, 2
        self.problem: str | None = None
        """Why the requester has not got it; None if it has."""
        self.code = ResponseCode.SYSTEM_ERROR
        self.place: tuple[str, int] | None = None
        """Its id and its offset in the queue, if it is stored."""

    def pushed(self, problem: str | None, code: ResponseCode = ResponseCode.SYSTEM_ERROR) -> None:
        self.problem, self.code = problem, code
        self._one_known()

    def stored(self, place: tuple[str, int] | None) -> None:
        self.place = place
        self._one_known()

    def _one_known(self) -> None:
        self._left -= 1
        if not self._left:
            self._done(self)
