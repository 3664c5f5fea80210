"""What servers answer is read whatever its size: we asked for it, and a frame bounds it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from rocketline import admin
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import codec, decode_answer, encode
from rocketline.wire.bodies.stats import ConsumeStats, OffsetWrapper


def test_statistics_of_a_group_in_34000_queues_are_read() -> None:
    queues = [MessageQueue(f"topic-{number // 16}", "broker-a", number % 16) for number in range(34_000)]
    body = encode(ConsumeStats(offset_table=dict.fromkeys(queues, OffsetWrapper(1, 2, 3, 4))))
    assert len(body) > 4 * 1024 * 1024
    assert len(decode_answer(ConsumeStats, body).offset_table) == 34_000


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(admin.__path__)])
def test_administration_reads_no_answer_with_the_bounds_for_strangers(name: str) -> None:
    module = importlib.import_module(f"rocketline.admin.{name}")
    assert codec.decode not in vars(module).values()
