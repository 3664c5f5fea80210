"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): orderly consumers take and leave queues. Who names itself succeeds.

Differs from Apache: a broker without replicas has nobody else to ask, so lockInStrictMode makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.broker.clients.locks import LockTable
from rocketline.broker.clients.memberships import NAME_MAX
from rocketline.broker.long_work import LongWork, Steps, answered
from rocketline.broker.request_body import read_body_in_steps
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_QUEUES_A_STEP: Final = 500


class LockHandlers:
    """Locks of queues, as consumers ask for them."""

    def __init__(self, locks: LockTable, work: LongWork) -> None:
        self._locks, self._work = locks, work

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.LOCK_BATCH_MQ: self._lock, RequestCode.UNLOCK_BATCH_MQ: self._unlock}

    def _lock(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._locked(channel, request.body))

    def _locked(self, channel: Channel, body: bytes) -> Steps[Command]:
        asked = yield from _read(body)
        held: dict[MessageQueue, None] = {}
        for some in asked.slices():
            held.update(dict.fromkeys(self._locks.lock(channel, asked.group, asked.client_id, some)))
            if len(some) == _QUEUES_A_STEP:
                yield
        return (yield from answered(LockBatchResponseBody(list(held))))

    def _unlock(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._unlocked(request.body), is_change=True)

    def _unlocked(self, body: bytes) -> Steps[Command]:
        asked = yield from _read(body)
        for some in asked.slices():
            self._locks.unlock(asked.group, asked.client_id, some)
            if len(some) == _QUEUES_A_STEP:
                yield
        return response(ResponseCode.SUCCESS)


@dataclass(frozen=True, slots=True)
class _Asked:
    group: str
    client_id: str
    queues: list[MessageQueue]

    def slices(self) -> Iterator[list[MessageQueue]]:
        for at in range(0, len(self.queues), _QUEUES_A_STEP):
            yield self.queues[at : at + _QUEUES_A_STEP]


def _read(body: bytes) -> Steps[_Asked]:
    asked = yield from read_body_in_steps(LockBatchRequestBody, body)
    if asked.consumer_group is None or asked.client_id is None:
        raise RemoteProtocolError("LockBatchRequestBody lacks consumerGroup or clientId: whose locks?")
    if max(len(asked.consumer_group), len(asked.client_id)) > NAME_MAX:
        raise RemoteProtocolError(
            f"LockBatchRequestBody: consumerGroup and clientId have at most {NAME_MAX} characters"
        )
    return _Asked(asked.consumer_group, asked.client_id, asked.mq_set)
