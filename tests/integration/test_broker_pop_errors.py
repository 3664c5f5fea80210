"""Pops that meet an error on their way: what was taken before is handed out, and nothing is stuck."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from rocketline.broker.server import Broker
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import decode_records
from support.brokers.messages import send
from support.brokers.pop_scenes import again, scene
from support.brokers.pops import ack, bodies, handles, pop
from support.clients.members import until

LOG = Path("/store/commitlog/00000000000000000000")
BODY_BYTES_AT = 84
"""In a record with IPv4 hosts."""


def let_reads_fail(running: Broker, monkeypatch: pytest.MonkeyPatch, *queue_ids: int) -> None:
    """From now on a disk error ends each read of these queues of T."""
    store = running.storage.store
    read = store.read

    def failing(topic: str, queue_id: int, *rest: Any) -> Any:
        if topic == "T" and queue_id in queue_ids:
            raise OSError(errno.EIO, "the disk says no")
        return read(topic, queue_id, *rest)

    monkeypatch.setattr(store, "read", failing)


@pytest.mark.parametrize("merge", ["false", "true"])
async def test_queue_that_cannot_be_read_keeps_nobody_from_the_others(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, merge: str
) -> None:
    """What is popped before the error is handed out, and the group gets on, also over a restart."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, queues=3, enablePopBufferMerge=merge) as (running, peer):
        for queue_id in range(3):
            await send(peer, b"%d" % queue_id, queue_id=queue_id)
        let_reads_fail(running, monkeypatch, 1)
        answer = await peer.request(pop(), 5)
        assert sorted(bodies(answer)) == [b"0", b"2"]
        for handle in handles(answer):
            assert (await ack(peer, handle)).code == 0
        assert [running.storage.offsets.query("g", "T", queue_id) for queue_id in (0, 2)] == [1, 1]
        assert not running.services.positions._taken
        refused = await peer.request(pop(), 5)
        assert (refused.code, "the disk says no" in (refused.remark or "")) == (1, True)
        monkeypatch.undo()
    async with scene(clock=clock, files=files, queues=3) as (_, peer):
        assert bodies(await peer.request(pop(queueId="1"), 5)) == [b"1"]
        assert bodies(await again(peer, clock, after_s=70)) == [b"1"]
        assert (await peer.request(pop(), 5)).code == 210


async def test_damaged_record_of_a_retry_topic_is_handed_out_as_it_is(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        await send(peer, b"first")
        await peer.request(pop(invisible_ms=1000), 5)
        clock.advance(6)
        store, retry = running.storage.store, "%RETRY%g_T"
        await until(lambda: store.max_offset(retry, 0) == 1)
        log_offset = store.units(retry, 0, 0, 1)[0][0]
        files.open(LOG).write_at(log_offset + BODY_BYTES_AT, (2**30).to_bytes(4, "big"))
        answer = await peer.request(pop(), 5)
        assert (answer.code, answer.ext["msgOffsetInfo"]) == (0, "1 0 0")
        assert len(answer.body) == store.units(retry, 0, 0, 1)[0][1]
        assert running.storage.offsets.query("g", retry, 0) == 1
        assert not running.services.positions._taken
        await send(peer, b"second")
        assert [message.body for message in decode_records((await peer.request(pop(), 5)).body)] == [b"second"]
