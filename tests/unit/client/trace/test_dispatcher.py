"""How trace records leave when those who carry them fail."""

from __future__ import annotations

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.trace.buffer import TraceBatch, TraceBuffer
from rocketline.client.trace.dispatcher import TraceDispatcher
from rocketline.testing.fake_clock import FakeClock
from support.clients.members import passes


class Carrier:
    """Has no file descriptor for its first connection."""

    def __init__(self) -> None:
        self.opened = 0
        self.carried: list[str] = []

    async def open(self) -> None:
        self.opened += 1
        if self.opened == 1:
            raise OSError(24, "Too many open files")

    async def carry(self, batch: TraceBatch) -> None:
        self.carried.append(batch.text)

    async def close(self) -> None:
        self.opened = 0


async def test_records_wait_while_nothing_can_be_opened_and_leave_later() -> None:
    clock, buffer, carrier = FakeClock(), TraceBuffer(), Carrier()
    async with ClientRuntime(ClientOptions(name_servers=("127.0.0.1:1",)), clock=clock) as runtime:
        dispatcher = TraceDispatcher(runtime, buffer, carrier)
        dispatcher.begin()
        buffer.add("record", "key")
        await passes(clock, lambda: carrier.opened == 1, within_s=2)
        assert (carrier.carried, len(buffer)) == ([], 1)
        await passes(clock, lambda: bool(carrier.carried), within_s=2)
        assert (carrier.carried, buffer.dropped) == (["record"], 0)
        await dispatcher.close()
