"""Parks and delivers timer messages for as long as the broker runs, some in each turn of the loop, and keeps count.

A slot is delivered only once all is parked that was stored before it was over: so a recall that was answered in time
works, however many messages wait to be parked. Only while `timerStopEnqueue` leaves them in their topic, what is parked
waits for none of them. While nothing waits, nothing is done.
"""

from __future__ import annotations

import asyncio
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import Steps
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.stats.runtime_info import TimerFigures
from rocketline.broker.timers.delivery import TimerDelivery
from rocketline.broker.timers.parking import TimerParking
from rocketline.broker.timers.timed_messages import key_of
from rocketline.clock import Clock
from rocketline.errors import StoreError
from rocketline.logs import Throttle
from rocketline.settings import Settings
from rocketline.store.filesystem import FileSystem, told
from rocketline.store.message_store import MessageStore
from rocketline.store.timers.checkpoint import TimerCheckpoint
from rocketline.store.timers.recovery import BrokenTimersError
from rocketline.store.timers.saving import TimerSave
from rocketline.store.timers.timer_store import TimerStore
from rocketline.store.timers.wheel import SLOTS
from rocketline.wire.bodies.stats import TimerMetrics

_LOOK_S: Final = 0.1
"""So long at most passes between two looks while something waits: clocks may be set."""
_EXPECTING_S: Final = 0.01
_AFTER_REFUSAL_S: Final = 0.5
_AFTER_ERROR_S: Final = 10.0
_FINISH_S: Final = 5.0
_BEYOND: Final = 2**63
_LATE_MS: Final = 60_000


class TimerService:
    """The timers of a broker. `run` works for as long as it is left to."""

    def __init__(
        self,
        store: MessageStore,
        files: FileSystem,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
        *,
        slots: int = SLOTS,
    ) -> None:
        """`slots` are half of the wheel's. Raises `CorruptStoreError`, `OSError`."""
        self._store, self._settings, self._clock, self._log = store, settings, clock, log
        self._timers = TimerStore(lambda: settings.value.store, files, store.store_clock.now_ms, slots=slots)
        self._parking = TimerParking(store, self._timers, log)
        self._timers.open(self._queue_offset_at, self._parking.end, self._topic_at)
        self._delivery = TimerDelivery(store, self._timers, stats, log)
        self._slot: Steps[None] | None = None
        self._broken: str | None = None
        """Why the files must be derived anew, until they are."""
        self._parked_first = self._parking.end  # what lies before it may be due by now, or be called back there
        self._wake: asyncio.Event | None = None
        self._rates = (clock.monotonic(), 0, 0)
        self._tps = (0.0, 0.0)

    def _queue_offset_at(self, log_offset: int) -> int | None:
        if log_offset < self._store.min_log_offset:
            return None
        if log_offset >= self._store.max_log_offset:
            return _BEYOND
        message = self._store.message_at(log_offset)
        return message.queue_offset if message is not None else None

    def _topic_at(self, log_offset: int) -> str | None:
        message = self._store.message_at(log_offset)
        return key_of(message)[0] if message is not None else None

    # --- what others ask

    @property
    def precision_ms(self) -> int:
        return self._timers.precision_ms

    def waiting_at(self, slot_ms: int) -> int:
        """How many messages are to be delivered then."""
        return self._timers.waiting_at(slot_ms)

    def expect(self) -> None:
        """A message was sent to the timer topic."""
        if self._wake is not None:
            self._wake.set()

    @property
    def checkpoint(self) -> TimerCheckpoint:
        return self._timers.checkpoint

    @property
    def metrics(self) -> TimerMetrics:
        """How many messages wait, by topic: a copy."""
        return self._timers.counts.table

    @property
    def delivered_ms(self) -> int:
        """Whatever was due before this time, and stored before it, is where it belongs; 0 while that cannot be told."""
        if self._broken is not None:
            return 0
        now_ms, first_ms = self._store.store_clock.now_ms(), self._timers.next_ms()
        if self._parking.behind or self._parking.is_expecting or self._timers.queue_offset < self._parked_first:
            now_ms = min(now_ms, self._parking.covered_ms)
        if self._slot is not None:
            now_ms = min(now_ms, self._timers.read_ms)
        return self._timers.wheel.rounded(now_ms if first_ms is None else min(now_ms, first_ms))

    @property
    def waiting_topics(self) -> int:
        """Of how many topics messages wait."""
        return len(self._timers.counts)

    def figures(self) -> TimerFigures:
        now_ms, first_ms = self._store.store_clock.now_ms(), self._timers.next_ms()
        late_ms = now_ms - first_ms - self.precision_ms if first_ms is not None else 0
        return TimerFigures(max(late_ms, 0) // 1000, self._parking.behind, self._timers.wheel.count, *self._tps)

    def has_late(self) -> bool:
        """Messages should have been delivered a minute ago, or be parked: the log must not go for its age before."""
        late_ms, first_ms = self._store.store_clock.now_ms() - _LATE_MS, self._timers.next_ms()
        if self._parking.behind and self._parking.covered_ms < late_ms:
            return True
        return first_ms is not None and first_ms + self.precision_ms < late_ms

    def tick(self) -> None:
        """A second is over: look how much was done in it."""
        (before_s, parked, delivered), now_s = self._rates, self._clock.monotonic()
        self._rates = now_s, self._parking.count, self._delivery.count
        took_s = max(now_s - before_s, 0.001)
        self._tps = (self._parking.count - parked) / took_s, (self._delivery.count - delivered) / took_s

    # --- working

    def finish_slot(self) -> None:
        """Deliver what is left of a slot that was begun, before a stop: else all of it would come again. If there is
        much of it, that is how it is."""
        end_s = self._clock.monotonic() + _FINISH_S
        while self._slot is not None and self._clock.monotonic() < end_s:
            if self.step() != 0:
                break

    async def run(self) -> None:
        """Park and deliver, until cancelled."""
        self._wake = asyncio.Event()
        while True:
            self._wake.clear()
            wait_s = self.step()
            if wait_s == 0:
                await asyncio.sleep(0)
            elif wait_s is None:
                await self._wake.wait()
            else:
                await self._sleep(wait_s)

    async def _sleep(self, wait_s: float) -> None:
        assert self._wake is not None
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def step(self) -> float | None:
        """Do some of what there is to do. Returns after how many seconds there may be more; None: nothing waits."""
        if self._broken is not None:
            return self._derive_anew(self._broken)
        try:
            is_parking = self._park_some()
            is_delivering = self._deliver_some()
        except BrokenTimersError as error:
            return self._derive_anew(str(error))
        except (StoreError, OSError) as error:
            return self._refused(error)
        if self._delivery.refusal is not None:
            return self._refused(self._delivery.refusal)
        if is_parking or is_delivering:
            return 0
        if self._parking.is_expecting:
            return _EXPECTING_S
        if self._timers.next_ms() is None and not self._parking.behind:
            return None
        return self._until_next_s()

    def _refused(self, error: StoreError | OSError) -> float:
        """The same is tried again after a while."""
        if isinstance(error, StoreError):  # be it that of a queue which is being derived anew
            self._log.warning("timer messages not delivered", str(error))
            return _AFTER_REFUSAL_S
        self._log.error("timer messages not delivered", told(error), error=error)
        return _AFTER_ERROR_S

    def _until_next_s(self) -> float:
        first_ms = self._timers.next_ms()
        if first_ms is None or self._settings.value.store.timer_stop_dequeue:
            return _LOOK_S
        left_ms = first_ms + self.precision_ms - self._store.store_clock.now_ms()
        return min(max(left_ms / 1000, 0.001), _LOOK_S)

    def _park_some(self) -> bool:
        """Whether anything was done."""
        if self._settings.value.store.timer_stop_enqueue:
            return False
        run = self._parking.next_run()
        if run is None:
            return False
        self._delivery.deliver_now(run.due)
        self._parking.park(run)
        return True

    def _deliver_some(self) -> bool:
        if self._settings.value.store.timer_stop_dequeue:
            return False
        if self._slot is None:
            over_ms = self._timers.wheel.rounded(self._complete_ms())
            first_ms = self._timers.next_ms()
            if first_ms is None or first_ms >= over_ms:
                self._timers.passed(over_ms)
                return False
            self._slot = self._delivery.slot(first_ms)
        try:
            next(self._slot)
        except StopIteration:
            self._slot = None
            if self._delivery.take_rolled():
                self._parked_first = self._parking.end
        except BaseException:
            self._slot = None
            raise
        return True

    def _complete_ms(self) -> int:
        """Slots that are over by then may be delivered: with what is parked, if nothing else is to be for now."""
        is_left = self._settings.value.store.timer_stop_enqueue and not self._timers.is_rereading
        if not is_left and self._timers.queue_offset < self._parked_first:
            return 0
        now_ms = self._store.store_clock.now_ms()
        return now_ms if is_left else min(now_ms, self._parking.covered_ms)

    def _derive_anew(self, problem: str) -> float:
        self._broken = problem
        if self._timers.is_being_saved:
            return _LOOK_S
        try:
            self._timers.derive_anew(problem)
        except OSError as error:
            self._log.error("timers cannot be derived anew", told(error), error=error)
            return _AFTER_ERROR_S
        self._broken = None
        self._parking.begin_anew()
        self._parked_first = self._parking.end
        return 0

    # --- saving

    @property
    def is_unsaved(self) -> bool:
        return self._timers.is_unsaved

    def begin_save(self) -> TimerSave | None:
        """How far all is, or was when the log ended where it is flushed to by now. Raises `OSError`."""
        self._timers.drop_before(self._store.min_log_offset)
        return self._timers.begin_save(self._store.max_log_offset, self._store.flushed_log_offset)

    def save_done(self) -> None:
        """It was written."""
        self._timers.save_done()

    def save_failed(self) -> None:
        """The next one has as much to say, unless a sync failed."""
        self._timers.save_failed()
        if self._timers.is_unsafe:
            self._log.error("timers are saved no more", "a sync failed; after a restart, some messages come again")

    def save(self) -> None:
        """Write it now. Raises `OSError`."""
        self._timers.save(self._store.max_log_offset, self._store.flushed_log_offset)

    def close(self) -> None:
        """Let go of the files."""
        self._timers.close()
