"""Works through the revive topic for as long as the broker runs, some of it in each turn of the loop.

Java: PopReviveService, a thread for each queue. While nothing is popped, nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.pop.revive import ReviveQueue, ReviveTools
from rocketline.broker.storing.flusher import Flusher
from rocketline.clock import Clock
from rocketline.errors import StoreError
from rocketline.model.names import REVIVE_GROUP
from rocketline.store.filesystem import told
from rocketline.store.queues.queue_table import Queue

_STEP_S: Final = 0.002
"""With which a turn of the loop has done enough. The queues take turns."""
_SETTLED_A_LOOK: Final = 8
_AFTER_REFUSAL_S: Final = 0.5
_AFTER_ERROR_S: Final = 10.0


class DeliveredTo(Protocol):
    """Who keeps messages until their time."""

    @property
    def delivered_ms(self) -> int:
        """Whatever was due before this time is where it belongs."""
        ...


class PopRevival:
    """All queues of the revive topic. `run` works for as long as it is left to."""

    def __init__(
        self, tools: ReviveTools, offsets: ConsumerOffsets, timers: DeliveredTo, flusher: Flusher, clock: Clock
    ) -> None:
        self._tools, self._offsets, self._timers = tools, offsets, timers
        self._flusher, self._clock = flusher, clock
        queues = tools.settings.value.revive_queue_num
        known = offsets.offsets_of(REVIVE_GROUP, tools.topic.name)
        self.queues = [ReviveQueue(tools, queue_id, known.get(queue_id, -1)) for queue_id in range(queues)]
        self._at = 0
        self._wake: asyncio.Event | None = None
        self._known = [queue.done_to for queue in self.queues]
        """What is committed. It is read once, because others may commit for this group, too."""
        self._unsafe: tuple[list[int], int] | None = None
        """How far each queue was done with when the log ended there: to be committed once that is flushed."""

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages can be read from now on. Only noted: this runs in the midst of an append."""
        if self._wake is not None and any(queue.topic == self._tools.topic.name for queue in arrivals):
            self._wake.set()

    async def run(self) -> None:
        """Read and settle, until cancelled."""
        self._wake = asyncio.Event()
        while True:
            self._wake.clear()
            wait_s = self.look()
            if wait_s is None:
                await self._wake.wait()
                wait_s = 0
            await asyncio.sleep(wait_s)

    def look(self) -> float | None:
        """Do some of what there is to do. Returns after how many seconds there may be more; None: nothing waits."""
        end_s = self._clock.monotonic() + _STEP_S
        delivered_ms = self._timers.delivered_ms
        has_more = False
        try:
            for _ in self.queues:
                queue = self.queues[self._at]
                self._at = (self._at + 1) % len(self.queues)
                has_more |= self._work(queue, delivered_ms, end_s)
                if self._clock.monotonic() >= end_s:
                    has_more = True
                    break
        except StoreError as error:
            self._tools.log.warning("popped messages do not come again yet", str(error))
            return _AFTER_REFUSAL_S
        except OSError as error:
            self._tools.log.error("popped messages do not come again yet", told(error), error=error)
            return _AFTER_ERROR_S
        self.commit_safe()
        if has_more:
            return 0
        if any(len(queue) or queue.behind for queue in self.queues) or self._unsafe is not None:
            return self._tools.settings.value.revive_interval / 1000
        return None

    def _work(self, queue: ReviveQueue, delivered_ms: int, end_s: float) -> bool:
        """Whether there is more to do in this queue. It gets on a bit, however long that takes."""
        for _ in range(_SETTLED_A_LOOK):
            if not queue.revive_next():
                break
            if self._clock.monotonic() >= end_s:
                return True
        else:
            return True
        while queue.read(delivered_ms):
            if self._clock.monotonic() >= end_s:
                return True
        return queue.revive_next()

    # --- how far

    def commit_safe(self) -> None:
        """Commit how far queues were done with when the log ended where it is flushed to by now."""
        store = self._tools.store
        flushed = store.flushed_log_offset
        self._commit(self._known)  # should anybody else have done so meanwhile
        if self._unsafe is not None and flushed >= self._unsafe[1]:
            self._commit(self._unsafe[0])
            self._unsafe = None
        if self._unsafe is None:
            done = [queue.done_to for queue in self.queues]
            if flushed >= store.max_log_offset:
                self._commit(done)
            elif done != self._known:
                self._unsafe = done, store.max_log_offset

    def _committed(self, queue_id: int) -> int:
        return self._offsets.offsets_of(REVIVE_GROUP, self._tools.topic.name).get(queue_id, -1)

    def _commit(self, done: list[int]) -> None:
        self._known = done
        for queue_id, at in enumerate(done):
            if self._committed(queue_id) != at:
                self._offsets.commit(REVIVE_GROUP, self._tools.topic.name, queue_id, at)
