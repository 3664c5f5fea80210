"""What brokers ask of a client. Java: ClientRemotingProcessor.

NOTIFY_CONSUMER_IDS_CHANGED (40), RESET_CONSUMER_CLIENT_OFFSET (220), GET_CONSUMER_STATUS_FROM_CLIENT (221),
GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309), PUSH_REPLY_MESSAGE_TO_CLIENT (326),
CHECK_TRANSACTION_STATE (39); the first two and the last get no answer. Any other code is answered "not supported", and
a failure "system error".
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol

from rocketline.client.received_message import decode_messages
from rocketline.client.runtime.members import ConsumerMember, Members, TransactionCheck
from rocketline.client.runtime.pending_requests import PendingRequests
from rocketline.errors import OverloadedError, RemoteProtocolError
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.queue import MessageQueue
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Dispatcher
from rocketline.wire import bodies, headers
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody, ResetOffsetList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

AT_WORK_MAX: Final = 256
"""Resets and messages to consume directly that are being done; one more is dropped, or refused. Whoever registers a
broker is connected to by every client of the topic, and may ask for anything."""
AT_WORK_BYTES_MAX: Final = 64 * 1024 * 1024


class SpawnTask(Protocol):
    """`OwnedTasks.spawn`."""

    def __call__(self, work: Coroutine[Any, Any, None], *, name: str) -> object: ...


class Inbound:
    """Finds the member that a request is about, has it do its part, and answers."""

    def __init__(
        self,
        members: Members,
        requests: PendingRequests,
        *,
        spawn: SpawnTask,
        wake_rebalance: Callable[[], None],
        log: Throttle,
        namespace: str = "",
    ) -> None:
        self._members, self._requests = members, requests
        self._spawn, self._wake_rebalance = spawn, wake_rebalance
        self._namespace, self._log = namespace, log
        self._at_work = self._at_work_bytes = 0
        self.dispatch = Dispatcher(
            {
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._consumer_status,
                RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
                RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
                RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._reply_arrived,
            },
            log,
        )

    def _members_changed(self, channel: Channel, request: Command) -> Outcome:
        # Whichever group it names: a rebalance looks at all of them, as Java's does.
        self._wake_rebalance()
        return None

    def _reset_offsets(self, channel: Channel, request: Command) -> Outcome:
        header = headers.decode(headers.ResetOffsetRequestHeader, request.ext)
        offsets = decode_reset(request.body)
        consumer = self._members.consumers.get(header.group)
        if consumer is None:
            self._log.warning("offsets not reset", "their group is not here", group=header.group)
            return None
        try:
            resetting = partial(consumer.reset_offsets, header.topic, offsets)
            self._begin(resetting, channel, request, name=f"reset offsets of {header.group}")
        except OverloadedError as error:
            self._log.warning("offsets not reset", str(error), group=header.group)
        return None

    def _begin(
        self, work: Callable[[], Coroutine[Any, Any, None]], channel: Channel, request: Command, *, name: str
    ) -> None:
        """Do it in a task of its own. Raises `OverloadedError` if that much is being done already."""
        size = len(request.body)
        if self._at_work >= AT_WORK_MAX or self._at_work_bytes + size > AT_WORK_BYTES_MAX:
            problem = f"{self._at_work} requests of brokers with {self._at_work_bytes} bytes are being done already"
            raise OverloadedError(channel.peer, problem)
        self._at_work += 1
        self._at_work_bytes += size
        self._spawn(self._counted(work, size), name=name)

    async def _counted(self, work: Callable[[], Coroutine[Any, Any, None]], size: int) -> None:
        try:
            await work()
        finally:
            self._at_work -= 1
            self._at_work_bytes -= size

    def _consumer_status(self, channel: Channel, request: Command) -> Outcome:
        header = headers.decode(headers.GetConsumerStatusRequestHeader, request.ext)
        consumer = self._members.consumers.get(header.group)
        offsets = {} if consumer is None else dict(consumer.consumer_status(header.topic))
        return response(ResponseCode.SUCCESS, body=bodies.encode(ConsumerStatus(offsets)))

    def _running_info(self, channel: Channel, request: Command) -> Outcome:
        header = headers.decode(headers.GetConsumerRunningInfoRequestHeader, request.ext)
        consumer = self._members.consumers.get(header.consumer_group)
        if consumer is None:
            return _not_here(header.consumer_group)
        return response(ResponseCode.SUCCESS, body=bodies.encode(consumer.running_info(header.jstack_enable)))

    def _consume_directly(self, channel: Channel, request: Command) -> Outcome:
        header = headers.decode(headers.ConsumeMessageDirectlyResultRequestHeader, request.ext)
        consumer = self._members.consumers.get(header.consumer_group)
        if consumer is None:
            return _not_here(header.consumer_group)
        consuming = partial(self._consume, consumer, channel, request, header.broker_name or "")
        self._begin(consuming, channel, request, name=f"consume directly in {header.consumer_group}")
        return LATER

    def _check_transaction(self, channel: Channel, request: Command) -> Outcome:
        header = headers.decode(headers.CheckTransactionStateRequestHeader, request.ext)
        messages = decode_messages(request.body, broker_name=header.target_broker or "", namespace=self._namespace)
        if len(messages) != 1:
            raise RemoteProtocolError(f"one half message was expected, not {len(messages)}")
        group = messages[0].properties.get(property_names.PGROUP, "")
        producer = self._members.producers.get(group)
        if producer is None:
            self._log.warning("transaction not checked", "its group is not here", group=group)
        else:
            producer.check_transaction(TransactionCheck(header, messages[0], len(request.body), channel))
        return None

    def _reply_arrived(self, channel: Channel, request: Command) -> Outcome:
        self._requests.arrived(headers.decode(headers.ReplyMessageRequestHeader, request.ext), request.body)
        return response(ResponseCode.SUCCESS)

    async def _consume(self, consumer: ConsumerMember, channel: Channel, request: Command, broker_name: str) -> None:
        answer = response(ResponseCode.SYSTEM_ERROR, "the client closed meanwhile")
        try:
            messages = decode_messages(request.body, broker_name=broker_name, namespace=self._namespace)
            if len(messages) != 1:
                raise RemoteProtocolError(f"one message to consume was expected, not {len(messages)}")
            result = await consumer.consume_directly(messages[0])
            answer = response(ResponseCode.SUCCESS, body=bodies.encode(result))
        except Exception as error:  # noqa: BLE001  # whatever it is, the administrator who asked is told
            answer = response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        finally:
            channel.reply(request, answer)


def decode_reset(body: bytes) -> Mapping[MessageQueue, int]:
    """The new offsets. Brokers send a table, or a list if a C++ program asked for the reset."""
    try:
        return bodies.decode(ResetOffsetBody, body).offset_table
    except RemoteProtocolError:
        items = bodies.decode(ResetOffsetList, body).offset_table
        return {MessageQueue(item.topic, item.broker_name, item.queue_id): item.offset for item in items}


def _not_here(group: str) -> Command:
    return response(ResponseCode.SYSTEM_ERROR, f"the consumer group {group} is not in this client")
