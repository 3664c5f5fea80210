"""Very many acknowledgements at once: what a step of a batch reads and notes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rocketline.broker.pop.acks import AckHandlers
from rocketline.broker.pop.checks import PopChecks
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.pop.orderly_acks import OrderlyAcks
from rocketline.broker.pop.positions import PopPositions
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import PopHandle
from support.brokers.connections import channel
from support.brokers.pops import batch
from support.brokers.revival import RevivalScene
from support.effort import calls_by_step, calls_of
from support.long_steps import AtOnce

CALLS_MAX = 40_000
"""Some four milliseconds."""


def handlers_of(scene: RevivalScene) -> AckHandlers:
    tables, clock = scene.tables, scene.clock
    orders = OrderInfos(scene.files, Path("/store/config/consumerOrderInfo.json"), clock.wall_ms, lambda *_: True)
    in_order = OrderlyAcks(orders, tables.offsets, clock.wall_ms, lambda *_: None)
    positions = PopPositions(tables.offsets)
    merge = MergeBuffer(scene.topic, positions, tables.settings, clock.wall_ms, tables.log, lambda: None)
    checks = PopChecks(tables.topics, tables.groups, tables.settings)
    return AckHandlers(checks, scene.store, scene.topic, merge, in_order, tables.settings, AtOnce(clock))


def acks_of(clock: FakeClock, count: int) -> Command:
    """Each of a pop of its own."""
    handle = PopHandle.parse(f"0 {clock.wall_ms()} 600000 0 0 broker-a 0 0")
    return Command(RequestCode.BATCH_ACK_MESSAGE, body=batch([handle] * count))


def test_large_batch_is_read_and_noted_in_steps(clock: FakeClock) -> None:
    scene = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30), mappedFileSizeCommitLog=str(2**24))
    scene.send(b"acknowledged")
    handlers = handlers_of(scene)
    answer, efforts = calls_by_step(handlers._noted(channel(clock)[0], acks_of(clock, 4096)))
    assert cast("Command", answer).code == 0
    assert scene.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 4096
    assert sum(efforts) > 10 * CALLS_MAX
    assert max(efforts) < CALLS_MAX
    scene.close()


def test_batch_that_is_too_large_is_not_read(clock: FakeClock) -> None:
    scene = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30))
    handlers, request, peer = handlers_of(scene), acks_of(clock, 5000), channel(clock)[0]
    assert calls_of(lambda: handlers._ack_many(peer, request)) < 100
    scene.close()
