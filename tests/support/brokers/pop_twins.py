"""The handlers of pops and acknowledgements with their fast twins, put together as the broker does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rocketline.broker.chores import Chores
from rocketline.broker.long_work import LongWork
from rocketline.broker.pop.acks import AckHandlers
from rocketline.broker.pop.checks import PopChecks
from rocketline.broker.pop.handler import PopHandlers
from rocketline.broker.pop.hot.acks import AckPath
from rocketline.broker.pop.hot.batch_acks import BatchAckPath
from rocketline.broker.pop.hot.pops import PopPath
from rocketline.broker.pop.long_poll import HeldBytes, HeldPops
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.pop.orderly_acks import OrderlyAcks
from rocketline.broker.pop.positions import PopPositions
from rocketline.broker.pop.reading import PopReading
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.storing.admission import Admission
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.timers.service import TimerService
from rocketline.hot import HotPath
from rocketline.net.channel import Channel, Outcome
from rocketline.store.store_hooks import StoreHooks
from rocketline.wire.command import Command
from support.brokers.sends import Peer
from support.brokers.tables import Tables


class PopTwins:
    """What hands messages out and notes what becomes of them; queues and turns are taken in order, not at random."""

    def __init__(self, tables: Tables) -> None:
        store, settings, clock = tables.store, tables.settings, tables.clock
        self.tables = tables
        self.soon: list[Callable[[], None]] = []
        self.timers = TimerService(store, tables.files, tables.stats, settings, clock, tables.log, slots=600)
        flusher = Flusher(store, lambda: settings.value.store, clock)
        self.positions = PopPositions(tables.offsets)
        self.revive = ReviveTopic(store, flusher, self.timers, settings, lambda: None)
        now_ms = store.store_clock.now_ms
        self.merge = MergeBuffer(self.revive, self.positions, settings, now_ms, tables.log, lambda: None)
        self.held = HeldPops(settings, clock, self.soon.append, HeldBytes())
        store.connect(StoreHooks(on_arrival=self.held.on_arrival, on_written=flusher.flush))
        orders = OrderInfos(tables.files, Path("/orders.json"), now_ms, lambda *_: True)
        filter_work = FilterWork(self.soon.append)
        self.reading = PopReading(
            store,
            tables.topics,
            tables.offsets,
            self.positions,
            orders,
            self.merge,
            self.revive,
            tables.stats,
            filter_work,
            settings,
            clock,
        )
        self.reading._random = lambda: 0.5
        checks = PopChecks(tables.topics, tables.groups, settings)
        work = LongWork(lambda _, action: self.soon.append(action), tables.log)
        pops = PopHandlers(
            checks,
            self.reading,
            self.positions,
            self.revive,
            self.held,
            tables.filters.expressions,
            settings,
            store.store_clock,
            Chores(self.soon.append),
            work,
            tables.log,
        )
        in_order = OrderlyAcks(orders, tables.offsets, now_ms, self.held.wake)
        acks = AckHandlers(checks, store, self.revive, self.merge, in_order, settings, work)
        self.admission = Admission(store, lambda: 0, settings, clock)
        self._by_code = self.admission.guarded(pops.by_code() | acks.by_code())
        topics, groups = tables.topics, tables.groups
        self.pops = PopPath(pops, self.reading, topics, groups, self.admission, settings, now_ms)
        self.batch_acks = BatchAckPath(acks, store, self.revive, self.admission)
        self.acks = AckPath(checks, store, self.revive, self.merge, tables.topics, self.admission, settings)

    def handle(self, channel: Channel, request: Command) -> Outcome:
        """What is left for later turns of the loop, of a pop of many queues, is done at once."""
        outcome = self._by_code[request.code](channel, request)
        while self.soon:
            self.soon.pop(0)()
        return outcome

    def take(self, path: HotPath, data: bytes) -> tuple[int, bytes]:
        """How many bytes a hot path takes of what was read, and what it answers."""
        peer = Peer(self.tables.clock.monotonic())
        end, replies, later = path(peer, data, 0, 1 << 20)
        assert later == 0
        return end, replies
