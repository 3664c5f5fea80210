"""The producer that a client has for its trace records alone, with connections of its own. Java: AsyncTraceDispatcher.

On its client's connections records would stand before messages. Nor has it a namespace: the trace topic is all
tenants', as with Java. It opens nothing before there is a record.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from contextlib import suppress
from dataclasses import fields
from typing import Final, Literal, TypeAlias

from rocketline.client.options import DEFAULT_INSTANCE, ClientOptions
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.delivery import Delivery
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.runtime.members import TransactionCheck
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.trace.buffer import TraceBatch, TraceBuffer
from rocketline.client.trace.dispatcher import TraceDispatcher
from rocketline.model.message import Message
from rocketline.model.names import GROUP_LENGTH_MAX

_TIMEOUT_S: Final = 5.0
_FAREWELL_S: Final = 1.0
_NEVER_COMPRESSED: Final = 2**31
"""Bytes: compressing takes longer than all else that is done for a record. Java's messages are too short for it."""
_GROUP: Final = "_INNER_TRACE_PRODUCER"
_numbers = itertools.count()

Side: TypeAlias = Literal["PRODUCE", "CONSUME"]
"""What the client does whose records these are."""


class TraceProducer:
    """Sends trace messages, for a `TraceDispatcher`. On the loop where it is opened."""

    def __init__(self, runtime: ClientRuntime, group: str, side: Side, topic: str) -> None:
        """For the client of `group` on `runtime`."""
        self.group, self._topic = _inner_group(group, side), topic
        options = _options(runtime.options)
        self._runtime = ClientRuntime(options, clock=runtime.clock)
        self._core = ProducerCore(
            self.group,
            options,
            client_id=self._runtime.client_id,
            namespace="",
            common=options,
            routes=self._runtime.routes,
            clock=runtime.clock,
        )
        self._delivery = Delivery(self._runtime, self._core)
        self._is_open = False

    async def open(self) -> None:
        """Be ready to carry. Raises what finding name servers raises; again: does nothing."""
        if not self._is_open:
            await self._runtime.lease()
            self._runtime.register_producer(self.group, self)
            self._delivery.loop = asyncio.get_running_loop()
            self._is_open = True

    async def carry(self, batch: TraceBatch) -> None:
        """Send one message. Raises what `Producer.send` does."""
        message = Message(self._topic, batch.text.encode("utf-8", "replace"), keys=batch.keys)
        started_s = self._runtime.clock.monotonic()
        await self._delivery.send(self._core.prepare(message), SendMode.SYNC, None, None, started_s, _TIMEOUT_S)

    async def close(self) -> None:
        """Say farewell, for as long as a second: brokers find out anyhow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._runtime.close()

    # --- what its runtime asks

    def topics(self) -> Collection[str]:
        return self._core.topics

    def check_transaction(self, check: TransactionCheck) -> None:
        """Nobody asks: it makes none."""

    def runtime_closed(self) -> None:
        """Nobody waits: it has closed it itself."""


def trace_dispatcher(
    runtime: ClientRuntime, group: str, side: Side, topic: str, buffer: TraceBuffer
) -> TraceDispatcher:
    """What brings the records in `buffer`, of the client of `group` on `runtime`, to `topic`."""
    return TraceDispatcher(runtime, buffer, TraceProducer(runtime, group, side, topic))


def _inner_group(group: str, side: Side) -> str:
    """Java's name, as far as a group's may be long. No other producer of this process has it."""
    end = f"-{side}-{next(_numbers)}"
    return f"{_GROUP}-{group}"[: GROUP_LENGTH_MAX - len(end)] + end


def _options(common: ClientOptions) -> ProducerOptions:
    """Those of the client, as far as they are about reaching servers."""
    shared = {declared.name: getattr(common, declared.name) for declared in fields(ClientOptions)}
    shared |= {"namespace": "", "instance_name": DEFAULT_INSTANCE, "vip_channel": False}
    return ProducerOptions(**shared, send_timeout_s=_TIMEOUT_S, compress_over_bytes=_NEVER_COMPRESSED)
