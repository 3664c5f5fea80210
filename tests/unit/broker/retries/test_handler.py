"""CONSUMER_SEND_MSG_BACK: retries, dead letters, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rocketline.broker.retries.handler import SendBackHandlers
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.storing.put import MessagePut
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.message import StoredMessage
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import HOST, Tables, message, tables
from support.long_steps import outcome

OLD_VERSION = 100
"""Of a client from before consumers said how often they want a message."""
DEAD = "null@T@g@SEND_BACK_TO_DLQ"
"""Java's key for dead letters: owner, topic, group and kind."""


class Scene:
    """A broker's tables and the handler; retries always go to the last queue of their topic."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        flusher = Flusher(tables.store, lambda: tables.settings.value.store, tables.clock)
        self._handle = SendBackHandlers(
            tables.store,
            MessagePut(tables.store, flusher, tables.settings),
            tables.topics,
            tables.groups,
            tables.stats,
            tables.settings,
            choose_queue=lambda count: count - 1,
        ).by_code()[RequestCode.CONSUMER_SEND_MSG_BACK]

    def send_back(self, sent: StoredMessage | int, delay_level: int = 0, *, version: int = 513, **ext: str) -> Command:
        offset = sent if isinstance(sent, int) else sent.log_offset
        fields = {"offset": str(offset), "group": "g", "delayLevel": str(delay_level), **ext}
        channel: Any = None
        answer = self._handle(channel, Command(RequestCode.CONSUMER_SEND_MSG_BACK, fields, version=version))
        assert isinstance(answer, Command)
        return answer

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        found = self.tables.store.read(topic, queue_id, 0, 100, None)
        return decode_records(b"".join(found.records))

    def tried(self, times: int) -> StoredMessage:
        """A message that was retried so often."""
        fresh = message("T")
        fresh.reconsume_times = times
        return self.tables.store.append(fresh)


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with tables(clock) as made:
        yield Scene(made)


def test_fresh_message_waits_ten_seconds_for_its_retry_topic(scene: Scene) -> None:
    """S156."""
    sent = scene.tables.append(b"body", TAGS="A", UNIQ_KEY="id")
    assert scene.send_back(sent).code == 0
    (parked,) = scene.stored(SCHEDULE_TOPIC, 2)
    assert parked.body == b"body"
    assert parked.reconsume_times == 1
    assert parked.properties == {
        "TAGS": "A",
        "UNIQ_KEY": "id",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": sent.offset_message_id,
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }
    assert (parked.born_ms, parked.born_host, parked.store_host) == (sent.born_ms, sent.born_host, HOST)


def test_retry_topic_is_made_with_the_queues_of_its_group(scene: Scene) -> None:
    scene.tables.groups.update(SubscriptionGroupConfig("g", retry_queue_nums=3))
    scene.send_back(scene.tables.append(), unitMode="true")
    topic = scene.tables.topics.get("%RETRY%g")
    assert topic == TopicConfig("%RETRY%g", 3, 3, topic_sys_flag=2)
    assert scene.stored(SCHEDULE_TOPIC, 2)[0].properties["REAL_QID"] == "2"


def test_each_retry_waits_longer_and_remembers_the_first_message(scene: Scene) -> None:
    """S157."""
    first = scene.tables.append(TAGS="A")
    scene.send_back(first)
    (parked,) = scene.stored(SCHEDULE_TOPIC, 2)
    again = scene.tables.store.append(replace(parked, topic="%RETRY%g", queue_id=0))
    scene.send_back(again)
    (next_parked,) = scene.stored(SCHEDULE_TOPIC, 3)
    assert next_parked.reconsume_times == 2
    assert next_parked.properties["RETRY_TOPIC"] == "T"
    assert next_parked.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id


def test_level_that_the_consumer_names_counts(scene: Scene) -> None:
    """S158."""
    scene.send_back(scene.tried(7), 5)
    assert len(scene.stored(SCHEDULE_TOPIC, 4)) == 1


def test_negative_level_means_dead_at_once(scene: Scene) -> None:
    """S159."""
    assert scene.send_back(scene.tables.append(b"dead"), -1).code == 0
    (dead,) = scene.stored("%DLQ%g")
    assert (dead.body, dead.reconsume_times, dead.properties["DELAY"]) == (b"dead", 1, "0")
    assert scene.tables.topics.get("%DLQ%g") == TopicConfig("%DLQ%g", 1, 1, perm=6)


def test_message_tried_as_often_as_the_consumer_says_is_dead(scene: Scene) -> None:
    """S160."""
    scene.send_back(scene.tried(1), maxReconsumeTimes="2")
    assert not scene.stored("%DLQ%g")
    scene.send_back(scene.tried(2), maxReconsumeTimes="2")
    assert len(scene.stored("%DLQ%g")) == 1


def test_without_a_word_of_the_consumer_the_group_decides(scene: Scene) -> None:
    """S160: sixteen times, unless the group says otherwise. An old client has no word in it."""
    scene.send_back(scene.tried(15))
    assert not scene.stored("%DLQ%g")
    scene.send_back(scene.tried(16))
    assert len(scene.stored("%DLQ%g")) == 1
    scene.send_back(scene.tried(2), maxReconsumeTimes="2", version=OLD_VERSION)
    assert len(scene.stored("%DLQ%g")) == 1


def test_number_of_retries_stays_one_that_a_record_can_hold(scene: Scene) -> None:
    assert scene.send_back(scene.tried(2**31 - 1)).code == 0
    assert scene.stored("%DLQ%g")[0].reconsume_times == 2**31 - 1


@pytest.mark.parametrize("place", [1, -1, 10_000_000])
def test_place_without_a_message_is_an_error(scene: Scene, place: int) -> None:
    """S161."""
    scene.tables.append()
    answer = scene.send_back(place)
    assert (answer.code, answer.remark) == (1, f"there is no message at the log offset {place}")


def test_group_that_cannot_be_made_does_not_exist(clock: FakeClock) -> None:
    """S162."""
    with tables(clock, autoCreateSubscriptionGroup="false") as made:
        assert Scene(made).send_back(made.append()).code == 26


def test_group_without_retry_queues_gets_nothing_and_no_error(scene: Scene) -> None:
    """S163."""
    scene.tables.groups.update(SubscriptionGroupConfig("g", retry_queue_nums=0))
    sent = scene.tables.append()
    end = scene.tables.store.max_log_offset
    assert scene.send_back(sent).code == 0
    assert scene.tables.store.max_log_offset == end
    assert scene.tables.topics.get("%RETRY%g") is None


def test_broker_that_may_not_be_written_to_refuses(clock: FakeClock) -> None:
    with tables(clock, brokerPermission="4") as made:
        assert Scene(made).send_back(made.append()).code == 16


def test_retry_topic_that_may_not_be_written_to_refuses(scene: Scene) -> None:
    scene.tables.topics.update(TopicConfig("%RETRY%g", 1, 1, perm=4))
    assert scene.send_back(scene.tables.append()).code == 16


def test_store_that_takes_nothing_is_an_error_with_its_reason(scene: Scene) -> None:
    sent = scene.tables.append()
    scene.tables.store.is_disk_full = True
    answer = scene.send_back(sent)
    assert answer.code == 1
    assert str(answer.remark).startswith("SERVICE_NOT_AVAILABLE: ")


def test_retries_are_counted_for_the_topic_they_came_from(scene: Scene) -> None:
    scene.send_back(scene.tables.append())
    stats = scene.tables.stats
    assert stats.data("SNDBCK_PUT_NUMS", "T@g") is not None
    assert stats.data("SNDBCK2DLQ_TIMES", DEAD) is None


def test_dead_letters_are_counted_until_their_group_or_topic_is_gone(scene: Scene) -> None:
    stats = scene.tables.stats
    for forget, name in ((stats.forget_groups, "g"), (stats.forget_topics, "T")):
        scene.send_back(scene.tables.append(), -1)
        assert stats.data("SNDBCK2DLQ_TIMES", DEAD) is not None
        outcome(forget({name}))
        assert stats.data("SNDBCK2DLQ_TIMES", DEAD) is None


@pytest.mark.parametrize("delay_level", [0, -1], ids=["retry", "dead letter"])
def test_message_whose_topic_has_no_room_is_refused_and_kept_by_the_consumer(
    scene: Scene, delay_level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = scene.tables.append()
    if delay_level:
        scene.send_back(sent)  # which makes the topic of retries
    before = scene.tables.store.log.end
    monkeypatch.setattr("rocketline.broker.metadata.topics.TOPICS_MAX", len(scene.tables.topics.all()))
    answer = scene.send_back(sent, delay_level)
    topic = "%DLQ%g" if delay_level else "%RETRY%g"
    assert (answer.code, f"no room for {topic}" in str(answer.remark)) == (1, True)
    assert (scene.tables.topics.get(topic), scene.tables.store.log.end) == (None, before)
