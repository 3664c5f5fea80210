"""A revive topic and what works through it, on a store without a socket; time is turned by hand."""

from __future__ import annotations

from typing import cast

from rocketline.broker.pop.revive import ReviveTools
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.pop.service import PopRevival
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.timers.service import TimerService
from rocketline.model.message import StoredMessage
from rocketline.store.filesystem import FileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.pop import AckMsg, PopCheckPoint
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import Tables, message
from support.stores.small import flush

RETRY = "%RETRY%g_T"


class RevivalScene:
    """The topic T, whose messages the group g has popped."""

    def __init__(self, clock: FakeClock, files: FileSystem, **settings: str) -> None:
        self.clock, self.files = clock, files
        self.tables = Tables(clock, files, **{"brokerName": "broker-a", "mappedFileSizeTimerLog": "5200"} | settings)
        self.store, self.offsets = self.tables.store, self.tables.offsets
        tables = self.tables
        self.timers = TimerService(self.store, files, tables.stats, tables.settings, clock, tables.log, slots=600)
        nobody = cast("Flusher", None)  # whom the tests do not need: nothing waits for the disk
        self.topic = ReviveTopic(self.store, nobody, self.timers, tables.settings, lambda: None)
        tables.groups.find("g")
        self.tools = ReviveTools(
            self.store, tables.topics, tables.groups, self.topic, tables.stats, tables.settings, tables.log
        )
        self.revival = PopRevival(self.tools, self.offsets, self.timers, nobody, clock)

    def send(self, *bodies: bytes) -> list[StoredMessage]:
        return [self.tables.append(body) for body in bodies]

    def point(self, *offsets: int, invisible_ms: int = 10_000, topic: str = "T", group: str = "g") -> PopCheckPoint:
        """A checkpoint of a pop of now."""
        now_ms, start = self.clock.wall_ms(), offsets[0]
        differences = [offset - start for offset in offsets]
        return PopCheckPoint(topic, group, 0, start, now_ms, invisible_ms, len(offsets), differences, 0, "broker-a")

    def pop(self, *offsets: int, queue: int = 0, invisible_ms: int = 10_000) -> PopCheckPoint:
        """Note a pop of such messages."""
        point = self.point(*offsets, invisible_ms=invisible_ms)
        self.note(self.topic.checkpoint(point, queue))
        return point

    def ack(self, point: PopCheckPoint, *offsets: int, queue: int = 0) -> None:
        for offset in offsets:
            ack = AckMsg(point.topic, point.consumer_group, 0, point.start_offset, point.pop_time, offset, "broker-a")
            self.note(self.topic.ack(ack, queue, point.revive_ms))

    def note(self, *records: StoredMessage) -> None:
        assert self.topic.put(records) is None

    def note_raw(self, body: bytes, *, tag: str = "ck", queue: int = 0, **properties: str) -> None:
        """A record that nobody of ours would write."""
        self.store.append(message(self.topic.name, body, queue_id=queue, TAGS=tag, **properties))

    def work(self) -> None:
        """Do all that there is to do now."""
        while self.timers.step() == 0:
            continue
        while self.revival.look() == 0:
            continue

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and look every second."""
        while seconds > 0:
            self.clock.advance(min(1.0, seconds))
            seconds -= 1.0
            self.work()

    def came_again(self, topic: str = RETRY) -> list[StoredMessage]:
        records = self.store.read(topic, 0, 0, 1000, None).records
        return decode_records(b"".join(records))

    def bodies(self) -> list[bytes]:
        return [found.body for found in self.came_again()]

    def done_to(self, queue: int = 0) -> int:
        flush(self.store)
        self.revival.commit_safe()
        return self.offsets.offsets_of("CID_RMQ_SYS_REVIVE_GROUP", self.topic.name).get(queue, -1)

    def close(self) -> None:
        """A clean stop."""
        self.timers.finish_slot()
        flush(self.store)
        self.revival.commit_safe()
        self.timers.save()
        self.timers.close()
        self.offsets.save()
        self.tables.topics.table.save()
        self.store.close()
