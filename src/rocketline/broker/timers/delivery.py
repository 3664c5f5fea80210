"""Puts the messages of a slot where they belong, once it is over. Java: TimerMessageStore.dequeue.

Those that were called back are left out; those whose time lies beyond the wheel are parked once more. All of it is done
in steps: a slot may have any number of messages.

Differs: a message that the store does not take now is tried until it does; Apache gives up after three times unless
`timerEnableRetryUntilSuccess` is set. A marker calls back a message of its own topic only.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from rocketline.broker.long_work import Steps
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.timers.timed_messages import NEVER_PARKED, key_of, released, rolled, slot_ms_of
from rocketline.errors import StoreError
from rocketline.logs import Throttle
from rocketline.model.message import StoredMessage
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.message_store import MessageStore
from rocketline.store.timers.recovery import BrokenTimersError
from rocketline.store.timers.timer_log import TimerUnit
from rocketline.store.timers.timer_store import TimerStore
from rocketline.wire.recall_handle import recalled_key

_RUN_MESSAGES: Final = 64
_RUN_BYTES: Final = 256 * 1024
"""So much is delivered in one turn of the loop: a few milliseconds."""
_WALK_UNITS: Final = 2000
"""So many units are looked at in one turn."""
_MARKERS: Final = 128
_MARKERS_A_PLACE: Final = 64


class _Recalled:
    """What the markers of one slot call back, in some ten bytes for each: there may be millions, with keys of 16 KB.

    A message is known by a hash of 64 bits that nobody outside can work out.
    """

    def __init__(self, markers: int) -> None:
        self._places = [array("Q") for _ in range(1 + markers // _MARKERS_A_PLACE)]
        self._secret = os.urandom(16)

    def add(self, topic: str, key: str) -> None:
        hashed = self._hash(topic, key)
        self._places[hashed % len(self._places)].append(hashed)

    def has(self, topic: str, key: str) -> bool:
        """Whether this message was called back."""
        hashed = self._hash(topic, key)
        return hashed in self._places[hashed % len(self._places)]

    def _hash(self, topic: str, key: str) -> int:
        text = f"{topic}\0{key}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=8, key=self._secret).digest(), "big")


class TimerDelivery:
    """Takes slots and delivers them."""

    def __init__(self, store: MessageStore, timers: TimerStore, stats: BrokerStats, log: Throttle) -> None:
        self._store, self._timers, self._stats, self._log = store, timers, stats, log
        self.count = 0
        """Messages delivered, or parked once more, by this process."""
        self.refusal: StoreError | OSError | None = None
        """Why the last messages could not be put."""
        self._has_rolled = False

    def deliver_now(self, messages: Iterable[StoredMessage]) -> None:
        """Deliver messages of the timer topic that were due before they could be parked.

        Raises `StoreError` or `OSError`; then none of them counts as delivered.
        """
        now_ms = self._store.store_clock.now_ms()
        self._put([
            message
            for parked in messages
            if recalled_key(parked.properties) is None
            and (message := self._released(parked, NEVER_PARKED, now_ms)) is not None
        ])  # fmt: skip

    def slot(self, slot_ms: int) -> Steps[None]:
        """Deliver the first slot. While the store takes nothing, `refusal` tells why, and steps try again.

        Raises `BrokenTimersError` or `OSError` if the slot cannot be read.
        """
        places, markers = array("q"), array("q")
        for count, (position, unit) in enumerate(self._timers.take(slot_ms), 1):
            is_marker = unit.is_delete and not unit.is_roll
            (markers if is_marker else places).append(position)
            if not count % _WALK_UNITS:
                yield
        recalled = _Recalled(len(markers)) if markers else None
        changes: Counter[str] = Counter()
        size = 0
        for count, position in enumerate(markers, 1):
            unit = self._timers.unit_at(position)
            marker = self._parked_at(unit.log_offset)
            if recalled is not None and marker is not None and (key := recalled_key(marker.properties)) is not None:
                changes[key[0]] += 1
                recalled.add(*key)
            size += unit.record_bytes
            if size > _RUN_BYTES or not count % _MARKERS:
                size = 0
                yield
        for run in self._runs(places):
            messages = self._messages(run, recalled, changes)
            while not self._is_put(messages):
                yield
            yield
        for topic, change in changes.items():
            self._timers.counts.add(topic, change)
        self._timers.delivered(slot_ms)

    def take_rolled(self) -> bool:
        """Whether messages were parked once more since this was last asked. They may be due before others that wait."""
        has_rolled, self._has_rolled = self._has_rolled, False
        return has_rolled

    def _runs(self, places: array[int]) -> Iterator[list[TimerUnit]]:
        """The units of a slot, the oldest first, some at a time."""
        run: list[TimerUnit] = []
        size = 0
        for position in reversed(places):
            unit = self._timers.unit_at(position)
            if run and (len(run) == _RUN_MESSAGES or size + unit.record_bytes > _RUN_BYTES):
                yield run
                run, size = [], 0
            run.append(unit)
            size += unit.record_bytes
        if run:
            yield run

    def _messages(
        self, units: list[TimerUnit], recalled: _Recalled | None, changes: Counter[str]
    ) -> list[StoredMessage]:
        """What is to be put for these units, without those that were called back, and what it does to the counts."""
        now_ms, messages = self._store.store_clock.now_ms(), []
        for unit in units:
            parked = self._parked_at(unit.log_offset)
            if parked is None:
                self._log.warning("timer message left behind", "it is gone from the log", log_offset=unit.log_offset)
            elif (slot_ms_of(parked) or 0) > unit.slot_ms and not unit.is_roll:
                raise BrokenTimersError(f"the message at {unit.log_offset} is not due at {unit.slot_ms}")
            elif unit.is_roll:
                changes[key_of(parked)[0]] += 1 if unit.is_delete else -1
                self._has_rolled = True
                messages.append(rolled(parked, unit.write_ms, now_ms))
            else:
                topic, key = key_of(parked)
                changes[topic] -= 1
                is_recalled = recalled is not None and recalled.has(topic, key)
                message = self._released(parked, unit.write_ms, now_ms) if not is_recalled else None
                if message is not None:
                    messages.append(message)
        return messages

    def _parked_at(self, log_offset: int) -> StoredMessage | None:
        """The message that a unit leads to, None if it is gone from the log or damaged there.

        Raises `BrokenTimersError` for a place where there never was one: the unit is damaged.
        """
        parked = self._store.message_at(log_offset)
        if parked is not None and parked.topic == WHEEL_TIMER_TOPIC:
            return parked
        if parked is None and (log_offset < self._store.min_log_offset or self._store.is_damaged_at(log_offset)):
            return None
        raise BrokenTimersError(f"a unit leads to {log_offset}, where no timer message is")

    def _is_put(self, messages: list[StoredMessage]) -> bool:
        try:
            self._put(messages)
        except (StoreError, OSError) as error:
            self.refusal = error
        else:
            self.refusal = None
        return self.refusal is None

    def _released(self, parked: StoredMessage, parked_ms: int, now_ms: int) -> StoredMessage | None:
        message = released(parked, parked_ms, now_ms)
        if message is None:
            self._log.warning("timer message left behind", "it names no topic and queue", offset=parked.queue_offset)
        return message

    def _put(self, messages: list[StoredMessage]) -> None:
        if not messages:
            return
        problems = self._store.append_each(messages)
        for message, problem in zip(messages, problems, strict=True):
            if problem is not None:
                self._log.error("timer message left behind", str(problem), topic=message.topic)
            else:
                self._stats.put(message.topic, message.queue_id, 1, len(message.body))
        self.count += len(messages)
