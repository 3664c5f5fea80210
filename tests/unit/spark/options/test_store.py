"""The options of `rocketmq-store`: all that is wrong is told at once."""

from __future__ import annotations

import pickle

import pytest

from rocketline.errors import ConfigError
from rocketline.spark.options.store import OPTIONS, StoreOptions, store_options


def problems(**given: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as found:
        store_options(given)
    return found.value.problems


def test_a_path_is_enough() -> None:
    options = store_options({"path": "/data/store"})
    assert options == StoreOptions(path="/data/store")
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_is_read_whatever_the_case_of_its_name() -> None:
    given = {
        "PATH": "/data/store",
        "commitlogpath": "/a, /b",
        "subscribe": "T, U,T",
        "includeSystemTopics": "TRUE",
        "tags": "a || b",
        "startingTimestamp": "5",
        "endingtimestamp": "9",
        "brokerName": "broker-x",
        "failOnDataLoss": "false",
        "maxBytesPerPartition": "1000",
        "minPartitions": "3",
    }
    assert store_options(given) == StoreOptions(
        path="/data/store",
        log_paths=("/a", "/b"),
        topics=("T", "U"),
        with_system_topics=True,
        tags=("a", "b"),
        start_ms=5,
        end_ms=9,
        broker_name="broker-x",
        fail_on_data_loss=False,
        partition_bytes_max=1000,
        min_partitions=3,
    )
    assert store_options({"path": "p", "topic": "T"}).topics == ("T",)
    assert store_options({"path": "p", "subscribePattern": "T.*"}).pattern == "T.*"
    assert {option.key for option in OPTIONS} - {key.lower() for key in given} == {"topic", "subscribepattern"}


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        subscribe="T, a b",
        subscribePattern="(",
        tags="||",
        startingTimestamp="9",
        endingTimestamp="5",
        failOnDataLoss="perhaps",
        maxBytesPerPartition="0",
        minPartitons="3",
    )
    assert len(found) == 9
    assert any(problem.startswith("topic 'a b': ") for problem in found)
    assert any("path" in problem and "load" in problem for problem in found)
    assert any("minPartitions" in problem for problem in found)


def test_options_of_a_client_have_no_meaning_here_and_are_logged() -> None:
    options = store_options({"path": "p", "rocketmq.accesskey": "me", "nameserver": "127.0.0.1:9876"})
    assert options.unknown == ("rocketmq.accesskey", "nameserver")
