"""Where groups are that pop, found out after a crash: the log knows more than the offsets that were saved last.

Each pop has its checkpoint in the log before it is answered, but offsets are saved every few seconds. So that nobody is
handed what is invisible, or was acknowledged, a start reads the checkpoints that the saved offsets do not know of. From
where on, the offsets themselves say: CID_RMQ_SYS_REVIVE_GROUP has one in the timer topic, through which all of them go.

Apache's broker begins again where its offsets were saved, and hands messages out twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.pop.checks import MESSAGES_MAX
from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.model.names import REVIVE_GROUP, WHEEL_TIMER_TOPIC, revive_topic
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.pop import CHECKPOINT_TAG, PopCheckPoint

_READ: Final = 0
"""In place of a queue: the timer topic was read up to there when offsets were saved."""
_MERGED: Final = 1
"""In place of a queue: 1 while checkpoints may be missing, because they were in memory."""
_RECORDS: Final = 128
_FAR: Final = 10_000
"""Messages for a moment: a start takes a quarter of a second for them."""


class OffsetRecovery:
    """What the saved offsets say of checkpoints."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets, settings: Settings[BrokerConfig]) -> None:
        self._store, self._offsets, self._settings = store, offsets, settings
        self._revive_topic = revive_topic(settings.value.broker_cluster_name)
        self._has_gaps = False
        """Checkpoints may be missing: only those that follow on each other say how far a group is."""

    @property
    def _marks(self) -> dict[int, int]:
        return dict(self._offsets.offsets_of(REVIVE_GROUP, WHEEL_TIMER_TOPIC))

    @property
    def is_begun(self) -> bool:
        """Offsets tell of checkpoints: somebody has popped."""
        return _READ in self._marks

    @property
    def is_far_behind(self) -> bool:
        """There is much in the log that a start after a crash would look through, though nobody may have popped."""
        return self.is_begun and self._store.max_offset(WHEEL_TIMER_TOPIC, 0) - self._marks[_READ] > _FAR

    def note(self) -> None:
        """The offsets, as they are now, know of all checkpoints in the log. To be called before they are saved."""
        end = self._store.max_offset(WHEEL_TIMER_TOPIC, 0)
        if self._marks.get(_READ, -1) != end:
            self._offsets.commit(REVIVE_GROUP, WHEEL_TIMER_TOPIC, _READ, end)

    def note_merged(self, *, is_merged: bool) -> None:
        """Checkpoints are kept in memory from now on, or none is any more."""
        if self._marks.get(_MERGED, 0) != is_merged:
            self._offsets.commit(REVIVE_GROUP, WHEEL_TIMER_TOPIC, _MERGED, int(is_merged))

    def recover(self) -> None:
        """Let groups be behind what the log says they popped. Raises `OSError`."""
        if not self.is_begun:
            return
        self._has_gaps = bool(self._marks.get(_MERGED)) or self._settings.value.enable_pop_buffer_merge
        unsure: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for point in list(self._points()):  # all of them first: one that is torn may come behind those that are not
            place = point.consumer_group or "", point.topic or "", point.queue_id
            span = self._span(point)
            if span is None:
                continue
            if self._has_gaps or self._may_be_old(point, place):
                unsure.setdefault(place, []).append(span)
            else:
                self._raise(place, span[1])
        for place, spans in unsure.items():
            for start, end in sorted(spans):
                if start <= self._known(place):
                    self._raise(place, end)
        self.note()

    def _span(self, point: PopCheckPoint) -> tuple[int, int] | None:
        """From where to where its messages are; None if there are none."""
        if not 0 < point.count <= MESSAGES_MAX:
            return None
        end = max(point.offsets()) + 1
        return (point.start_offset, end) if end <= self._store.max_offset(point.topic or "", point.queue_id) else None

    def _may_be_old(self, point: PopCheckPoint, place: tuple[str, str, int]) -> bool:
        """A checkpoint of one message, or one that was noted anew, may be of what was popped long ago and put off: the
        group may have been sent back since, and what it has not popped again must not be passed by."""
        return self._known(place) >= 0 and (point.count == 1 or point.re_put_times is not None)

    def _known(self, place: tuple[str, str, int]) -> int:
        group, topic, queue_id = place
        return self._offsets.offsets_of(group, topic).get(queue_id, -1)

    def _raise(self, place: tuple[str, str, int], end: int) -> None:
        if end > self._known(place):
            self._offsets.commit(*place, end)

    def _points(self) -> Iterator[PopCheckPoint]:
        """The checkpoints that the offsets may not know of: those on their way, and those that were due at once."""
        yield from self._points_in(WHEEL_TIMER_TOPIC, 0, self._marks[_READ])
        done = self._offsets.offsets_of(REVIVE_GROUP, self._revive_topic)
        for queue_id in list(self._store.queues_of(self._revive_topic)):
            yield from self._points_in(self._revive_topic, queue_id, done.get(queue_id, -1) + 1)

    def _points_in(self, topic: str, queue_id: int, offset: int) -> Iterator[PopCheckPoint]:
        offset = max(offset, self._store.min_offset(topic, queue_id))
        while units := self._store.units(topic, queue_id, offset, _RECORDS):
            offset += len(units)
            for log_offset, _, _ in units:
                record = self._store.message_at(log_offset)
                if record is None or record.topic != topic:  # a power cut has torn it, and not those behind it
                    self._has_gaps = True
                    continue
                if record.tag != CHECKPOINT_TAG:
                    continue
                if record.properties.get(property_names.REAL_TOPIC, topic) != self._revive_topic:
                    continue
                try:
                    yield decode(PopCheckPoint, record.body)
                except RemoteProtocolError:  # whoever works through the revive topic tells of it
                    continue
