"""How far a group has read each queue: in memory while it works; kept by brokers, in a file, or by the application.

`OffsetStore` is what consumers use: the table in memory and its rules. Behind it is an `OffsetKeeper`, which makes
offsets last: `BrokerOffsets` for groups that share queues, `local_offsets.LocalFileOffsets` for broadcasting, or the
application's own, given as the option `offset_keeper`.

    offsets = OffsetStore(BrokerOffsets(runtime, group))
    await offsets.load()
    offsets.update(queue, 42, increase_only=True)
    await offsets.persist_all(owned)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from rocketline.client.consumer.queue_bounds import find_broker
from rocketline.errors import OffsetNotFoundError, RocketlineError
from rocketline.logs import Log, Throttle
from rocketline.model.queue import MessageQueue
from rocketline.wire import headers
from rocketline.wire.headers import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_TIMEOUT_S: Final = 5.0
NO_OFFSET: Final = -1
"""Nothing is known of the queue."""

_log = Log(__name__)


class ReadFrom(Enum):
    """Where an offset is looked for. Java: ReadOffsetType."""

    MEMORY = "READ_FROM_MEMORY"
    STORE = "READ_FROM_STORE"
    MEMORY_THEN_STORE = "MEMORY_FIRST_THEN_STORE"


Save: TypeAlias = Callable[[Mapping[MessageQueue, int]], Awaitable[None]]


class OffsetKeeper(Protocol):
    """Makes offsets last. An application that keeps them itself, beside its results say, implements this.

    Whatever it raises costs one attempt: offsets are saved again 5 s later, and a queue whose offset cannot be read is
    not consumed until it can.
    """

    async def load(self) -> Mapping[MessageQueue, int]:
        """Called once, when the consumer starts: all that is known beforehand; may be empty."""
        ...

    async def fetch(self, queue: MessageQueue) -> int | None:
        """The offset of a queue that the consumer has just got; None if there is none yet."""
        ...

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Keep these; offsets of other queues stay."""
        ...


class BlockingOffsetKeeper(Protocol):
    """The same for an application without asyncio: plain methods, which may block. They are called in a thread."""

    def load(self) -> Mapping[MessageQueue, int]: ...

    def fetch(self, queue: MessageQueue) -> int | None: ...

    def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class KeeperInThread:
    """A `BlockingOffsetKeeper` for the loop: one call at a time, each in a thread."""

    def __init__(self, keeper: BlockingOffsetKeeper) -> None:
        self._keeper = keeper
        self._turn = asyncio.Lock()

    async def load(self) -> Mapping[MessageQueue, int]:
        async with self._turn:
            return await asyncio.to_thread(self._keeper.load)

    async def fetch(self, queue: MessageQueue) -> int | None:
        async with self._turn:
            return await asyncio.to_thread(self._keeper.fetch, queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        async with self._turn:
            await asyncio.to_thread(self._keeper.save, offsets)


def keeper_on_loop(keeper: OffsetKeeper | BlockingOffsetKeeper) -> OffsetKeeper:
    """The keeper itself if its methods are coroutines; else it is called in a thread, so that it may block."""
    if inspect.iscoroutinefunction(keeper.save):
        return cast(OffsetKeeper, keeper)
    return KeeperInThread(cast(BlockingOffsetKeeper, keeper))


class OffsetStore:
    """The offsets of one consumer. Java: OffsetStore, ControllableOffset.

    It belongs to the thread of the event loop. At most one entry for each queue that the consumer owns or has owned
    since the last `persist_all`.
    """

    def __init__(self, keeper: OffsetKeeper, *, save_last: Save | None = None) -> None:
        """`save_last` is used in place of `keeper.save` where no later attempt follows."""
        self._keeper = keeper
        self._save_last = save_last or keeper.save
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    async def load(self) -> None:
        """Take in what is kept. Raises what the keeper raises: a consumer must not start by guessing."""
        self._offsets.update(await self._keeper.load())

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """The group has read the queue up to `offset`, which is the next to read."""
        known = self._offsets.get(queue)
        if known is None or (queue not in self._frozen and not (increase_only and offset < known)):
            self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset, and let nobody change it until `remove`. Java: updateAndFreezeOffset.

        A pull found the offset outside of its queue: callbacks that still run must not bring the wrong one back.
        """
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def cached(self, queue: MessageQueue) -> int:
        """The offset in memory, or -1."""
        return self._offsets.get(queue, NO_OFFSET)

    async def read(self, queue: MessageQueue, source: ReadFrom = ReadFrom.MEMORY_THEN_STORE) -> int:
        """The offset, or -1 if there is none. One that is fetched is in memory afterwards, unless it is frozen there.

        Raises what the keeper raises: then nobody knows, and guessing would lose or repeat messages. Java: -2.
        """
        cached = self.cached(queue)
        if source is ReadFrom.MEMORY or (source is ReadFrom.MEMORY_THEN_STORE and cached != NO_OFFSET):
            return cached
        fetched = await self._keeper.fetch(queue)
        if fetched is None:
            return NO_OFFSET
        self.update(queue, fetched, increase_only=False)
        return fetched

    async def persist(self, queue: MessageQueue) -> None:
        """Keep the queue's offset, if there is one. Failures are logged, not raised."""
        offset = self._offsets.get(queue)
        if offset is not None:
            await self._saved(self._keeper.save, {queue: offset})

    async def persist_all(self, queues: Collection[MessageQueue], *, is_last: bool = False) -> None:
        """Keep the offsets of `queues`, which are all that the consumer owns, and forget others.

        `is_last`: the consumer closes, so this is not done again five seconds later.

        Without queues nothing is done at all: a consumer that owns nothing yet must not forget what it loaded.
        """
        if not queues:
            return
        owned = frozenset(queues)
        for queue in self._offsets.keys() - owned:
            self.remove(queue)
        if self._offsets:
            await self._saved(self._save_last if is_last else self._keeper.save, dict(self._offsets))

    async def _saved(self, save: Save, offsets: Mapping[MessageQueue, int]) -> None:
        try:
            await save(offsets)
        except Exception as error:  # noqa: BLE001  # an application's keeper may raise anything
            _log.warning("offsets not saved, next attempt follows", queues=len(offsets), problem=error)

    def remove(self, queue: MessageQueue) -> None:
        """Forget the queue, which is somebody else's now or begins anew."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def offsets(self, topic: str | None = None) -> dict[MessageQueue, int]:
        """All in memory, or those of one topic. Java: cloneOffsetTable."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}


def one_ahead(queues: Collection[MessageQueue]) -> tuple[Collection[MessageQueue], Collection[MessageQueue]]:
    """One queue of each topic and broker, and the others, whose offsets are sent after those have been answered.

    Apache's broker makes a group's table for a topic when the first offset comes. Two that come side by side make two
    tables, and one of these is lost with its offset: all messages of that queue would come again.

    >>> one_ahead([MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)])
    ([MessageQueue(topic='T', broker_name='b', queue_id=0)], [MessageQueue(topic='T', broker_name='b', queue_id=1)])
    """
    ahead = {(queue.broker_name, queue.topic): queue for queue in reversed(list(queues))}
    return list(ahead.values()), [queue for queue in queues if queue != ahead[queue.broker_name, queue.topic]]


class BrokerOffsets:
    """Offsets kept by the queues' brokers, for groups whose members share queues. Java: RemoteBrokerOffsetStore."""

    def __init__(self, runtime: ClientRuntime, group: str) -> None:
        self._runtime, self._group = runtime, group
        self._throttle = Throttle(runtime.clock, name=__name__)  # a broker may have thousands of queues

    async def load(self) -> Mapping[MessageQueue, int]:
        """Nothing beforehand: others may have read on since."""
        return {}

    async def fetch(self, queue: MessageQueue) -> int | None:
        """QUERY_CONSUMER_OFFSET, from the master, or from any node if the newest route has no master."""
        address = await find_broker(self._runtime, queue, or_any=True)
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name
        )
        try:
            reply = await self._runtime.ask_ok(address, header, timeout_s=_TIMEOUT_S, vip=True)
        except OffsetNotFoundError:
            return None
        return headers.decode(QueryConsumerOffsetResponseHeader, reply.ext).offset

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """UPDATE_CONSUMER_OFFSET for each queue, oneway, also if it has not changed: a broker may have lost it."""
        for queue, offset in offsets.items():
            await self._try_to_save(queue, offset, is_oneway=True)

    async def save_last(self, offsets: Mapping[MessageQueue, int]) -> None:
        """The same, but waits for the answers: nobody repeats it, and a next consumer may start at once."""
        for part in one_ahead(offsets):
            await asyncio.gather(*(self._try_to_save(queue, offsets[queue], is_oneway=False) for queue in part))

    async def _try_to_save(self, queue: MessageQueue, offset: int, *, is_oneway: bool) -> None:
        try:
            await self.save_one(queue, offset, is_oneway=is_oneway)
        except RocketlineError as error:
            self._throttle.warning("offset not saved", str(error), group=self._group, queue=queue, offset=offset)

    async def save_one(self, queue: MessageQueue, offset: int, *, is_oneway: bool = True) -> None:
        """The same for one queue. Raises `TransportError`, `RouteError` and, unless oneway, `ResponseError`."""
        address = await find_broker(self._runtime, queue, only_master=False)
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            target_broker=queue.broker_name,
        )
        if is_oneway:
            await self._runtime.send_oneway(address, header, timeout_s=_TIMEOUT_S, vip=True)
        else:
            await self._runtime.ask_ok(address, header, timeout_s=_TIMEOUT_S, vip=True)
