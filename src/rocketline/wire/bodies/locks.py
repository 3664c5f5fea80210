"""Locks of queues for orderly consumers."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.queue import MessageQueue
from rocketline.record import record


@record
class LockBatchRequestBody:
    """The queues to lock, or to unlock, for a client. Java: LockBatchRequestBody, UnlockBatchRequestBody."""

    consumer_group: str | None = None
    client_id: str | None = None
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


@record
class LockBatchResponseBody:
    """The queues that the client holds now. Java: LockBatchResponseBody."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, metadata={"java": "lockOKMQSet"})
