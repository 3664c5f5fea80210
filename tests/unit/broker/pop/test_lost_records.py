"""What a start makes of pops whose records did not reach the disk, while others behind them did."""

from __future__ import annotations

import pytest

from rocketline.broker.pop.offset_recovery import OffsetRecovery
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.model.topic_config import TopicConfig
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.bodies.pop import AckMsg
from support.brokers.messages import send
from support.brokers.pops import bodies, pop
from support.brokers.revival import RevivalScene
from support.brokers.still import StillBroker
from support.brokers.tables import ROOT
from support.stores.small import die, flush


def after_power_cut(scene: RevivalScene, *, torn: int | None) -> RevivalScene:
    """The next start. The record at this place of the timer topic is damaged."""
    places = [place for place, _, _ in scene.store.units(WHEEL_TIMER_TOPIC, 0, 0, 100)]
    flush(scene.store)
    scene.tables.topics.table.save()
    die(scene.store)
    if torn is not None:
        scene.files.open(ROOT / "commitlog" / f"{0:020}").write_at(places[torn] + 20, bytes(200))
    return RevivalScene(scene.clock, scene.files)


@pytest.mark.parametrize(("is_torn", "wanted"), [(False, 6), (True, 2)])
def test_nothing_is_passed_by_for_a_checkpoint_behind_one_that_is_torn(
    clock: FakeClock, is_torn: bool, wanted: int
) -> None:
    """What lay between was popped, and nobody got it any more."""
    scene = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30))
    scene.send(*(b"%d" % number for number in range(6)))
    scene.offsets.commit("g", "T", 0, 0)
    OffsetRecovery(scene.store, scene.offsets, scene.tables.settings).note()
    scene.offsets.save()
    for offset in (0, 2, 4):
        scene.pop(offset, offset + 1)
    again = after_power_cut(scene, torn=1 if is_torn else None)
    OffsetRecovery(again.store, again.offsets, again.tables.settings).recover()
    assert again.offsets.query("g", "T", 0) == wanted
    again.close()


def test_message_comes_again_if_the_record_that_puts_it_off_is_torn(clock: FakeClock) -> None:
    """The end of its first time was noted behind that, and counted: it never came again."""
    scene = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30))
    scene.send(b"a")
    first = scene.pop(0)
    clock.advance(1)
    ended = AckMsg("T", "g", 0, 0, first.pop_time, 0, "broker-a")
    scene.note(scene.topic.checkpoint(scene.point(0), 0), scene.topic.ack(ended, 0, first.revive_ms))
    again = after_power_cut(scene, torn=1)
    again.pass_time(15)
    assert again.bodies() == [b"a"]
    again.close()


@pytest.mark.parametrize("is_stopped", [False, True], ids=["saved", "stopped"])
async def test_groups_are_not_ahead_of_checkpoints_that_the_disk_refused(clock: FakeClock, is_stopped: bool) -> None:
    """Offsets were saved all the same: after a power cut, what had been popped came to nobody."""
    disk = FaultyFileSystem(clock)
    async with StillBroker(clock, disk) as broker:
        broker.storage.topics.update(TopicConfig("T", 1, 1))
        await send(broker, b"a")
        await send(broker, b"b")
        assert bodies(await broker.request(pop(messages=1))) == [b"a"]
        broker.flush()
        broker.save()
        assert bodies(await broker.request(pop(messages=1))) == [b"b"]
        disk.fail(at=1, calls=["sync"])
        broker.flush()
        disk.heal()
        broker.close() if is_stopped else broker.save()
    async with StillBroker(clock, disk.crash(Survival.NOTHING, seed=1)) as broker:
        assert bodies(await broker.request(pop())) == [b"b"]
