"""The runtime of blocking clients: one thread, shared by those who are given it."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from rocketline import Admin, ClientRuntime, Message, Producer, PushConsumer, ReceivedMessage
from rocketline.client.options import ClientOptions
from rocketline.errors import ClientError, ClosedError, GroupInUseError
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode


def loop_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(" loop")]


async def test_clients_that_share_a_runtime_share_its_thread(peer: ScriptedPeer) -> None:
    def use() -> None:
        with (
            ClientRuntime.at(peer.address, instance_name="A", client_ip="10.0.0.1") as runtime,
            Producer(group="P1", runtime=runtime) as first,
            Producer(group="P2", runtime=runtime) as second,
        ):
            assert loop_threads() == ["client 10.0.0.1@A loop"]
            assert first.client_id == second.client_id == "10.0.0.1@A"
            first.send(Message("T", b"1"))
            second.send(Message("T", b"2"))
            with pytest.raises(GroupInUseError):
                Producer(group="P1", runtime=runtime).start()
        assert not loop_threads()

    await asyncio.to_thread(use)


async def test_runtime_that_nobody_holds_ends_with_its_last_client(peer: ScriptedPeer) -> None:
    def use() -> None:
        runtime = ClientRuntime.at(peer.address)
        assert not loop_threads(), "nothing starts before it is used"
        first, second = Producer(group="P1", runtime=runtime), Producer(group="P2", runtime=runtime)
        first.start()
        second.start()
        first.close()
        second.send(Message("T", b"still here"))
        second.close()
        assert not loop_threads()
        with pytest.raises(ClosedError):
            Producer(group="P3", runtime=runtime).start()

    await asyncio.to_thread(use)


async def test_runtime_closed_under_a_client_leaves_it_closed(peer: ScriptedPeer) -> None:
    def use() -> None:
        with ClientRuntime.at(peer.address) as runtime:
            producer = Producer(group="P", runtime=runtime)
            producer.start()
            producer.send(Message("T", b"1"))
        with pytest.raises(ClosedError):
            producer.send(Message("T", b"2"))
        producer.close()
        runtime.close()

    await asyncio.to_thread(use)


async def test_unused_runtime_is_closed_without_a_thread(peer: ScriptedPeer, clock: FakeClock) -> None:
    runtime = ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=clock)
    await asyncio.to_thread(runtime.close)
    with pytest.raises(ClosedError):
        runtime.lease()
    assert not peer.connections_opened


FORKING = """
import os, sys
from rocketline import Message, Producer
from rocketline.errors import ForkedError
with Producer(sys.argv[1], group="P") as producer:
    producer.send(Message("T", b"1"))
    if os.fork() == 0:
        try:
            producer.send(Message("T", b"2"))
        except ForkedError as error:
            print(error, flush=True)
        producer.close()
        os._exit(0)
    os.wait()
    producer.send(Message("T", b"3"))
"""


async def test_producer_used_in_a_forked_child_says_so(peer: ScriptedPeer) -> None:
    """Must hold 5: an error in the child, which may close what it got; in the parent everything goes on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKING, peer.address, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, complaints = await process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert b"was made before this process was forked: make it after the fork" in told
    assert [received.body for received in peer.requests(RequestCode.SEND_MESSAGE_V2)] == [b"1", b"3"]


def accept(message: ReceivedMessage) -> None:
    """Consumed."""


async def test_blocking_client_that_is_started_twice_says_so_and_works_on_until_it_is_closed(
    peer: ScriptedPeer,
) -> None:
    """C9 and C10."""

    def use() -> None:
        consumer = PushConsumer(peer.address, group="C")
        consumer.subscribe("T", "*", accept)
        for client in (consumer, Producer(peer.address, group="P"), Admin(peer.address)):
            with client:
                with pytest.raises(ClientError, match="started already"):
                    client.start()
                assert loop_threads()
            client.close()
            assert not loop_threads()

    await asyncio.to_thread(use)
    farewells = [one.header.consumer_group for one in peer.requests(RequestCode.UNREGISTER_CLIENT)]
    assert "C" in farewells


async def test_closed_producer_leaves_no_task_on_a_shared_runtime(peer: ScriptedPeer) -> None:
    def use() -> None:
        with ClientRuntime.at(peer.address) as runtime:
            for number in range(3):
                with Producer(group=f"P{number}", runtime=runtime):
                    names = runtime.portal.call(task_names())
                assert "close idle connections" in names
            assert "close idle connections" not in runtime.portal.call(task_names())

    await asyncio.to_thread(use)


async def task_names() -> list[str]:
    await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks()]
