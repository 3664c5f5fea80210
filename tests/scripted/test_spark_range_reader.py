"""What a task says to brokers and makes of their answers, against a peer that plays from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketline import Tls
from rocketline.errors import RemoteProtocolError
from rocketline.model.topic_config import TopicConfig
from rocketline.net.config import TlsMode
from rocketline.spark.options.client import ClientSettings
from rocketline.spark.options.source_and_sink import EARLIEST, Position, SourceOptions
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.planning.planner import QueueRange, QueueRanges
from rocketline.spark.pulling.executor_client import close_clients
from rocketline.spark.pulling.range_reader import read_ranges
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.acl import is_signed_with
from rocketline.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketline.wire.command import Command, response
from rocketline.wire.message_codec import encode_record
from support.net.authorities import Authority
from support.spark.records import stored

PULL, TOPIC_CONFIG = RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_CONFIG


@pytest.fixture(autouse=True)
def _clients_closed() -> Iterator[None]:
    yield
    close_clients()


async def read(
    peer: ScriptedPeer,
    start: int,
    end: int,
    *,
    client: dict[str, Any] | None = None,
    columns: tuple[str, ...] = ("queueOffset",),
    **changes: Any,
) -> list[int]:
    """The offsets that a task finds in queue 1 of the topic `orders`."""
    settings = ClientSettings(name_servers=peer.address, **(client or {}))
    options = SourceOptions(client=settings, starting=Position(EARLIEST), **{"pull_timeout_s": 2.0, **changes})
    ranges = QueueRanges((QueueRange("orders", "broker-a", 1, start, end),))

    def work() -> list[int]:
        return [offset for batch in read_ranges(ranges, options, columns) for offset in batch[0].to_pylist()]

    return await asyncio.to_thread(work)


def answer(next_offset: int, *offsets: int, low: int = 0, high: int = 1000, code: int = 0, **ext: str) -> Command:
    """One with these messages."""
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(low),
        "maxOffset": str(high),
    }
    return response(
        code, "said by the script", ext=fields | ext, body=b"".join(encode_record(stored(at)) for at in offsets)
    )


def without(*missing: int) -> Any:
    """A queue of 1000 messages that lacks some of those that were there."""

    def say(received: Received) -> Command:
        low, count = received.header.queue_offset, received.header.max_msg_nums
        offsets = [at for at in range(low, 1000) if at not in missing][: min(count, 32)]
        return answer(offsets[-1] + 1, *offsets)

    return say


@pytest.mark.parametrize("kind", SerializeType)
async def test_answers_are_understood_in_both_encodings(kind: SerializeType) -> None:
    async with ScriptedPeer(serialize_type=kind) as peer:
        peer.route("orders")
        peer.on(PULL).call(without(), times=1000)
        assert await read(peer, 5, 900) == list(range(5, 900))


async def test_a_pull_says_who_reads_and_what_and_commits_nothing() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(without(), times=1000)
        await read(peer, 5, 37, group="readers", pull_count_max=32)
        (pull,) = peer.requests(PULL)
        assert (pull.header.consumer_group, pull.header.topic, pull.header.queue_id) == ("readers", "orders", 1)
        assert (pull.header.queue_offset, pull.header.max_msg_nums) == (5, 32)
        assert (pull.header.sys_flag, pull.header.subscription, pull.ext["bname"]) == (4, "*", "broker-a")


async def test_every_request_is_signed() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(without(), times=1000)
        client = {"access_key": "me", "secret_key": "secret"}
        assert await read(peer, 5, 300, client=client) == list(range(5, 300))
        assert len(peer.requests(PULL)) > 5
        assert all(is_signed_with(received.command, "secret") for received in peer.received)


async def test_a_namespace_of_the_newer_kind_is_told_with_every_request() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(without(), times=1000)
        assert await read(peer, 5, 300, client={"namespace_v2": "ns"}) == list(range(5, 300))
        assert {received.ext.get("ns") for received in peer.received} == {"ns"}


async def test_everything_is_encrypted_with_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with ScriptedPeer(tls=authority.server(server_mode=TlsMode.ENFORCING)) as peer:
        peer.route("orders")
        peer.on(PULL).call(without(), times=1000)
        client = {"tls": Tls(trust_path=str(authority.trust))}
        assert await read(peer, 5, 900, client=client) == list(range(5, 900))


# --- gaps


async def test_messages_that_are_missing_in_between_are_a_loss() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(without(300, 301), times=1000)
        with pytest.raises(DataLossError, match="in between are gone") as found:
            await read(peer, 0, 1000)
        assert found.value.available == (0, 1000)
        assert await read(peer, 0, 1000, fail_on_data_loss=False) == [*range(300), *range(302, 1000)]
        assert await read(peer, 302, 1000) == list(range(302, 1000))


async def test_a_pull_that_skips_messages_without_any_is_a_loss_too() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(lambda received: answer(500, code=ResponseCode.PULL_RETRY_IMMEDIATELY)).call(
            without(), times=1000
        )
        with pytest.raises(DataLossError, match="in between are gone"):
            await read(peer, 0, 1000)


async def test_a_compacted_topic_may_have_gaps() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(without(*range(100, 400)), times=1000)
        peer.on(TOPIC_CONFIG).reply(body=TopicConfig("orders", attributes={"cleanup.policy": "COMPACTION"}))
        assert await read(peer, 0, 1000) == [*range(100), *range(400, 1000)]
        assert len(peer.requests(TOPIC_CONFIG)) == 1


async def test_a_filter_leaves_gaps_and_nobody_asks_why() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(lambda received: answer(min(received.header.queue_offset + 800, 1000)), times=1000)
        assert await read(peer, 0, 1000, tags="a") == []
        assert not peer.requests(TOPIC_CONFIG)


# --- other answers


async def test_the_offset_of_a_static_topic_is_moved_by_what_the_broker_says() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(lambda received: answer(110, *range(5, 15), offsetDelta="95"), times=1000)
        assert await read(peer, 100, 110) == list(range(100, 110))


async def test_a_reset_of_the_groups_offset_is_passed_over() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        moved = answer(0, code=ResponseCode.PULL_OFFSET_MOVED)
        peer.on(PULL).call(lambda received: moved).call(without(), times=1000)
        assert await read(peer, 500, 600) == list(range(500, 600))


async def test_a_record_of_another_topic_is_an_error_that_says_where() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        strange = encode_record(stored(7, topic="bills"))
        peer.on(PULL).reply(
            {"suggestWhichBrokerId": "0", "nextBeginOffset": "8", "minOffset": "0", "maxOffset": "9"}, strange
        )
        with pytest.raises(
            RemoteProtocolError, match="queue 1 of topic 'orders' on broker 'broker-a', pulled at offset 7"
        ):
            await read(peer, 7, 8)


async def test_a_replica_that_is_behind_is_waited_for() -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders", {"broker-a": {1: peer.address}})
        behind = answer(50, high=50, code=ResponseCode.PULL_NOT_FOUND)
        peer.on(PULL).call(lambda received: behind, times=3).call(without(), times=1000)
        assert await read(peer, 50, 90) == list(range(50, 90))


async def test_a_broker_that_moved_is_found_by_a_new_route() -> None:
    async with ScriptedPeer() as old, ScriptedPeer() as new:
        for peer in (old, new):
            peer.on(PULL).call(without(), times=1000)
        old.route("orders")
        assert await read(old, 0, 10) == list(range(10))
        old.route("orders", {"broker-a": new.address})
        old.on(PULL).drop(times=1000)
        assert await read(old, 0, 200) == list(range(200))


async def test_a_route_is_asked_for_again_in_time_because_brokers_move() -> None:
    async with ScriptedPeer() as old, ScriptedPeer() as new:
        for peer in (old, new):
            peer.on(PULL).call(without(), times=1000)
        old.route("orders")
        assert await read(old, 0, 10) == list(range(10))
        old.route("orders", {"broker-a": new.address})  # and somebody else may be where it was
        assert await read(old, 0, 10) == list(range(10))
        assert not new.requests(PULL)
        assert await read(old, 0, 10, route_ttl_s=0.0) == list(range(10))
        assert new.requests(PULL)


async def test_if_nobody_tells_a_new_route_the_old_one_serves() -> None:
    async with ScriptedPeer() as peer:
        peer.on(PULL).call(without(), times=1000)
        peer.route("orders")
        assert await read(peer, 0, 10) == list(range(10))
        peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).drop(times=1000)
        assert await read(peer, 0, 10, route_ttl_s=0.0) == list(range(10))


async def test_a_message_that_is_broken_is_a_loss_and_not_the_end_of_its_queue() -> None:
    record = bytearray(encode_record(stored(7)))
    record[88] ^= 1  # the first byte of its body
    whole = encode_record(stored(6)) + bytes(record) + encode_record(stored(8))
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "9", "minOffset": "0", "maxOffset": "9"}
    async with ScriptedPeer() as peer:
        peer.route("orders")
        peer.on(PULL).call(lambda received: response(0, "", ext=fields, body=whole), times=2)
        with pytest.raises(DataLossError, match=r"message 7 cannot be read: .*CRC.*set failOnDataLoss=false"):
            await read(peer, 6, 9, columns=("queueOffset", "body"))
        lenient = await read(peer, 6, 9, columns=("queueOffset", "body"), fail_on_data_loss=False)
        assert lenient == [6, 8]
