"""The file that says which messages were popped in order."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import cast

from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.effort import calls_by_step, calls_of
from support.golden import read_lines

PATH = Path("/store/config/consumerOrderInfo.json")
PLACE = "T", "g", 1
DAY_S = 24 * 3600


def infos(clock: FakeClock, files: FileSystem, *, is_there: bool = True) -> OrderInfos:
    return OrderInfos.load(files, PATH, clock.wall_ms, lambda topic, group, queue_id: is_there)


def saved(files: FileSystem) -> str:
    data = files.read_file(PATH)
    assert data is not None
    return data.decode()


def put(files: FileSystem, text: str) -> None:
    files.make_folder(PATH.parent)
    files.write_file(PATH, text.encode())


def test_file_has_the_layout_of_apaches_broker(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**20)
    orders = infos(clock, files)
    orders.popped(PLACE, [100, 102], clock.wall_ms(), 30_000, "attempt")
    orders.acked(*PLACE, 102, clock.wall_ms())
    orders.put_off(*PLACE, 100, clock.wall_ms(), 1_700_000_090_000)
    orders.save()
    assert saved(files) == (
        '{\n\t"orderInfoCount":1,\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":{\n\t\t"T@g":{\n\t\t\t1:{\n'
        '\t\t\t\t"a":"attempt",\n\t\t\t\t"cm":2,\n\t\t\t\t"i":30000,\n\t\t\t\t"l":1700000000000,\n'
        '\t\t\t\t"o":[\n\t\t\t\t\t100,\n\t\t\t\t\t2\n\t\t\t\t],\n\t\t\t\t"oc":{},\n'
        '\t\t\t\t"ot":{\n\t\t\t\t\t100:1700000090000\n\t\t\t\t},\n\t\t\t\t"popTime":1700000000000\n'
        "\t\t\t}\n\t\t}\n\t}\n}"
    )


def test_empty_file_is_that_of_apaches_broker(clock: FakeClock) -> None:
    (line,) = [line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "config/consumerOrderInfo.json"]
    files = MemoryFileSystem(clock, capacity=2**20)
    orders = infos(clock, files)
    orders.popped(PLACE, [1], clock.wall_ms(), 1000, None)
    orders.forget(*PLACE)
    orders.save()
    assert saved(files) == line["text"]


def test_what_is_loaded_is_what_was_saved(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**20)
    orders = infos(clock, files)
    orders.popped(PLACE, [7, 8], clock.wall_ms(), 30_000, "attempt")
    orders.save()
    loaded = infos(clock, files)
    assert loaded.is_closed(*PLACE)
    assert not loaded.is_closed(*PLACE, "attempt")
    assert loaded.acked(*PLACE, 7, clock.wall_ms()) == 8
    assert loaded.acked(*PLACE, 8, clock.wall_ms()) == 9
    assert not loaded.is_closed(*PLACE)


def test_file_of_5_3_3_and_one_with_odd_keys_is_read(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**20)
    put(
        files,
        '{"table":{"no group":{0:{"popTime":1,"o":[1]}},"T@g":{1:{"popTime":5,"i":10},2:{"popTime":5,"o":[3,1]}}}}',
    )
    loaded = infos(clock, files)
    assert len(loaded) == 1
    assert loaded.acked("T", "g", 2, 4, 5) == 3


def test_what_was_not_consumed_for_a_day_or_is_gone_is_not_saved(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**20)
    orders = infos(clock, files)
    orders.popped(PLACE, [1], clock.wall_ms(), 1000, None)
    clock.advance(DAY_S)
    orders.popped(("T", "g", 2), [1], clock.wall_ms(), 1000, None)
    orders.save()
    assert len(infos(clock, files)) == 1
    gone = infos(clock, files, is_there=False)
    gone.popped(PLACE, [1], clock.wall_ms(), 1000, None)
    gone.save()
    assert len(infos(clock, files)) == 0


def test_queues_that_open_are_told_once(clock: FakeClock) -> None:
    orders = infos(clock, MemoryFileSystem(clock, capacity=2**20))
    orders.popped(PLACE, [1, 2], clock.wall_ms(), 1000, None)
    orders.popped(("T", "g", 2), [1], clock.wall_ms(), 5000, None)
    assert orders.opened() == []
    clock.advance(1)
    assert orders.opened() == [PLACE]
    assert orders.opened() == []
    assert orders.acked("T", "g", 2, 1, clock.wall_ms() - 1000) == 2
    assert orders.opened() == [("T", "g", 2)]


def test_queues_that_open_together_are_told_some_at_a_time(clock: FakeClock) -> None:
    orders = infos(clock, MemoryFileSystem(clock, capacity=2**20))
    for number in range(3000):
        orders.popped(("T", "g", number), [1], clock.wall_ms(), 1000, None)
    clock.advance(1)
    told = []
    while some := orders.opened():
        assert len(some) <= 1024
        told += some
    assert sorted(told) == [("T", "g", number) for number in range(3000)]


def test_queues_that_are_acknowledged_and_popped_anew_leave_nothing_to_look_at(clock: FakeClock) -> None:
    orders = infos(clock, MemoryFileSystem(clock, capacity=2**20))
    for number in range(1000):
        orders.popped(PLACE, [number], clock.wall_ms(), 10**9 + number, None)
        orders.acked(*PLACE, number, clock.wall_ms())
        assert orders.opened() == [PLACE]
    orders.forget(*PLACE)
    assert (len(orders), orders._free._at, orders._free_ms) == (0, {}, {})


def test_very_many_are_looked_at_and_written_in_steps(clock: FakeClock) -> None:
    """Also those of one topic and group, and those that are left out."""
    files = MemoryFileSystem(clock, capacity=2**24)
    orders = infos(clock, files)
    for number in range(2000):
        orders.popped(("T", "old", number), [1], clock.wall_ms(), 1000, None)
    clock.advance(DAY_S)
    for number in range(2000):
        orders.popped(("T", "g", number), [1], clock.wall_ms(), 1000, None)
        orders.popped(("T", f"g{number}", 0), [1], clock.wall_ms(), 1000, None)
    efforts = [calls_of(orders.begin_save)]
    orders.save_failed()
    job = orders.begin_save()
    assert job is not None
    _, by_step = calls_by_step(cast("Generator[None, None, None]", job.steps()))
    assert max(efforts + by_step) < 50_000
    assert sum(by_step) > 400_000
    job.run()
    assert len(infos(clock, files)) == 4000
