"""Our administrator tells the same of a broker, ours or Apache's, as `mqadmin` does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline import Admin
from rocketline.model.queue import MessageQueue
from rocketline.testing.apache import ClientJvm, Release
from support.brokers.twins import GROUP, MESSAGES, QUEUES, TOPIC, Twin, Twins, twins

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]


@pytest.fixture(scope="module")
def pair(release: Release, clients: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twins(release, clients, tmp_path_factory.mktemp("beside")) as pair:
        yield pair


class Both:
    """A broker, `mqadmin` and our administrator at its name server."""

    def __init__(self, jvm: ClientJvm, twin: Twin, admin: Admin) -> None:
        self._jvm, self._name_server, self.broker, self.admin = jvm, twin.name_server.address, twin.broker, admin

    def mqadmin(self, command: str, *arguments: str) -> list[list[str]]:
        """The words of each line that it prints."""
        output = self._jvm.mqadmin(self._name_server, command, *arguments)
        assert output.out, output.error
        return [line.split() for line in output.out.splitlines() if line.strip()]


@pytest.fixture(params=["ours", "apache"])
def both(request: pytest.FixtureRequest, pair: Twins) -> Iterator[Both]:
    twin: Twin = getattr(pair, request.param)
    with Admin(twin.name_server.address) as admin:
        yield Both(pair.jvm, twin, admin)


def test_topics_are_the_same(both: Both) -> None:
    assert [[topic] for topic in both.admin.topics.names()] == sorted(both.mqadmin("topicList"))


def test_queues_of_a_topic_hold_the_same(both: Both) -> None:
    told = [row for row in both.mqadmin("topicStatus", "-t", TOPIC) if row[0] == "broker-a"]
    status = both.admin.topics.status(TOPIC)
    assert sorted(row[:4] for row in told) == [
        [each.queue.broker_name, str(each.queue.queue_id), str(each.min_offset), str(each.max_offset)]
        for each in status.queues
    ]
    assert status.message_count == MESSAGES


def test_lag_of_a_group_is_the_same_for_each_queue(both: Both) -> None:
    told = [row for row in both.mqadmin("consumerProgress", "-g", GROUP, "-t", TOPIC) if row[0] == TOPIC]
    lag = both.admin.groups.lag(GROUP, topic=TOPIC)
    assert sorted([*row[:5], row[6]] for row in _without_client(told)) == [
        [
            TOPIC, each.queue.broker_name, str(each.queue.queue_id),
            str(each.max_offset), str(each.committed_offset), str(each.lag),
        ]
        for each in lag.queues
    ]  # fmt: skip
    assert lag.lag == MESSAGES - sum(range(1, QUEUES + 1))
    assert all(each.delay_s is not None and each.delay_s >= 0 for each in lag.queues)


def _without_client(rows: list[list[str]]) -> list[list[str]]:
    """With the column of the client's address, empty if nobody is online, filled in."""
    return [row if not row[5].lstrip("-").isdigit() else [*row[:5], "", *row[5:]] for row in rows]


def test_brokers_are_the_same(both: Both) -> None:
    told = [row for row in both.mqadmin("clusterList") if row[0] == "DefaultCluster"]
    assert [row[:5] for row in told] == [
        [each.broker.cluster, each.broker.name, str(each.broker.broker_id), each.broker.address, each.version]
        for each in both.admin.brokers.status()
    ]


def test_figures_of_a_broker_have_the_same_names(both: Both) -> None:
    told = {row[0].rstrip(":") for row in both.mqadmin("brokerStatus", "-b", both.broker.address)}
    (figures,) = both.admin.brokers.figures(both.broker.address).values()
    assert figures.keys() == told


def test_settings_of_a_broker_are_the_same(both: Both) -> None:
    rows = both.mqadmin("getBrokerConfig", "-b", both.broker.address)
    told = {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "="}
    (config,) = both.admin.brokers.config(broker=both.broker.address).values()
    assert len(told) > 300
    assert {key: value for key, value in config.items() if key in told} == told


def test_messages_of_a_key_are_the_same(both: Both) -> None:
    told = [row for row in both.mqadmin("queryMsgByKey", "-t", TOPIC, "-k", "all") if not row[0].startswith("#")]
    found = both.admin.messages.by_key(TOPIC, "all")
    assert sorted(row[:3] for row in told) == sorted(
        [each.message_id, str(each.queue.queue_id), str(each.queue_offset)] for each in found
    )
    assert len(found) == MESSAGES


def test_offsets_that_we_reset_are_those_that_mqadmin_shows(both: Both) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 2)
    before = both.admin.offsets.committed(GROUP, queue)
    assert before == 3
    both.admin.offsets.reset_to_offset(GROUP, queue, 5)
    told = [
        row for row in both.mqadmin("consumerProgress", "-g", GROUP, "-t", TOPIC) if row[:3] == [TOPIC, "broker-a", "2"]
    ]
    both.admin.offsets.reset_to_offset(GROUP, queue, before)
    assert [row[4] for row in told] == ["5"]


def test_topic_and_group_that_we_make_are_as_mqadmin_makes_them(both: Both) -> None:
    both.admin.topics.create("Made", queue_count=3)
    both.admin.groups.create("made", retry_max=5)
    both.mqadmin("updateTopic", "-b", both.broker.address, "-t", "Copied", "-r", "3", "-w", "3")
    both.mqadmin("updateSubGroup", "-b", both.broker.address, "-g", "copied", "-r", "5", "-m", "true", "-d", "true")

    ((_, made),) = both.admin.topics.config("Made").items()
    ((_, copied),) = both.admin.topics.config("Copied").items()
    assert (made.topic_name, copied.topic_name) == ("Made", "Copied")
    assert _alike(made) == _alike(copied)
    ((_, made_group),) = both.admin.groups.config("made").items()
    ((_, copied_group),) = both.admin.groups.config("copied").items()
    assert _alike(made_group) == _alike(copied_group)
    both.admin.topics.delete("Made")
    assert [row for row in both.mqadmin("topicList") if row == ["Made"]] == []


def _alike(config: object) -> dict[str, object]:
    names = (name for name in config.__slots__ if name not in ("topic_name", "group_name"))  # type: ignore[attr-defined]
    return {name: getattr(config, name) for name in names}
