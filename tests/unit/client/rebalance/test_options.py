from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.rebalance.options import (
    ConsumerKeywords,
    ConsumerOptions,
    make_offset_store,
    start_timestamp_ms,
)
from rocketline.errors import ConfigError
from rocketline.model.subscription import ConsumeFromWhere, MessageModel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.headers import UpdateConsumerOffsetRequestHeader
from support.clients.runtime_double import RuntimeDouble, a_route, queues

(QUEUE,) = queues(1)


def test_defaults_are_those_of_the_java_client() -> None:
    options = ConsumerOptions()
    assert options.message_model is MessageModel.CLUSTERING
    assert options.consume_from is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert options.allocation.name == "AVG"


def test_keywords_are_the_options() -> None:
    options = {field.name for field in fields(ConsumerOptions)} - {"name_servers"}
    assert options == set(ConsumerKeywords.__annotations__)
    types = {field.name: field.type for field in fields(ConsumerOptions)}
    assert all(types[name] == wanted.__forward_arg__ for name, wanted in ConsumerKeywords.__annotations__.items())


def test_wrong_values_are_all_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerOptions(message_model=MessageModel.LITE_SELECTIVE, consume_timestamp_ms=-1, api_timeout_s=0)
    assert len(caught.value.problems) == 3


def test_consumption_from_a_time_begins_half_an_hour_ago_unless_told_otherwise() -> None:
    clock = FakeClock(wall_ms=10_000_000)
    assert start_timestamp_ms(ConsumerOptions(), clock) == 10_000_000 - 1_800_000
    assert start_timestamp_ms(ConsumerOptions(consume_timestamp_ms=5), clock) == 5


async def saved_by(store: OffsetStore) -> None:
    store.update(QUEUE, 5, increase_only=False)
    await store.persist(QUEUE)


async def test_groups_that_share_queues_keep_offsets_at_brokers() -> None:
    double = RuntimeDouble()
    double.routes.apply("T", a_route(1))
    await saved_by(make_offset_store(ConsumerOptions(), double.runtime, "g"))
    assert [one.commit_offset for one in double.requests(UpdateConsumerOffsetRequestHeader)] == [5]


async def test_broadcasting_keeps_offsets_in_a_file(tmp_path: Path) -> None:
    """C194."""
    options = ConsumerOptions(message_model=MessageModel.BROADCASTING, offset_folder=tmp_path)
    await saved_by(make_offset_store(options, RuntimeDouble(client_id="ip@DEFAULT").runtime, "g"))
    assert (tmp_path / "ip@DEFAULT" / "g" / "offsets.json").exists()


async def test_application_may_keep_offsets_itself() -> None:
    class Keeper:
        def __init__(self) -> None:
            self.saved: dict[object, int] = {}

        def load(self) -> dict[object, int]:
            return {}

        def fetch(self, queue: object) -> int | None:
            return None

        def save(self, offsets: dict[object, int]) -> None:
            self.saved.update(offsets)

    keeper = Keeper()
    options = ConsumerOptions(offset_keeper=keeper)  # type: ignore[arg-type]  # as an application without types would
    await saved_by(make_offset_store(options, RuntimeDouble().runtime, "g"))
    assert keeper.saved == {QUEUE: 5}
