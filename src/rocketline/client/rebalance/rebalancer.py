"""Rebalancing: finding out which queues of its topics a consumer has to read, giving up others and taking new ones.

`Rebalancer` does it for one consumer, push or lite pull, whenever `run` is called; `rebalance_service` knows when that
has to be. Java: RebalanceImpl with RebalancePushImpl and RebalanceLitePullImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.rebalance.allocation import AllocationStrategy, in_java_order, queues_in_java_order
from rocketline.client.rebalance.assignment import Share, query_assignment
from rocketline.client.rebalance.group_members import find_members
from rocketline.client.rebalance.queue_locks import QueueLocks
from rocketline.errors import RouteError, TransportError
from rocketline.logs import Log, Throttle
from rocketline.model.names import is_retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel
from rocketline.wire.pop_handles import TopicKind

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

FIRST_PULL_S: Final = 0.5
"""How long a new queue rests, so that its last owner can finish and save how far it is. Java: 500 in RebalanceImpl."""
_LOCK_AGAIN_S: Final = 0.5
_CALLBACK_WAIT_S: Final = 0.5
_BROKERS_AT_ONCE: Final = 256
_QUEUES_AT_ONCE: Final = 64
"""Of each broker. A route may name a thousand brokers, with thousands of queues each."""
_UNLOCK_AFTER_S: Final = 20.0
"""A dropped queue whose lock is older is unlocked though its callback still runs. Java: unlockDelayTimeMills."""

_log = Log(__name__)


class QueueOwner(Protocol):
    """The consumer that queues are given to and taken from."""

    def begin_pulling(self, queue: MessageQueue, process_queue: ProcessQueue[Any], offset: int) -> None:
        """Pull the queue from this offset on. Called half a second after it was added, unless it was dropped since."""
        ...

    async def queues_changed(
        self, topic: str, queues: Collection[MessageQueue], assigned: Collection[MessageQueue]
    ) -> None:
        """The queues read of a topic are others now: `assigned`, of all `queues`. Java: messageQueueChanged.

        Brokers have got a heartbeat with the new version of the subscription already.
        """
        ...


class PopOwner(Protocol):
    """Who pops, if brokers decide on shares and have their groups pop."""

    def topics(self) -> Collection[str]:
        """Those that it has queues of."""
        ...

    def assign(self, topic: str, queues: Collection[MessageQueue]) -> bool:
        """Pop these queues of the topic from now on, and no others; whether they are others than before."""
        ...


def queues_to_drop(
    owned: Mapping[MessageQueue, ProcessQueue[Any]],
    topic: str,
    assigned: Collection[MessageQueue],
    *,
    now_s: float,
    expires_pulls: bool,
) -> list[MessageQueue]:
    """The owned queues of a topic that must go: not assigned any more, dropped before, or not pulled for two minutes.

    The last is a safety net for push consumers: such a queue is taken anew at once. Lite pull consumers may pause.
    """
    return [
        queue
        for queue, process_queue in owned.items()
        if queue.topic == topic
        and (
            queue not in assigned
            or process_queue.is_dropped
            or (expires_pulls and process_queue.is_pull_expired(now_s))
        )
    ]


def queue_threshold(per_queue: int, per_topic: int, owned_count: int) -> int:
    """How much of one queue may wait, if there is a bound for all queues together (-1: there is none).

    >>> queue_threshold(1000, 1000, 10), queue_threshold(1000, -1, 10), queue_threshold(1000, 5, 10)
    (100, 1000, 1)
    """
    return per_queue if per_topic == -1 or not owned_count else max(1, per_topic // owned_count)


class Rebalancer:
    """The queues of one consumer, and how they change.

    `queues` is the table that everybody else reads; only a rebalance, `remove` and `close` change it. `start` tells
    where a new queue begins (`start_offset.StartOffsets`). A push consumer is told apart by `is_push`: its queues
    expire when they are not pulled, and brokers hear of each change.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        group: str,
        owner: QueueOwner,
        *,
        message_model: MessageModel,
        strategy: AllocationStrategy,
        subscriptions: Subscriptions,
        offsets: OffsetStore,
        start: Callable[[MessageQueue], Awaitable[int]],
        is_orderly: bool = False,
        is_push: bool = True,
        pops: PopOwner | None = None,
    ) -> None:
        """With `pops` brokers are asked for shares, and may have them popped; else members work them out."""
        self.queues: dict[MessageQueue, ProcessQueue[Any]] = {}
        self.locks = QueueLocks(runtime, group, self.queues)
        self._runtime, self._group, self._owner = runtime, group, owner
        self._is_clustering = message_model is not MessageModel.BROADCASTING
        self._strategy, self._subscriptions, self._offsets, self._start = strategy, subscriptions, offsets, start
        self._locks_queues = is_orderly and self._is_clustering
        self._is_push = is_push
        self._pops = pops
        self._throttle = Throttle(runtime.clock, name=__name__)
        self._turn, self._announcing = asyncio.Lock(), asyncio.Lock()
        self._is_stopped = False

    async def run(self) -> bool:
        """One round over all subscribed topics; one at a time. False: something is left to do, try again soon.

        A topic that fails, or whose broker is slow to answer, does not hold up others. Java: doRebalance.
        """
        async with self._turn:
            if self._is_stopped:
                return True
            topics = list(self._subscriptions)
            rounds = [_Round(self, topic) for topic in topics]
            await asyncio.gather(*(one.run() for one in rounds))
            popped = self._pops.topics() if self._pops is not None else ()
            lost = {*popped, *(queue.topic for queue in self.queues)} - set(topics)
            for topic in lost.intersection(popped):
                self.pop(topic, ())
            gave_up = await asyncio.gather(*(self.give_up(topic, ()) for topic in lost))
        async with self._announcing:  # not in `_turn`, which a listener that closes its consumer waits for
            await self._announce([one for one in rounds if one.is_changed])
        return all(one.is_balanced for one in rounds) and not any(left for _, left in gave_up)

    async def _announce(self, changed: Collection[_Round]) -> None:
        if changed and self._is_push:
            for one in changed:
                self._subscriptions.raise_version(one.topic)
            await self._runtime.heartbeat_all(even_if_running=True)
        for one in changed:
            try:
                await self._owner.queues_changed(one.topic, one.queues, one.assigned)
            except Exception as error:  # noqa: BLE001  # the application's listener may raise anything
                _log.error("queue listener failed", error=error, group=self._group, topic=one.topic)

    def look_after_retries(self, share: Share, topic: str) -> None:
        """What was popped and not acknowledged waits in a topic of its own: a group that pulls, after it has popped,
        must pull that as well."""
        if self._pops is None or is_retry_topic(topic) or bool(share.assigned) is bool(share.popped):
            return
        retries = TopicKind.RETRY_V1.store_topic(topic, self._group)
        if share.popped:
            self._subscriptions.remove(retries)
        elif retries not in self._subscriptions:
            self._subscriptions.put(retries)

    def pop(self, topic: str, queues: Collection[MessageQueue]) -> bool:
        """Have these queues popped from now on; whether that is a change."""
        return self._pops is not None and self._pops.assign(topic, queues)

    async def find_share(self, topic: str) -> Share | None:
        """All queues of a topic and those that are ours; None if nobody can tell now. Raises what a strategy raises,
        and what a broker says that is asked for the share."""
        if self._runtime.routes.route(topic) is None:
            if not is_retry_topic(topic):  # brokers make that one when they hear of the group
                _log.warning("topic does not exist yet, it is waited for", group=self._group, topic=topic)
            return None
        queues = queues_in_java_order(self._runtime.routes.queues_to_read(topic))
        if not self._is_clustering:
            return Share(queues, frozenset(queues))
        if self._pops is not None:
            return await query_assignment(self._runtime, self._group, topic, self._strategy.name, queues)
        members = await find_members(self._runtime, topic, self._group)
        if members is None:
            return None
        client_id = self._runtime.client_id
        return Share(queues, frozenset(self._strategy.allocate(self._group, client_id, queues, in_java_order(members))))

    async def give_up(self, topic: str, assigned: Collection[MessageQueue]) -> tuple[int, int]:
        """Let go of what is not assigned; answers how many went, and how many stay until their callback ends."""
        now_s = self._runtime.clock.monotonic()
        dropped = queues_to_drop(self.queues, topic, assigned, now_s=now_s, expires_pulls=self._is_push)
        for queue in dropped:
            if not self.queues[queue].is_dropped and queue in assigned:
                _log.warning("queue was not pulled for too long, it is taken anew", group=self._group, queue=queue)
            self.queues[queue].is_dropped = True
        removed = await asyncio.gather(*(self.remove(queue) for queue in dropped))
        return sum(removed), len(removed) - sum(removed)

    async def remove(self, queue: MessageQueue) -> bool:
        """Drop a queue, save its offset and let go of it. Java: removeUnnecessaryMessageQueue.

        False: its callback runs. A queue that is read in order is not unlocked while that works, unless its lock is so
        old that nobody renews it any more; it stays, dropped, and is tried again by the next round.
        """
        process_queue = self.queues.get(queue)
        if process_queue is None:
            return True
        process_queue.is_dropped = True
        await self._offsets.persist(queue)
        if self._locks_queues:
            if not await self._is_free(process_queue):
                process_queue.unlock_attempts += 1
                return False
            await self._offsets.persist(queue)  # what the callback that has just ended brought
        if self.queues.get(queue) is process_queue:
            self._offsets.remove(queue)
            del self.queues[queue]
            if self._locks_queues:
                process_queue.is_locked = False
                await self.locks.unlock(queue)
        return True

    async def _is_free(self, process_queue: ProcessQueue[Any]) -> bool:
        """No callback works on it, or we need not care. Waits for half a second."""
        if self._runtime.clock.monotonic() - process_queue.last_lock_s > _UNLOCK_AFTER_S:
            return True
        return await self._runtime.wait_for(process_queue.idle, _CALLBACK_WAIT_S)

    async def add(self, queues: Iterable[MessageQueue]) -> bool:
        """Take queues that are ours now. Answers whether any was added; those that failed are for the next round."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(self._runtime.routes.broker_of(queue), []).append(queue)
        slots = asyncio.Semaphore(_BROKERS_AT_ONCE)
        return any(await asyncio.gather(*(self._add_of_broker(slots, own) for own in by_broker.values())))

    async def _add_of_broker(self, slots: asyncio.Semaphore, queues: list[MessageQueue]) -> bool:
        """Some at a time. A broker that cannot be reached is not asked for all the others as well."""
        is_any_added = False
        async with slots:
            for start in range(0, len(queues), _QUEUES_AT_ONCE):
                added = await asyncio.gather(*map(self._add, queues[start : start + _QUEUES_AT_ONCE]))
                is_any_added |= any(added)
                if all(outcome is None for outcome in added):
                    break
        return is_any_added

    async def _add(self, queue: MessageQueue) -> bool | None:
        """Whether it was added; None if its broker could not be reached."""
        if self._is_stopped:
            return False
        if self._locks_queues and not (locked := await self.locks.lock(queue)):
            _log.info("queue is still locked by another member", group=self._group, queue=queue)
            self._runtime.call_later(_LOCK_AGAIN_S, self._runtime.wake_rebalance)
            return locked
        self._offsets.remove(queue)
        try:
            offset = await self._start(queue)
        except Exception as error:  # noqa: BLE001  # an application's keeper may raise anything
            self._throttle.warning("start of a queue not known", str(error), group=self._group, queue=queue)
            if self._locks_queues:
                await self.locks.unlock(queue)
            return None if isinstance(error, TransportError | RouteError) else False
        process_queue: ProcessQueue[Any] = ProcessQueue(self._runtime.clock.monotonic())
        process_queue.is_locked = True
        self.queues[queue] = process_queue
        self._runtime.call_later(FIRST_PULL_S, lambda: self._begin(queue, process_queue, offset))
        return True

    def _begin(self, queue: MessageQueue, process_queue: ProcessQueue[Any], offset: int) -> None:
        if not process_queue.is_dropped:
            self._owner.begin_pulling(queue, process_queue, offset)

    async def restart_at(self, queue: MessageQueue, offset: int) -> None:
        """A pull was told that its offset is outside of the queue: begin anew at `offset`, at once.

        Callbacks that still run cannot change the offset any more. Java: OFFSET_ILLEGAL in DefaultMQPushConsumerImpl.
        """
        process_queue = self.queues.get(queue)
        if process_queue is None:
            return
        process_queue.is_dropped = True
        self._offsets.freeze(queue, offset)
        await self.remove(queue)
        self._runtime.wake_rebalance()

    async def stop(self) -> None:
        """Take no more queues, and wait for a round under way: what it has locked is then unlocked with the rest."""
        self._is_stopped = True
        async with self._turn:
            pass

    def close(self) -> None:
        """Drop everything at once. Whoever wants offsets saved and locks let go does so before, after `stop`."""
        self._is_stopped = True
        for process_queue in self.queues.values():
            process_queue.is_dropped = True
        self.queues.clear()


class _Round:
    """What a rebalance does to one topic, and what came of it."""

    def __init__(self, rebalancer: Rebalancer, topic: str) -> None:
        self._rebalancer, self.topic = rebalancer, topic
        self._share = Share((), frozenset())
        self.is_changed = False
        self.is_balanced = True

    @property
    def queues(self) -> Collection[MessageQueue]:
        return self._share.queues

    @property
    def assigned(self) -> frozenset[MessageQueue]:
        return self._share.assigned | self._share.popped

    async def run(self) -> None:
        try:
            share = await self._rebalancer.find_share(self.topic)
            if share is not None:
                self._share = share
                await self._change()
        except Exception as error:  # noqa: BLE001  # a strategy may raise anything; other topics go on
            self.is_balanced = is_retry_topic(self.topic)
            if not self.is_balanced:
                _log.warning("topic not rebalanced", topic=self.topic, problem=error)

    async def _change(self) -> None:
        owned = self._rebalancer.queues
        assigned = self._share.assigned
        removed, left = await self._rebalancer.give_up(self.topic, assigned)
        added = await self._rebalancer.add(queue for queue in queues_in_java_order(assigned) if queue not in owned)
        self._rebalancer.look_after_retries(self._share, self.topic)
        are_others_popped = self._rebalancer.pop(self.topic, self._share.popped)
        self.is_changed = bool(removed) or added or are_others_popped
        working = {
            queue for queue, process_queue in owned.items()
            if queue.topic == self.topic and not process_queue.is_dropped
        }  # fmt: skip
        self.is_balanced = not left and working == assigned
