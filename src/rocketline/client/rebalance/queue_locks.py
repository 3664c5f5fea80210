"""Locks of queues at their brokers: an orderly consumer reads a queue only while it holds the queue's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.wire import bodies
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.headers import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

LOCK_PERIOD_S: Final = 20.0
"""How often all locks are renewed. Java: rocketmq.client.rebalance.lockInterval."""
_TIMEOUT_S: Final = 1.0


class QueueLocks:
    """The locks of one consumer's queues. Java: RebalanceImpl.lock, lockAll, unlock, unlockAll.

    `queues` is the consumer's own table, which the locks are noted in. Nothing here raises: a broker that cannot be
    asked has locked nothing.
    """

    def __init__(self, runtime: ClientRuntime, group: str, queues: Mapping[MessageQueue, ProcessQueue[Any]]) -> None:
        self._runtime, self._group, self._queues = runtime, group, queues
        self._log = Throttle(runtime.clock, name=__name__)  # a broker may have thousands of queues

    async def lock(self, queue: MessageQueue) -> bool | None:
        """Take or renew one lock, and say whether it is ours; None if the broker could not tell."""
        locked = await self._ask(self._runtime.routes.broker_of(queue), [queue])
        if locked is None or queue not in locked:
            return None if locked is None else False
        self._note([queue])
        return True

    async def lock_all(self) -> None:
        """Renew the locks of all queues, with one request to each broker; those it leaves out are no longer ours.

        Called every `LOCK_PERIOD_S`, the first time after 1 s. A broker that does not answer changes nothing: its locks
        run out by themselves.
        """
        by_broker = self._by_broker()
        answers = await asyncio.gather(*(self._ask(name, queues) for name, queues in by_broker.items()))
        for queues, locked in zip(by_broker.values(), answers, strict=True):
            if locked is None:
                continue
            self._note(locked & set(queues))
            for queue in queues:
                if queue not in locked and (process_queue := self._queues.get(queue)) is not None:
                    process_queue.is_locked = False
                    self._log.warning("queue lock lost", "another member has it", group=self._group, queue=queue)

    async def unlock(self, queue: MessageQueue) -> None:
        """Let one go, without waiting for an answer: another member may want it."""
        address = self._runtime.routes.master(self._runtime.routes.broker_of(queue))
        if address is None:
            return
        try:
            await self._runtime.send_oneway(
                address, UnlockBatchMqRequestHeader(), self._body([queue]), timeout_s=_TIMEOUT_S
            )
        except RocketlineError as error:
            self._log.warning("queue not unlocked", "its lock runs out", group=self._group, queue=queue, problem=error)

    async def unlock_all(self) -> None:
        """Let all go, and wait until the brokers know: called when the consumer closes."""
        await asyncio.gather(*(self._unlock(name, queues) for name, queues in self._by_broker().items()))

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        address = self._runtime.routes.master(broker_name)
        if address is None:
            return
        try:
            await self._runtime.ask_ok(
                address, UnlockBatchMqRequestHeader(), self._body(queues), timeout_s=_TIMEOUT_S, vip=True
            )
        except RocketlineError as error:
            self._log.warning(
                "queues not unlocked", "their locks run out", group=self._group, broker=broker_name, problem=error
            )
            return
        for queue in queues:
            if (process_queue := self._queues.get(queue)) is not None:
                process_queue.is_locked = False

    async def _ask(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """The queues that are ours now; None if the broker could not tell."""
        address = self._runtime.routes.master(broker_name)
        if address is None:
            return None
        try:
            reply = await self._runtime.ask_ok(
                address, LockBatchMqRequestHeader(), self._body(queues), timeout_s=_TIMEOUT_S, vip=True
            )
            return set(bodies.decode(LockBatchResponseBody, reply.body).lock_ok_mq_set)
        except RocketlineError as error:
            self._log.warning(
                "queues not locked", "another try follows", group=self._group, broker=broker_name, problem=error
            )
            return None

    def _note(self, locked: Iterable[MessageQueue]) -> None:
        now_s = self._runtime.clock.monotonic()
        for queue in locked:
            if (process_queue := self._queues.get(queue)) is not None:
                process_queue.is_locked = True
                process_queue.last_lock_s = now_s

    def _by_broker(self) -> dict[str, list[MessageQueue]]:
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue, process_queue in self._queues.items():
            if not process_queue.is_dropped:
                by_broker.setdefault(self._runtime.routes.broker_of(queue), []).append(queue)
        return by_broker

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return bodies.encode(LockBatchRequestBody(self._group, self._runtime.client_id, queues))
