"""Locks of queues for orderly consumers, and assignments made by the broker."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel, MessageRequestMode
from rocketline.model.topic_config import TopicConfig
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.bodies.pop import (
    MessageRequestModeTable,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import consumer, heartbeat
from support.brokers.running import BrokerPeer, broker
from support.name_servers.running import Peer, name_server

OK = ResponseCode.SUCCESS
PULL, POP = MessageRequestMode.PULL, MessageRequestMode.POP


class Client(BrokerPeer):
    """A peer with a client id."""

    def __init__(self, address: str, client_id: str) -> None:
        super().__init__(address)
        self.client_id = client_id

    async def __aenter__(self) -> Client:
        return self

    async def lock(self, *queue_ids: int, topic: str = "T") -> list[int]:
        """The queues that the client holds then, in order."""
        answer = await self.ask(RequestCode.LOCK_BATCH_MQ, body=self._queues(topic, queue_ids))
        assert answer.code == OK
        return sorted(queue.queue_id for queue in decode(LockBatchResponseBody, answer.body).lock_ok_mq_set)

    async def unlock(self, *queue_ids: int) -> int:
        return (await self.ask(RequestCode.UNLOCK_BATCH_MQ, body=self._queues("T", queue_ids))).code

    def _queues(self, topic: str, queue_ids: tuple[int, ...]) -> bytes:
        queues = [MessageQueue(topic, "B", queue_id) for queue_id in queue_ids]
        return encode(LockBatchRequestBody("g", self.client_id, queues))

    async def come(self, topic: str = "T") -> None:
        await self.request(heartbeat(self.client_id, consumer("g", topic)), 5)

    async def assigned(
        self,
        strategy: str = "AVG",
        *,
        model: MessageModel = MessageModel.CLUSTERING,
        topic: str = "T",
        mode: MessageRequestMode = PULL,
    ) -> set[tuple[str, int]] | None:
        """Broker and number of the client's queues, all of them to be pulled, or popped."""
        body = encode(QueryAssignmentRequestBody(topic, "g", self.client_id, strategy, model))
        answer = await self.ask(RequestCode.QUERY_ASSIGNMENT, body=body)
        assert answer.code == OK, answer.remark
        found = decode(QueryAssignmentResponseBody, answer.body).message_queue_assignments
        if found is None:
            return None
        assert all(assignment.mode is mode for assignment in found)
        queues = [assignment.message_queue for assignment in found if assignment.message_queue is not None]
        return {(queue.broker_name, queue.queue_id) for queue in queues}

    async def set_mode(self, topic: str, group: str = "g", share: int = -1) -> Command:
        body = encode(SetMessageRequestModeRequestBody(topic, group, POP, share))
        return await self.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)


@asynccontextmanager
async def two_clients(
    *, clock: Clock | None = None, files: FileSystem | None = None, **settings: str
) -> AsyncIterator[tuple[Broker, Client, Client]]:
    """A broker with the topic T, eight queues, and the clients X and Y, who have not sent a heartbeat yet."""
    async with broker(clock=clock, files=files, brokerName="B", **settings) as running:
        running.storage.topics.ensure([TopicConfig("T", 8, 8)])
        async with Client(running.address, "X") as x, Client(running.address, "Y") as y:
            yield running, x, y


def of_broker(*queue_ids: int, name: str = "B") -> set[tuple[str, int]]:
    return {(name, queue_id) for queue_id in queue_ids}


# --- locks


async def test_second_client_gets_the_queues_that_are_free() -> None:
    """S178."""
    async with two_clients() as (_, x, y):
        assert await x.lock(0, 1, 2, 3) == [0, 1, 2, 3]
        assert await y.lock(2, 3, 4, 5) == [4, 5]


async def test_lock_that_is_not_renewed_for_a_minute_goes_to_whoever_asks(clock: FakeClock) -> None:
    """S179."""
    async with two_clients(clock=clock) as (_, x, y):
        await x.lock(0)
        clock.advance(60)
        assert await y.lock(0) == []
        clock.advance(1)
        assert await y.lock(0) == [0]


async def test_client_can_unlock_its_own_queues_only() -> None:
    """S180, S181."""
    async with two_clients() as (_, x, y):
        await x.lock(0)
        assert await y.unlock(0) == OK
        assert await y.lock(0) == []
        assert await x.unlock(0) == OK
        assert await y.lock(0) == [0]


async def test_queue_of_a_topic_that_does_not_exist_can_be_locked() -> None:
    """S182."""
    async with two_clients() as (_, x, _):
        assert await x.lock(7, topic="unknown") == [7]


async def test_locks_are_free_after_a_restart(clock: FakeClock) -> None:
    """S183."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with two_clients(files=files) as (_, x, _):
        await x.lock(0)
    async with two_clients(files=files) as (_, _, y):
        assert await y.lock(0) == [0]


@pytest.mark.parametrize("body", [b"", b"{}", b"nonsense", b'{"mqSet":[{}]}', b'{"consumerGroup":"g"}'])
async def test_lock_request_that_cannot_be_read_is_answered_1(body: bytes) -> None:
    async with two_clients() as (_, x, _):
        assert (await x.ask(RequestCode.LOCK_BATCH_MQ, body=body)).code == ResponseCode.SYSTEM_ERROR
        assert await x.lock(0) == [0]


# --- assignments


async def test_two_clients_share_eight_queues() -> None:
    """S184."""
    async with two_clients() as (_, x, y):
        await x.come()
        assert await x.assigned() == of_broker(*range(8))
        await y.come()
        assert [await x.assigned(), await y.assigned()] == [of_broker(0, 1, 2, 3), of_broker(4, 5, 6, 7)]
        assert await x.assigned("AVG_BY_CIRCLE") == of_broker(0, 2, 4, 6)


async def test_without_strategy_clients_or_topic_there_is_no_answer_to_go_by() -> None:
    """S185."""
    async with two_clients() as (_, x, _):
        assert await x.assigned() is None  # nobody has sent a heartbeat
        await x.come()
        assert await x.assigned("UNKNOWN") is None
        assert await x.assigned(topic="unknown") is None
        assert await x.assigned(model=MessageModel.LITE_SELECTIVE) is None


async def test_client_that_is_not_of_the_group_is_told_to_drop_all() -> None:
    async with two_clients() as (_, x, y):
        await x.come()
        assert await y.assigned() == set()


async def test_broadcasting_clients_get_every_queue() -> None:
    async with two_clients() as (_, x, _):
        assert await x.assigned(model=MessageModel.BROADCASTING) == of_broker(*range(8))


async def test_every_client_gets_every_queue_if_the_broker_is_not_to_share_them_out() -> None:
    async with two_clients(serverLoadBalancerEnable="false") as (_, x, y):
        await x.come()
        await y.come()
        assert await x.assigned() == await y.assigned() == of_broker(*range(8))


async def test_queues_of_other_brokers_are_shared_out_too(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        Peer(server.address) as other_broker,
        two_clients(namesrvAddr=server.address) as (_, x, y),
    ):
        assert (await other_broker.register(TopicConfig("T", 4, 4), "other", name="A")).code == OK
        while len((await other_broker.route("T")).queue_datas) < 2:  # until the broker has told its own queues too
            pass
        await x.come()
        await y.come()
        assert await x.assigned() == of_broker(0, 1, 2, 3, name="A") | of_broker(0, 1)
        assert await y.assigned() == of_broker(2, 3, 4, 5, 6, 7)
        assert await x.assigned(topic="unknown") is None


@pytest.mark.parametrize("body", [b"", b"{}", b'{"topic":"T"}', b'{"messageModel":"CLUSTERING"}'])
async def test_assignment_request_without_topic_or_model_is_answered_1(body: bytes) -> None:
    async with two_clients() as (_, x, _):
        answer = await x.ask(RequestCode.QUERY_ASSIGNMENT, body=body)
        assert (answer.code, bool(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


# --- modes


async def test_mode_is_kept_and_told_also_after_a_restart(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with two_clients(files=files) as (_, x, _):
        assert (await x.set_mode("T")).code == OK
    async with two_clients(files=files) as (_, x, _):
        answer = await x.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        modes = decode(MessageRequestModeTable, answer.body).message_request_mode_map
        assert modes == {"T": {"g": SetMessageRequestModeRequestBody("T", "g", POP, -1)}}
        await x.come()
        assert await x.assigned(mode=POP) == of_broker(-1)


class SlowDisk(MemoryFileSystem):
    """Files of modes get their names when `may_end` is set, or not at all."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, capacity=2**30)
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.is_broken = False

    def rename(self, old: Path, new: Path) -> None:
        if new.name == "messageRequestMode.json":
            self.begun.set()
            assert self.may_end.wait(30)
            if self.is_broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(old, new)


@pytest.mark.parametrize("is_broken", [False, True])
async def test_nobody_waits_for_the_disk_while_modes_are_saved(clock: FakeClock, *, is_broken: bool) -> None:
    """Each change wrote and synced all modes on the loop."""
    files = SlowDisk(clock)
    async with two_clients(files=files) as (_, x, y), asyncio.TaskGroup() as group:
        change = group.create_task(x.set_mode("T"))
        await asyncio.to_thread(files.begun.wait, 30)
        shown = await y.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert (decode(MessageRequestModeTable, shown.body).message_request_mode_map, change.done()) == ({}, False)
        files.is_broken = is_broken
        files.may_end.set()
        assert (await change).code == (ResponseCode.SYSTEM_ERROR if is_broken else OK)
        shown = await y.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert bool(decode(MessageRequestModeTable, shown.body).message_request_mode_map) is not is_broken


async def test_group_that_pops_is_told_the_brokers() -> None:
    """S186."""
    async with two_clients() as (_, x, y):
        await x.come()
        await y.come()
        assert (await x.set_mode("T")).code == OK
        assert await x.assigned(mode=POP) == await y.assigned(mode=POP) == of_broker(-1)
        assert await x.assigned("UNKNOWN", mode=POP) is None
        assert await x.assigned(mode=POP, model=MessageModel.BROADCASTING) == of_broker(*range(8))


async def test_group_whose_consumers_share_a_queue_is_told_queues() -> None:
    """S186: a share of one, among three of which each has some of eight queues."""
    async with two_clients() as (running, x, y), Client(running.address, "Z") as z:
        for client in (x, y, z):
            await client.come()
        assert (await x.set_mode("T", share=1)).code == OK
        assert await x.assigned(mode=POP) == of_broker(0, 1, 2, 3, 4, 5)
        assert await y.assigned(mode=POP) == of_broker(3, 4, 5, 6, 7)
        assert await z.assigned(mode=POP) == of_broker(6, 7, 0, 1, 2)
        assert (await x.set_mode("T", share=2)).code == OK
        assert await x.assigned(mode=POP) == of_broker(-1)


async def test_groups_pop_by_default_if_that_is_set() -> None:
    """S186: but not from retry topics, and not where nobody can pop."""
    async with two_clients(defaultMessageRequestMode="POP") as (running, x, _):
        await x.come()
        running.storage.topics.ensure([TopicConfig("%RETRY%g", 1, 1)])
        assert await x.assigned(mode=POP) == of_broker(-1)
        assert await x.assigned(topic="%RETRY%g") == of_broker(0)
    async with two_clients(defaultMessageRequestMode="POP", timerWheelEnable="false") as (_, x, _):
        await x.come()
        assert await x.assigned() == of_broker(*range(8))


async def test_mode_of_a_retry_topic_or_of_what_does_not_exist_is_refused() -> None:
    """S187."""
    async with two_clients(autoCreateSubscriptionGroup="false") as (_, x, _):
        codes = [(await x.set_mode(*of)).code for of in (("%RETRY%g",), ("unknown",), ("T", "unknown"))]
        assert codes == [
            ResponseCode.NO_PERMISSION,
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ]
