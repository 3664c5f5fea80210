"""A store with timers and no socket, on a wheel of ten minutes, and messages as the put path parks them."""

from __future__ import annotations

from rocketline.broker.storing.timer_properties import slot_before
from rocketline.broker.timers.service import TimerService
from rocketline.model.message import StoredMessage
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.filesystem import FileSystem
from rocketline.store.store_hooks import StoreHooks
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import Tables, message
from support.stores.small import flush

SLOTS = 600


class TimerScene:
    """What is stored, parked and delivered; time is turned by hand."""

    def __init__(self, clock: FakeClock, files: FileSystem, *, slots: int = SLOTS, **settings: str) -> None:
        self.clock, self.files = clock, files
        self.tables = Tables(clock, files, **{"mappedFileSizeTimerLog": "5200"} | settings)
        self.store = self.tables.store
        try:
            self.service = TimerService(
                self.store, files, self.tables.stats, self.tables.settings, clock, self.tables.log, slots=slots
            )
        except BaseException:
            self.store.close()
            raise
        self.store.connect(StoreHooks(is_needed=self.service.has_late))

    def send(
        self, key: str, deliver_ms: int, *, recalls: str | None = None, body: bytes | None = None
    ) -> StoredMessage:
        """A message of the topic T for a moment, or a marker that calls one back."""
        slot_ms = slot_before(deliver_ms, self.service.precision_ms)
        properties = {"TIMER_OUT_MS": str(slot_ms), "REAL_TOPIC": "T", "REAL_QID": "1", "UNIQ_KEY": key, "TAGS": "A"}
        if recalls is not None:
            properties |= {"UNIQ_KEY": recalls, "TIMER_DEL_UNIQKEY": recalls}
        stored = self.store.append(message(WHEEL_TIMER_TOPIC, body or key.encode(), queue_id=0, **properties))
        self.service.expect()
        return stored

    def work(self) -> float | None:
        """Do all that there is to do now."""
        while (wait_s := self.service.step()) == 0:
            continue
        return wait_s

    def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time go by, and look every so often."""
        while seconds > 0:
            self.clock.advance(min(step_s, seconds))
            seconds -= step_s
            self.work()

    def save(self) -> None:
        """As the broker does behind the loop."""
        flush(self.store)
        job = self.service.begin_save()
        if job is not None:
            try:
                job.run()
            except OSError:
                self.service.save_failed()
            else:
                self.service.save_done()

    def delivered(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while records := self.store.read("T", 1, len(found), 1000, None).records:
            found += decode_records(b"".join(records))
        return found

    def keys(self) -> list[str]:
        return [found.properties["UNIQ_KEY"] for found in self.delivered()]

    def waiting(self) -> int:
        return sum(metric.count for metric in self.service.metrics.timing_count.values())

    def close(self) -> None:
        """A clean stop."""
        self.service.finish_slot()
        flush(self.store)
        self.service.save()
        self.service.close()
        self.store.close()

    def die(self) -> None:
        """The process is gone; its locks are free."""
        assert self.store._lock is not None
        self.store._lock.release()

    def again(self) -> TimerScene:
        """The next start with the same files."""
        return TimerScene(self.clock, self.files)
