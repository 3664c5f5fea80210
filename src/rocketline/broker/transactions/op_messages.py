"""Op messages: which half messages have ended, noted in RMQ_SYS_TRANS_OP_HALF_TOPIC, many in one.

Java: deletePrepareMessage and TransactionalOpBatchService. What a crash takes away of them is asked for once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.transactions.half_messages import op_message
from rocketline.clock import Clock
from rocketline.errors import StoreError
from rocketline.logs import Throttle
from rocketline.model.names import OP_HALF_TOPIC
from rocketline.settings import Settings
from rocketline.store.filesystem import told
from rocketline.store.message_store import MessageStore

_WAITING_MAX: Final = 20_000
"""As many as Apache holds: then they are written, whatever the settings say. Only a store that takes nothing lets so
many wait on; then no transaction ends."""

_AGAIN_S: Final = 1.0
"""Pause before a store that took nothing is tried again, however short `transactionOpBatchInterval` is."""


class OpMessages:
    """Collects the queue offsets of half messages that have ended, and writes them: when they are as long as
    `transactionOpMsgMaxSize`, or `transactionOpBatchInterval` after the first of them."""

    def __init__(
        self,
        store: MessageStore,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._store, self._stats, self._settings = store, stats, settings
        self._clock, self._log, self._call_later = clock, log, call_later
        self._waiting: dict[int, None] = {}
        self._unread: set[int] = set()
        """Half messages whose ends are written and, with SYNC_FLUSH, cannot be read before the log is flushed up to
        `_unread_end`."""
        self._unread_end = 0
        self._size = 0
        self._is_due = False

    def __contains__(self, queue_offset: int) -> bool:
        """The half message has ended, and no op message that can be read says so yet."""
        self._forget_readable()
        return queue_offset in self._waiting or queue_offset in self._unread

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """No more can be noted now, because nothing is written."""
        return len(self._waiting) >= _WAITING_MAX

    def add(self, queue_offset: int) -> None:
        """The half message at this place of its queue has ended."""
        if queue_offset in self._waiting:
            return
        self._waiting[queue_offset] = None
        self._size += len(str(queue_offset)) + 1
        if self._size >= self._settings.value.transaction_op_msg_max_size or self.is_full:
            self.write()
        self._come_back()

    def write(self) -> None:
        """Write those that wait. What the store does not take waits on."""
        size_max = self._settings.value.transaction_op_msg_max_size
        while self._waiting:
            body, taken = "", []
            for offset in self._waiting:
                if body and len(body) >= size_max:
                    break
                body += f"{offset},"
                taken.append(offset)
            message = op_message(body, self._store.store_host, self._clock.wall_ms())
            try:
                written = self._store.append_whole(message)
            except StoreError as error:
                self._log.warning("ends of transactions not noted yet", str(error), waiting=len(self._waiting))
                return
            except OSError as error:
                self._log.warning("ends of transactions not noted yet", told(error), waiting=len(self._waiting))
                return
            self._stats.put(OP_HALF_TOPIC, 0, 1, written.size)
            self._size -= len(body)
            for offset in taken:
                del self._waiting[offset]
            self._forget_readable()  # here, too: no round of checks may come for days
            self._unread.update(taken)
            self._unread_end = self._store.max_log_offset

    def _forget_readable(self) -> None:
        if self._unread and self._store.confirm_log_offset >= self._unread_end:
            self._unread.clear()

    def close(self) -> None:
        """Write them now, and forget what the store does not take: their producers are asked once more."""
        self.write()
        self._waiting.clear()

    def _come_back(self, wait_s: float = 0.0) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            interval_s = self._settings.value.transaction_op_batch_interval / 1000
            self._call_later(max(interval_s, wait_s), self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        self.write()
        self._come_back(_AGAIN_S)  # what waits still the store did not take
