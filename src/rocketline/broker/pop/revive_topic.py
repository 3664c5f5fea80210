"""Notes in the revive topic what was popped and what was acknowledged, for the moment when it matters.

A checkpoint comes there a second before its messages are to come again, an acknowledgement right then: until that both
wait in the timer wheel, as messages for a moment do. What is late already is stored there at once.

Java: PopBufferMergeService.putCkToStore, AckMessageProcessor.appendAckNew. The records are Apache's, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.broker.storing.timer_properties import slot_before
from rocketline.errors import IllegalMessageError, StoreError
from rocketline.hot.pure.pop_records import ack_body, checkpoint_body
from rocketline.model import names, property_names
from rocketline.model.ids import LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.settings import Settings
from rocketline.store.filesystem import told
from rocketline.store.log_writer import LogWriter
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.bodies.pop import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    AckMsg,
    CheckpointKey,
    PopCheckPoint,
)

_AHEAD_MS: Final = 1000
"""By which a checkpoint is in the revive topic before the acknowledgements that it waits for."""

Done = Callable[[str | None], None]
"""Called with what went wrong, None if all is stored as safely as the settings promise."""


class RevivalTimers(Protocol):
    """Who keeps messages until their time."""

    @property
    def precision_ms(self) -> int: ...

    def expect(self) -> None: ...


class ReviveTopic:
    """The write side of the revive topic."""

    def __init__(
        self,
        store: MessageStore,
        flusher: Flusher,
        timers: RevivalTimers | None,
        settings: Settings[BrokerConfig],
        on_first: Callable[[], None],
    ) -> None:
        """`on_first` is called before this process stores its first record here."""
        self._on_first: Callable[[], None] | None = on_first
        self._store, self._flusher, self._timers, self._settings = store, flusher, timers, settings
        self.name = names.revive_topic(settings.value.broker_cluster_name)
        self.broker_name = settings.value.broker_name
        self._is_unflushed = False

    @property
    def delay_ms_max(self) -> int:
        """So far ahead timers take a message, and so long at most a message can be invisible."""
        return self._settings.value.store.timer_max_delay_sec * 1000

    def key(self, named: PopCheckPoint | AckMsg) -> CheckpointKey:
        """Of a checkpoint, or of the one that is acknowledged. One that names no broker means this one."""
        return CheckpointKey.of(named, self.broker_name)

    def checkpoint(self, point: PopCheckPoint, revive_queue_id: int) -> StoredMessage:
        """What notes that messages were popped."""
        key = (
            f"{point.topic}@{point.queue_id}@{point.start_offset}@{point.consumer_group}@{point.pop_time}"
            f"@{point.broker_name}@ck"
        )
        return self._message(revive_queue_id, CHECKPOINT_TAG, checkpoint_body(point), key, point.revive_ms - _AHEAD_MS)

    def ack(self, ack: AckMsg, revive_queue_id: int, revive_ms: int) -> StoredMessage:
        """What notes that one or several of them were acknowledged; they would come again at `revive_ms`."""
        key = f"{ack.topic}@{ack.queue_id}@{ack.ack_offset}@{ack.consumer_group}@{ack.pop_time}@{ack.broker_name}@ack"
        tag = ACK_TAG if ack.ack_offset_list is None else BATCH_ACK_TAG
        return self._message(revive_queue_id, tag, ack_body(ack), key, revive_ms)

    def _message(self, queue_id: int, tag: str, body: bytes, key: str, due_ms: int) -> StoredMessage:
        now_ms, host = self._store.store_clock.now_ms(), self._store.store_host
        properties = {
            property_names.TIMER_DELIVER_MS: str(due_ms),
            property_names.UNIQ_KEY: key,
            property_names.TAGS: tag,
        }
        topic = self.name
        slot_ms = self.slot_of(due_ms, now_ms)
        if slot_ms is not None:
            properties[property_names.TIMER_OUT_MS] = str(slot_ms)
            properties[property_names.REAL_TOPIC], properties[property_names.REAL_QID] = topic, str(queue_id)
            topic, queue_id = names.WHEEL_TIMER_TOPIC, 0
        place = (queue_id, QueueOffset(0), LogOffset(0), 0)
        return StoredMessage(topic, body, properties, 0, *place, now_ms, host, 0, host)

    def slot_of(self, due_ms: int, now_ms: int) -> int | None:
        """With which slot of the timers a record waits for that moment; None: it is stored here at once."""
        if due_ms > now_ms and self._timers is not None:
            return slot_before(due_ms, self._timers.precision_ms)
        return None

    def put(self, messages: Sequence[StoredMessage]) -> str | None:
        """Store all of them, next to each other; or what went wrong: then some of the first may be stored."""
        return self._put(lambda: self._store.append_each(messages))

    def put_laid(self, lay: Callable[[LogWriter, Queue], None]) -> str | None:
        """The same for records that `lay` makes itself: all are to wait for their moment."""

        def append() -> Sequence[IllegalMessageError | None]:
            self._store.check_writable()
            queue = self._store.queues.make(names.WHEEL_TIMER_TOPIC, 0)
            with self._store.batch() as writer:
                lay(writer, queue)
            return ()

        return self._put(append)

    def _put(self, append: Callable[[], Sequence[IllegalMessageError | None]]) -> str | None:
        if self._on_first is not None:
            self._on_first()
            self._on_first = None
        try:
            problems = append()
        except StoreError as error:
            return str(error)
        except OSError as error:
            return told(error)
        self._is_unflushed = True
        if self._timers is not None:
            self._timers.expect()
        return next((str(problem) for problem in problems if problem is not None), None)

    def take_unflushed(self) -> bool:
        """Whether anything was put since this was last asked, or is to be flushed still."""
        was_put, self._is_unflushed = self._is_unflushed, False
        return was_put

    def expect_flush(self) -> None:
        """What was put could not be flushed."""
        self._is_unflushed = True

    def wait(self, done: Done) -> None:
        """Call `done` once all that was put is as safe as the settings promise: at once, or after a flush."""
        store = self._store
        if not store.is_sync:
            done(None)
            return

        def flushed(how: Flushed) -> None:
            done(None if how is not Flushed.FAILED else f"the store is read-only: {store.problem}")

        self._flusher.wait(store.max_log_offset, flushed)
