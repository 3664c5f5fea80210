"""How far behind groups were when they last read: GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME.

Java: MomentStatsItemSet. Differs: Apache logs these every five minutes and tells nobody who asks; here they are asked
for like what is counted. They are values of a moment: the sum of every span is the value, and there are no rates.
"""

from __future__ import annotations

from typing import Final

from rocketline.broker.stats.counters import BrokerStats, LastRead
from rocketline.clock import Clock
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

GROUP_GET_FALL_SIZE: Final = "GROUP_GET_FALL_SIZE"
GROUP_GET_FALL_TIME: Final = "GROUP_GET_FALL_TIME"
FALLS: Final = frozenset({GROUP_GET_FALL_SIZE, GROUP_GET_FALL_TIME})
_QUEUE_ID_DIGITS_MAX: Final = 10


class ConsumerLag:
    """Looks into the store when somebody asks, so that pulls need not note when the messages they find were stored."""

    def __init__(self, stats: BrokerStats, store: MessageStore, clock: Clock) -> None:
        self._stats, self._store, self._clock = stats, store, clock

    def data(self, stat: str, key: str) -> BrokerStatsData | None:
        """The value for a key `queue@topic@group`; None if the group never read there, or the message is gone."""
        queue, _, rest = key.partition("@")
        topic, _, group = rest.partition("@")
        if not (queue.isascii() and queue.isdecimal() and len(queue) <= _QUEUE_ID_DIGITS_MAX):
            return None
        queue_id = int(queue)
        read = self._stats.last_read(group, topic, queue_id)
        if read is None:
            return None
        value = read.fall_bytes if stat == GROUP_GET_FALL_SIZE else self._fall_ms(topic, queue_id, read)
        return None if value is None else BrokerStatsData(*[BrokerStatsItem(value)] * 3)

    def _fall_ms(self, topic: str, queue_id: int, read: LastRead) -> int | None:
        """How old the last message was when the group got it."""
        if read.next_offset < 0:
            return 0
        store_ms = self._store.store_ms_at(topic, queue_id, read.next_offset - 1)
        if store_ms < 0:
            return None
        read_ms = self._clock.wall_ms() - int((self._clock.monotonic() - read.read_s) * 1000)
        return max(read_ms - store_ms, 0)
