"""A broker without sockets, threads and a time of its own: everything else is there, and works when a test says so."""

from __future__ import annotations

import itertools

from rocketline.broker.metadata.saving import SavedBehind
from rocketline.broker.routing import RequestRouting
from rocketline.broker.server import wire_up
from rocketline.broker.services import Services
from rocketline.broker.storage import BrokerStorage
from rocketline.logs import Throttle
from rocketline.model.message import StoredMessage
from rocketline.net.dispatch import Dispatcher
from rocketline.store.filesystem import FileSystem
from rocketline.store.store_hooks import StoreHooks
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.connections import broker_settings
from support.brokers.tables import HOST, ROOT, SMALL
from support.net.doubles import RecordingOwner, connected, feed, turn
from support.stores.small import flush, reserve_ahead


class StillBroker:
    """Use it as `async with`; it is gone afterwards, and was not stopped unless that was said.

    It has one connection, on which it is asked what clients ask, and says what it says of its own accord. `settings`
    are Apache's keys.
    """

    def __init__(self, clock: FakeClock, files: FileSystem, **settings: str) -> None:
        given = broker_settings(**{"storePathRootDir": str(ROOT), "brokerName": "broker-a", **SMALL, **settings})
        log, address = Throttle(clock), str(HOST)
        self.clock, self.told = clock, list[Command]()
        self.unsaved = set[str]()
        """Tables that could not be written the last time."""
        self.storage = BrokerStorage(given, files, clock, HOST, log)
        self.store = self.storage.store
        self.services = services = Services(self.storage, given, address, clock, log)
        routing = RequestRouting(self.storage, services, given, files, clock, log)
        wire_up(self.storage, services, routing)
        quiet = StoreHooks(
            settle=routing.settle, on_arrival=services.on_arrival, is_needed=self.storage.has_late_timers
        )
        self.store.connect(quiet)
        services.flusher.flush = self._flush  # type: ignore[method-assign]
        services.saving.save = self._save  # type: ignore[method-assign]
        dispatcher = Dispatcher(routing.pulls | routing.others, log)
        self._channel, self._transport = connected(RecordingOwner(clock, dispatcher))
        self._opaques = itertools.count(1)

    async def __aenter__(self) -> StillBroker:
        await self.services.notifications.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.services.notifications.__aexit__(*exc_info)

    # --- as a client

    async def request(self, command: Command, timeout_s: float = 0) -> Command:
        """The answer, which must come by itself within some turns of the loop."""
        command.opaque = next(self._opaques)
        feed(self._channel, frame.encode(command))
        for _ in range(1000):
            await turn()
            said = self._transport.commands()
            self._transport.written.clear()
            self.told += [one for one in said if not one.is_response]
            if answers := [one for one in said if one.is_response]:
                (answer,) = answers
                assert answer.opaque == command.opaque
                return answer
        raise AssertionError(f"no answer to request {command.code}")

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self.request(Command(code, ext or {}, body))

    def contents(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """All that can be read there."""
        found: list[StoredMessage] = []
        offset = self.store.min_offset(topic, queue_id)
        while records := self.store.read(topic, queue_id, offset, 1000, None).records:
            found += decode_records(b"".join(records))
            offset = found[-1].queue_offset + 1
        return found

    # --- what is done in the background

    def work(self) -> None:
        """Deliver and revive what is due."""
        timers, revival = self.storage.timers, self.services.revival
        assert timers is not None
        assert revival is not None
        while timers.step() == 0:
            continue
        while revival.look() == 0:
            continue

    async def check(self) -> None:
        """A round of questions about open transactions. Raises `OSError`."""
        await self.services.checks.check()
        await self.ask(0)  # any answer comes behind the questions

    def flush(self) -> None:
        """Write the log to the disk, with all that may be said then."""
        reserve_ahead(self.store)
        self._flush()
        self.services.commit_safe()

    def _flush(self) -> None:
        """Those who waited for it are told."""
        flush(self.store)
        flusher = self.services.flusher
        flusher._release_durable() if self.store.problem is None else flusher._release_all()

    def save(self) -> None:
        """Write all tables."""
        self.services.ops.write()
        self.services._save_offsets()
        self.services._save_timers()
        storage = self.storage
        for what, table in (
            ("topics", storage.topics.table),
            ("groups", storage.groups.table),
            ("pops in order", storage.orders),
            ("filters", storage.filters),
            ("delays", storage.schedule),
            ("half messages", storage.transaction_figures),
        ):
            self._save(what, table)

    def _save(self, what: str, table: SavedBehind) -> None:
        self.unsaved.discard(what)
        try:
            job = table.begin_save()
        except OSError:
            self.unsaved.add(what)
            return
        if job is None:
            return
        try:
            for _ in job.steps():
                continue
            job.run()
        except OSError:
            table.save_failed()
            self.unsaved.add(what)
        else:
            table.save_done()

    def close(self) -> None:
        """A clean stop, in the order of a broker's."""
        self.services.merge.store_all()
        self.flush()
        self.services.ops.close()
        self.storage.close()
