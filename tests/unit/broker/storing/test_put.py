"""What is stored and waits for its flush takes no memory: a slow disk may let thousands wait."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.broker.transactions.check_round import Copies
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.broker.transactions.handler import TransactionHandlers
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.model.message import StoredMessage
from rocketline.model.names import HALF_TOPIC
from rocketline.net.channel import LATER
from rocketline.net.dispatch import Handler
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import ROOT, Tables, message, tables
from support.stores.small import contents, flush

COUNT, BYTES = 20, 200_000


@pytest.fixture
def kept(clock: FakeClock) -> Iterator[Tables]:
    with tables(clock, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=str(2**24)) as made:
        yield made


@pytest.fixture
def puts(kept: Tables) -> MessagePut:
    flusher = Flusher(kept.store, lambda: kept.settings.value.store, kept.clock)
    return MessagePut(kept.store, flusher, kept.settings)


def test_a_message_that_waits_for_its_flush_is_only_in_the_log(kept: Tables, puts: MessagePut) -> None:
    told: list[PutResult] = []
    sent = [message("T", bytes(BYTES)) for _ in range(COUNT)]
    for one in sent:
        puts.put(one, told.append)
    assert (told, [len(one.body) for one in sent]) == ([], [0] * COUNT)
    flush(kept.store)
    assert [len(found.body) for found in contents(kept.store)] == [BYTES] * COUNT


def test_a_commit_that_waits_for_its_flush_keeps_no_body(kept: Tables, puts: MessagePut) -> None:
    halves = [half(kept, number) for number in range(COUNT)]
    flush(kept.store)
    handle, (producer, _) = transactions(kept, puts), channel(kept.clock)
    tracemalloc.start()
    try:
        for one in halves:
            fields = {
                "producerGroup": "p",
                "commitOrRollback": "8",
                "commitLogOffset": str(one.log_offset),
                "tranStateTableOffset": str(one.queue_offset),
            }
            assert handle(producer, Command(RequestCode.END_TRANSACTION, fields)) is LATER
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now - COUNT * BYTES < COUNT * BYTES // 2, "beyond the log, which is in memory here"


def half(kept: Tables, number: int) -> StoredMessage:
    return kept.append(
        bytes(BYTES), topic=HALF_TOPIC, TRAN_MSG="true", PGROUP="p", UNIQ_KEY=f"K{number}", REAL_TOPIC="T", REAL_QID="0"
    )


def transactions(kept: Tables, puts: MessagePut) -> Handler:
    clock, settings = kept.clock, kept.settings
    ops = OpMessages(kept.store, kept.stats, settings, clock, kept.log, lambda delay_s, action: None)
    figures = TransactionFigures(kept.files, ROOT / "config" / "transactionMetrics", clock, lambda topic: True)
    handlers = TransactionHandlers(kept.store, puts, ops, Copies(), figures, kept.stats, settings, clock, kept.log)
    return handlers.by_code()[RequestCode.END_TRANSACTION]
