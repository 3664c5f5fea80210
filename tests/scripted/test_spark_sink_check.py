"""What a write looks at before every micro-batch, against a peer that plays from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from rocketline.errors import TransportError
from rocketline.spark.options import SinkOptions, sink_options
from rocketline.spark.sink import check_sink
from rocketline.spark.sink_client import shared_client
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
SCHEMA = StructType([StructField("body", StringType())])


class Writing:
    """Writes to a peer, and who to close in the end."""

    options: SinkOptions | None = None

    async def check(self, peer: ScriptedPeer) -> None:
        self.options = sink_options({"nameServer": peer.address, "topic": "orders"})
        await asyncio.to_thread(check_sink, self.options, SCHEMA, False)


@pytest.fixture
def writing() -> Iterator[Writing]:
    writing = Writing()
    yield writing
    assert writing.options is not None
    shared_client(writing.options).close()


async def test_a_name_server_that_fails_once_does_not_end_a_stream_that_knows_the_way(writing: Writing) -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        await writing.check(peer)
        peer.on(ROUTE).drop(times=1000)
        await writing.check(peer)
        peer.on(ROUTE)
        await writing.check(peer)


async def test_a_name_server_that_fails_from_the_beginning_is_an_error(writing: Writing) -> None:
    async with ScriptedPeer() as peer:
        peer.on(ROUTE).drop(times=1000)
        with pytest.raises(TransportError):
            await writing.check(peer)
