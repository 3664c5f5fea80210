from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.producer.queue_choice import BrokerFaults, Positions, at_random, by_hash, choose, select
from rocketline.errors import SelectorError
from rocketline.model.java_hash import java_string_hash
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b", "c") for number in range(4)]
MESSAGE = Message("T", b"x")


class TestTurns:
    def test_each_queue_comes_once_a_round(self) -> None:
        positions: Positions = {}
        chosen = Counter(choose(positions, "T", QUEUES, None, None, 0.0) for _ in range(4 * len(QUEUES)))
        assert set(chosen.values()) == {4}
        assert set(chosen) == set(QUEUES)

    def test_topics_have_turns_of_their_own(self) -> None:
        positions: Positions = {"T": 0, "U": 7}
        assert choose(positions, "T", QUEUES, None, None, 0.0) == QUEUES[0]
        assert choose(positions, "U", QUEUES, None, None, 0.0) == QUEUES[7]
        assert positions == {"T": 1, "U": 8}

    def test_broker_that_failed_is_passed_over(self) -> None:
        positions: Positions = {"T": 0}
        assert choose(positions, "T", QUEUES, "a", None, 0.0) == QUEUES[4]
        assert positions == {"T": 5}

    def test_only_broker_is_tried_again(self) -> None:
        positions: Positions = {"T": 0}
        assert choose(positions, "T", QUEUES[:4], "a", None, 0.0).broker_name == "a"


class TestFaults:
    @pytest.mark.parametrize(
        ("latency_s", "rest_s"),
        [(0.04, 0), (0.1, 0), (0.54, 0), (0.55, 2), (1.8, 5), (3, 6), (5, 10), (14.9, 10), (15, 30), (99, 30)],
    )
    def test_slow_broker_rests(self, latency_s: float, rest_s: float) -> None:
        """C94: by the table of the Java client."""
        faults = BrokerFaults()
        faults.note("a", latency_s, 100.0)
        assert faults.is_available("a", 100.0 + rest_s)
        assert not rest_s or not faults.is_available("a", 100.0 + rest_s - 0.01)

    def test_failed_broker_rests_ten_seconds(self) -> None:
        faults = BrokerFaults()
        faults.note("a", 0.0, 100.0, is_failed=True)
        assert (faults.is_available("a", 109.9), faults.is_available("a", 110.0)) == (False, True)

    def test_better_news_do_not_end_a_rest(self) -> None:
        faults = BrokerFaults()
        faults.note("a", 20.0, 100.0)
        faults.note("a", 0.6, 101.0)
        assert (faults.is_available("a", 129.9), faults.is_available("a", 130.0)) == (False, True)

    def test_healthy_broker_is_not_remembered(self) -> None:
        faults = BrokerFaults()
        faults.note("a", 0.01, 100.0)
        assert faults.due(200.0, 2.0) == []

    def test_broker_is_probed_once_a_period_until_it_is_forgotten(self) -> None:
        faults = BrokerFaults()
        faults.note("a", 0.0, 100.0, is_failed=True, is_reachable=False)
        assert [faults.due(now, 2.0) for now in (100.0, 101.9, 102.0)] == [["a"], [], ["a"]]
        faults.answers("a")
        assert faults.is_reachable("a")
        faults.forget("a")
        faults.answers("a")
        assert faults.due(200.0, 2.0) == []

    def test_order_of_preference(self) -> None:
        """Available first, then reachable, then any; never the one that just failed if there is another."""
        faults = BrokerFaults()
        for name in ("a", "b", "c"):
            faults.note(name, 0.0, 100.0, is_failed=True, is_reachable=name != "b")
        chosen = {choose({}, "T", QUEUES, "a", faults, 101.0).broker_name for _ in range(50)}
        assert chosen == {"c"}
        assert {choose({}, "T", QUEUES[:8], "a", faults, 101.0).broker_name for _ in range(50)} == {"a", "b"}
        assert {choose({}, "T", QUEUES, None, faults, 111.0).broker_name for _ in range(90)} == {"a", "b", "c"}


class TestSelectors:
    @given(st.text(), st.integers(1, 30))
    def test_hash_of_a_text_is_javas(self, key: str, count: int) -> None:
        queues = [MessageQueue("T", "a", number) for number in range(count)]
        hashed = java_string_hash(key)
        remainder = hashed - int(hashed / count) * count  # Java's %, which keeps the sign
        assert by_hash(key)(queues, MESSAGE).queue_id == abs(remainder)

    @pytest.mark.parametrize(("key", "hashed"), [(7, 7), (-7, 7), (2**31, 2**31), (2**32, 1), (-(2**31) - 1, 2**31)])
    def test_hash_of_a_number_is_javas(self, key: int, hashed: int) -> None:
        """Integer.hashCode, and Long.hashCode for what is longer."""
        assert by_hash(key)(QUEUES, MESSAGE) == QUEUES[hashed % len(QUEUES)]

    def test_random_one_is_any(self) -> None:
        assert {at_random(QUEUES, MESSAGE) for _ in range(500)} == set(QUEUES)

    def test_choice_of_another_topic_is_refused(self) -> None:
        with pytest.raises(SelectorError, match="no queue of topic 'T'"):
            select(lambda queues, message: MessageQueue("U", "a", 0), QUEUES, MESSAGE)
