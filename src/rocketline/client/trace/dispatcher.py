"""Brings trace records on their way, some times a second, and at the end what is left. Java: AsyncTraceDispatcher."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.trace.buffer import TraceBatch, TraceBuffer
from rocketline.logs import Throttle

FLUSH_PERIOD_S: Final = 0.5
CLOSE_WAIT_S: Final = 5.0
"""How long the last records have. What has not left by then is dropped."""
_IN_FLIGHT_MAX: Final = 4
"""Trace messages on their way at once."""


class TraceCarrier(Protocol):
    """Who sends trace messages. What it raises is told, and goes no further."""

    async def open(self) -> None:
        """Be ready; called before each round."""

    async def carry(self, batch: TraceBatch) -> None:
        """Send one message."""

    async def close(self) -> None:
        """Nothing more will come."""


class TraceDispatcher:
    """Takes the records of one client out of its buffer, from `begin` to `close`, on the loop of its runtime.

    Records that cannot be sent are lost, and counted: they must not pile up behind a broker that is not there.
    """

    def __init__(self, runtime: ClientRuntime, buffer: TraceBuffer, carrier: TraceCarrier) -> None:
        self._runtime, self._buffer, self._carrier = runtime, buffer, carrier
        self._throttle = Throttle(runtime.clock, name=__name__)
        self._closing = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._told = 0

    def begin(self) -> None:
        self._work = self._runtime.spawn(self._run(), name="send trace records")

    async def close(self) -> None:
        """Send what is left, within `CLOSE_WAIT_S`, and tell what was dropped."""
        self._closing.set()
        if self._work is None:
            return
        await asyncio.wait([self._work], timeout=CLOSE_WAIT_S)
        self._work.cancel()
        await asyncio.wait([self._work])

    async def _run(self) -> None:
        """Until somebody closes it, or its runtime."""
        try:
            while not await self._runtime.wait_for(self._closing, FLUSH_PERIOD_S):
                await self._flush()
            await self._flush()
        except asyncio.CancelledError:
            if not self._closing.is_set():  # the runtime was closed under it
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_WAIT_S):
                        await self._flush()
            raise
        finally:
            await self._end()

    async def _end(self) -> None:
        while (batch := self._buffer.take()) is not None:
            self._buffer.dropped += batch.records
        self._tell_drops()
        self._throttle.flush()
        await self._carrier.close()

    async def _flush(self) -> None:
        """Send what is there by now."""
        left = len(self._buffer)
        try:
            if left:
                await self._carrier.open()
            while left > 0 and (batches := self._next_batches()):
                left -= sum(batch.records for batch in batches)
                await asyncio.gather(*map(self._send, batches))
        except Exception as error:  # noqa: BLE001  # one that ends here would end all tracing, and nobody would know
            self._throttle.warning("trace records wait", str(error), records=len(self._buffer))
        self._tell_drops()
        self._throttle.flush_due()

    def _next_batches(self) -> list[TraceBatch]:
        batches: list[TraceBatch] = []
        while len(batches) < _IN_FLIGHT_MAX and (batch := self._buffer.take()) is not None:
            batches.append(batch)
        return batches

    async def _send(self, batch: TraceBatch) -> None:
        lost = batch.records
        try:
            await self._carrier.carry(batch)
            lost = 0
        except Exception as error:  # noqa: BLE001  # whatever it is, no message of the application's depends on it
            self._throttle.warning("trace records not sent", str(error), records=batch.records)
        finally:
            self._buffer.dropped += lost

    def _tell_drops(self) -> None:
        dropped = self._buffer.dropped
        if dropped != self._told:
            self._throttle.warning("trace records dropped", "no message was held up for them", dropped=dropped)
            self._told = dropped
