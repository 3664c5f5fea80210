"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): orderly consumers take and leave queues. Who names itself succeeds.

Differs from Apache: a broker without replicas has nobody else to ask, so lockInStrictMode makes no difference.
"""

from __future__ import annotations

from rocketline.broker.locks import QueueLocks
from rocketline.broker.long_work import LongWork, answered
from rocketline.broker.members import NAME_MAX
from rocketline.broker.request_body import read_body
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class LockHandlers:
    """Locks of queues, as consumers ask for them."""

    def __init__(self, locks: QueueLocks, work: LongWork) -> None:
        self._locks, self._work = locks, work

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.LOCK_BATCH_MQ: self._lock, RequestCode.UNLOCK_BATCH_MQ: self._unlock}

    def _lock(self, channel: Channel, request: Command) -> Outcome:
        held = self._locks.lock(channel, *_read(request.body))
        return self._work.begin(channel, request, answered(LockBatchResponseBody(held)))

    def _unlock(self, channel: Channel, request: Command) -> Command:
        self._locks.unlock(*_read(request.body))
        return response(ResponseCode.SUCCESS)


def _read(body: bytes) -> tuple[str, str, list[MessageQueue]]:
    """The group, the client and the queues."""
    asked = read_body(LockBatchRequestBody, body)
    if asked.consumer_group is None or asked.client_id is None:
        raise RemoteProtocolError("LockBatchRequestBody lacks consumerGroup or clientId: whose locks?")
    if max(len(asked.consumer_group), len(asked.client_id)) > NAME_MAX:
        raise RemoteProtocolError(
            f"LockBatchRequestBody: consumerGroup and clientId have at most {NAME_MAX} characters"
        )
    return asked.consumer_group, asked.client_id, asked.mq_set
