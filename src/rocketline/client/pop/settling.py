"""What is said of popped messages: done with, hidden for longer, given back, dead.

Java: MQClientAPIImpl.ackMessageAsync, batchAckMessageAsync and changeInvisibleTimeAsync; dead letters as in Apache's
proxy, since brokers give a popped message again without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.errors import BrokerNotFoundError, ResponseError, RocketlineError
from rocketline.wire import bodies, headers
from rocketline.wire.bodies.pop import BatchAck, BatchAckMessageRequestBody, bit_set_of
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    ConsumerSendMsgBackRequestHeader,
)

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

Failures: TypeAlias = list[tuple[PoppedMessage, RocketlineError]]
RETRY_DELAYS_S: Final = (
    10.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 420.0, 480.0, 540.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
)  # fmt: skip
"""How long a message rests after each failure. Java: popDelayLevel."""
_AT_ONCE: Final = 64
_TOGETHER: Final = 1_000
"""Acknowledgements in one request: a broker need not take any number of them."""
_BIT_MAX: Final = 0xFFFF
"""A batch names messages by their distance from the first of their pop; one that is further off is named alone."""
_DEAD: Final = -1
"""The delay level that has a broker put a message to the dead letters."""


def retry_delay_s(message: PoppedMessage) -> float:
    """How long a message that failed should rest: longer each time."""
    return RETRY_DELAYS_S[max(0, min(message.reconsume_times, len(RETRY_DELAYS_S) - 1))]


class Settling:
    """Tells brokers of a group's messages. Nothing here asks whether a handle may still count."""

    def __init__(self, runtime: ClientRuntime, group: str, *, timeout_s: float) -> None:
        """`group` is as on the wire."""
        self._runtime, self._group, self._timeout_s = runtime, group, timeout_s

    async def ack(self, message: PoppedMessage) -> None:
        """It is done with. Raises `TransportError`, `ResponseError`, `BrokerNotFoundError`."""
        handle = message.handle
        header = AckMessageRequestHeader(
            consumer_group=self._group,
            topic=self._store_topic(message),
            queue_id=handle.queue_id,
            extra_info=handle.format(),
            offset=handle.queue_offset,
        )
        await self._runtime.ask_ok(self._address(message), header, timeout_s=self._timeout_s)
        message.settle()

    async def ack_all(self, messages: Sequence[PoppedMessage]) -> Failures:
        """The same for many, by few requests to each broker; those for which it failed."""
        if len(messages) < 2:
            return await each_of(messages, self.ack)
        by_broker: dict[str, list[PoppedMessage]] = {}
        for message in messages:
            by_broker.setdefault(message.handle.broker_name, []).append(message)
        some = (each[at : at + _TOGETHER] for each in by_broker.values() for at in range(0, len(each), _TOGETHER))
        failures = await asyncio.gather(*map(self._ack_of_broker, some))
        return [failure for some in failures for failure in some]

    async def _ack_of_broker(self, messages: Sequence[PoppedMessage]) -> Failures:
        near = [message for message in messages if 0 <= _distance(message) <= _BIT_MAX]
        if len(near) < 2:
            return await each_of(messages, self.ack)
        alone = await each_of([message for message in messages if not 0 <= _distance(message) <= _BIT_MAX], self.ack)
        try:
            await self._ack_together(near)
        except ResponseError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # before 5.1
                return alone + await each_of(near, self.ack)
            return alone + [(message, error) for message in near]
        except RocketlineError as error:
            return alone + [(message, error) for message in near]
        return alone

    async def _ack_together(self, messages: Sequence[PoppedMessage]) -> None:
        body = bodies.encode(BatchAckMessageRequestBody(messages[0].handle.broker_name, self._batches(messages)))
        request = Command(RequestCode.BATCH_ACK_MESSAGE, body=body)
        await self._runtime.ask_ok(self._address(messages[0]), request, timeout_s=self._timeout_s)
        for message in messages:
            message.settle()

    def _batches(self, messages: Sequence[PoppedMessage]) -> list[BatchAck]:
        """One for all messages that share a checkpoint."""
        by_checkpoint: dict[tuple[object, ...], list[PoppedMessage]] = {}
        for message in messages:
            handle = message.handle
            key = (message.topic, handle.kind, handle.queue_id, handle.start_offset, handle.pop_ms, handle.invisible_ms)
            by_checkpoint.setdefault((*key, handle.revive_queue_id), []).append(message)
        return [self._batch(some) for some in by_checkpoint.values()]

    def _batch(self, messages: Sequence[PoppedMessage]) -> BatchAck:
        first = messages[0].handle
        return BatchAck(
            consumer_group=self._group,
            topic=self._runtime.with_namespace(messages[0].topic),
            retry=f"{first.kind:d}",
            start_offset=first.start_offset,
            queue_id=first.queue_id,
            revive_queue_id=first.revive_queue_id,
            pop_time=first.pop_ms,
            invisible_time=first.invisible_ms,
            bit_set=bit_set_of(map(_distance, messages)),
        )

    async def hide(self, message: PoppedMessage, invisible_s: float) -> None:
        """Nobody else is given it for so long from now on. Raises like `ack`, and `RemoteProtocolError`."""
        handle, asked_s = message.handle, self._runtime.clock.monotonic()
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=self._group,
            topic=self._store_topic(message),
            queue_id=handle.queue_id,
            extra_info=handle.format(),
            offset=handle.queue_offset,
            invisible_time=round(1000 * invisible_s),
        )
        answer = await self._runtime.ask_ok(self._address(message), header, timeout_s=self._timeout_s)
        told = headers.decode(ChangeInvisibleTimeResponseHeader, answer.ext)
        renewed = handle.renewed(told.pop_time, told.invisible_time, told.revive_qid)
        message.renew(renewed, asked_s + min(told.invisible_time / 1000, invisible_s))

    async def give_back(self, message: PoppedMessage, delay_s: float) -> None:
        """Somebody gets it after so long. Raises like `hide`."""
        await self.hide(message, delay_s)
        message.settle()

    async def bury(self, message: PoppedMessage) -> None:
        """Put it to the group's dead letters, and say that it is done with. Raises like `ack`."""
        header = ConsumerSendMsgBackRequestHeader(
            group=self._group,
            origin_topic=self._store_topic(message),
            offset=message.log_offset,
            delay_level=_DEAD,
            origin_msg_id=message.message_id,
            max_reconsume_times=0,
            target_broker=message.handle.broker_name,
        )
        await self._runtime.ask_ok(self._address(message), header, timeout_s=self._timeout_s)
        await self.ack(message)

    def _store_topic(self, message: PoppedMessage) -> str:
        return message.handle.kind.store_topic(self._runtime.with_namespace(message.topic), self._group)

    def _address(self, message: PoppedMessage) -> str:
        address = self._runtime.routes.master(message.handle.broker_name)
        if address is None:
            raise BrokerNotFoundError(message.handle.broker_name, "no master is in any route that was read")
        return address


async def each_of(messages: Sequence[PoppedMessage], work: Callable[[PoppedMessage], Awaitable[None]]) -> Failures:
    """Do it to each, some at a time; those for which it failed."""
    slots, failures = asyncio.Semaphore(_AT_ONCE), Failures()

    async def one(message: PoppedMessage) -> None:
        async with slots:
            try:
                await work(message)
            except RocketlineError as error:
                failures.append((message, error))

    if len(messages) == 1:
        await one(messages[0])
    elif messages:
        await asyncio.gather(*map(one, messages))
    return failures


def _distance(message: PoppedMessage) -> int:
    """From the first message of its checkpoint."""
    return message.handle.queue_offset - message.handle.start_offset
