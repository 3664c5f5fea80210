from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.handlers.cleaning import CleaningHandlers
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.long_steps import one_step


@pytest.fixture
def kept() -> Iterator[Tables]:
    with tables(FakeClock(), mappedFileSizeCommitLog="65536") as made:
        yield made


def ask(kept: Tables, code: int) -> None:
    handler = CleaningHandlers(kept.store, kept.topics, kept.stats, one_step(kept.clock), kept.log).by_code()[code]
    answer = handler(channel(kept.clock)[0], Command(code))
    assert isinstance(answer, Command)
    assert answer.code == 0


def test_queues_of_unknown_topics_are_deleted_with_their_figures(kept: Tables) -> None:
    for topic in ("T", "unknown"):
        kept.append(topic=topic)
        kept.stats.put(topic, 0, 1, 100)
    ask(kept, RequestCode.CLEAN_UNUSED_TOPIC)
    assert kept.store.queue("unknown", 0) is None
    assert kept.stats.data("TOPIC_PUT_NUMS", "unknown") is None
    assert kept.store.max_offset("T", 0) == 1
    assert kept.stats.data("TOPIC_PUT_NUMS", "T") is not None


@pytest.mark.parametrize("topic", ["TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_of_a_later_release"])
def test_system_topics_are_kept_though_the_table_does_not_have_them(kept: Tables, topic: str) -> None:
    kept.append(topic=topic)
    assert kept.topics.get(topic) is None
    ask(kept, RequestCode.CLEAN_UNUSED_TOPIC)
    assert kept.store.max_offset(topic, 0) == 1


def test_expired_files_are_deleted_at_the_next_look_whatever_the_hour(kept: Tables) -> None:
    for _ in range(100):
        kept.append(bytes(1000))
    job = kept.store.begin_flush()
    assert job is not None
    job.run()
    kept.store.finish_flush(job)
    kept.clock.advance(80 * 3600)
    assert kept.store.min_log_offset == 0
    ask(kept, RequestCode.DELETE_EXPIRED_COMMITLOG)
    kept.store.unlink(kept.store.clean())
    assert kept.store.min_log_offset == 65536
    ask(kept, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert 0 < kept.store.min_offset("T", 0) < kept.store.max_offset("T", 0)
