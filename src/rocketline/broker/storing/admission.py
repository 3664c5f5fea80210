"""When a request is refused because the broker is busy. Java: BrokerFastFailure and the reject checks of processors.

In Java requests wait in the queues of thread pools. Here they wait in the connection that brought them, and their age
counts from the moment when their bytes were read: that of all requests which one turn of the loop did not get to.
The time for which we would not take a request, because the peer did not take our answers, does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from rocketline.broker.config import BrokerConfig
from rocketline.clock import Clock
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
_UNLIMITED = (
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.QUERY_ASSIGNMENT,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
"""Java's pools for queries, clients, consumers, load balancing and replies: whatever waits there is served, however
late."""


class Admission:
    """Lets a request in, or says why not."""

    def __init__(
        self, store: MessageStore, waiting: Callable[[], int], settings: Settings[BrokerConfig], clock: Clock
    ) -> None:
        self._store, self._waiting, self._settings, self._clock = store, waiting, settings, clock
        self._version = -1
        self._capacity, self._send_age_s, self._pull_age_s, self._ack_age_s = 0, 0.0, 0.0, 0.0

    def guarded(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same handlers behind a look at the age of each request."""
        return {code: self._guarded(code, handler) for code, handler in handlers.items()}

    def _guarded(self, code: int, handler: Handler) -> Handler:
        if code in _SENDS:
            return lambda channel, request: self._busy(self.send_refusal(channel.read_s)) or handler(channel, request)
        if code in _UNLIMITED:
            return handler
        limit_ms = _LIMITS.get(code, lambda config: config.wait_time_mills_in_admin_broker_queue)

        def guarded(channel: Channel, request: Command) -> Outcome:
            return self._busy(self._late(channel.read_s, limit_ms)) or handler(channel, request)

        return guarded

    def _busy(self, remark: str | None) -> Command | None:
        return response(ResponseCode.SYSTEM_BUSY, remark) if remark is not None else None

    def is_pull_late(self, read_s: float) -> bool:
        """A pull that was read at `read_s` has waited for too long."""
        if self._version != self._settings.version:
            self._refresh()
        return self._clock.monotonic() - read_s >= self._pull_age_s

    def is_ack_late(self, read_s: float) -> bool:
        """The same of an acknowledgement."""
        if self._version != self._settings.version:
            self._refresh()
        return self._clock.monotonic() - read_s >= self._ack_age_s

    def takes_sends(self, read_s: float) -> bool:
        """Whether a message that was read at `read_s` is taken: no `send_refusal`, found out faster."""
        if self._version != self._settings.version:
            self._refresh()
        age_s = self._clock.monotonic() - read_s
        return age_s < self._send_age_s and read_s >= self._store.stall_end_s and self._waiting() < self._capacity

    def _refresh(self) -> None:
        config = self._settings.value
        self._version, self._capacity = self._settings.version, config.send_thread_pool_queue_capacity
        is_limited = config.broker_fast_failure_enable
        self._send_age_s = config.wait_time_mills_in_send_queue / 1000 if is_limited else inf
        self._pull_age_s = config.wait_time_mills_in_pull_queue / 1000 if is_limited else inf
        self._ack_age_s = config.wait_time_mills_in_ack_queue / 1000 if is_limited else inf

    def send_refusal(self, read_s: float) -> str | None:
        """Why a message that was read at `read_s` is not taken; None if it is."""
        config = self._settings.value
        if read_s < self._store.stall_end_s and config.broker_fast_failure_enable:
            return "[PCBUSY_CLEAN_QUEUE]broker busy: writing to the log took too long, send again later"
        waiting, capacity = self._waiting(), config.send_thread_pool_queue_capacity
        if waiting >= capacity:
            return f"[OVERLOAD]system busy: {waiting} messages wait for their flush, at most {capacity} may"
        return self._late(read_s, lambda config: config.wait_time_mills_in_send_queue)

    def _late(self, read_s: float, limit_ms: Callable[[BrokerConfig], int]) -> str | None:
        age_ms = int((self._clock.monotonic() - read_s) * 1000)
        config = self._settings.value
        if age_ms < limit_ms(config) or not config.broker_fast_failure_enable:
            return None
        return f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {age_ms}ms"


_LIMITS: Mapping[int, Callable[[BrokerConfig], int]] = {
    RequestCode.PULL_MESSAGE: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.LITE_PULL_MESSAGE: lambda config: config.wait_time_mills_in_lite_pull_queue,
    RequestCode.POP_MESSAGE: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.PEEK_MESSAGE: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.NOTIFICATION: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.POLLING_INFO: lambda config: config.wait_time_mills_in_pull_queue,
    RequestCode.ACK_MESSAGE: lambda config: config.wait_time_mills_in_ack_queue,
    RequestCode.BATCH_ACK_MESSAGE: lambda config: config.wait_time_mills_in_ack_queue,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: lambda config: config.wait_time_mills_in_ack_queue,
    RequestCode.HEART_BEAT: lambda config: config.wait_time_mills_in_heartbeat_queue,
    RequestCode.END_TRANSACTION: lambda config: config.wait_time_mills_in_transaction_queue,
}
