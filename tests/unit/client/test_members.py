from __future__ import annotations

import pytest

from client_members import ConsumerDouble, ProducerDouble
from rocketline.client.members import Members
from rocketline.client.routes import PublishInfo
from rocketline.errors import GroupInUseError
from rocketline.model.names import INNER_PRODUCER_GROUP


def told(members: Members, topic: str, *, is_changed: bool) -> int:
    calls = members.to_inform(topic, PublishInfo(), (), is_changed=is_changed)
    for call in calls:
        call()
    return len(calls)


def test_topics_are_those_of_all_members() -> None:
    members = Members("id")
    members.add_producer("P", ProducerDouble("P", "A", "B"))
    members.add_consumer("C", ConsumerDouble("C", "B", "D"))
    assert members.topics() == {"A", "B", "D"}
    assert len(members) == 2


def test_group_is_free_again_once_its_member_is_gone() -> None:
    members = Members("id")
    members.add_consumer("C", ConsumerDouble("C"))
    with pytest.raises(GroupInUseError):
        members.add_consumer("C", ConsumerDouble("C"))
    assert members.remove_consumer("C")
    assert not members.remove_consumer("C")
    members.add_consumer("C", ConsumerDouble("C"))


def test_members_hear_of_a_route_once_until_it_changes() -> None:
    members = Members("id")
    producer, consumer, other = ProducerDouble("P"), ConsumerDouble("C", "T"), ConsumerDouble("O", "S")
    members.add_producer("P", producer)
    members.add_consumer("C", consumer)
    members.add_consumer("O", other)
    assert told(members, "T", is_changed=True) == 2
    assert told(members, "T", is_changed=False) == 0
    assert told(members, "T", is_changed=True) == 2
    assert (len(producer.routes), len(consumer.routes), len(other.routes)) == (2, 2, 0)


def test_successor_in_a_group_hears_of_the_route_anew() -> None:
    members = Members("id")
    members.add_producer("P", ProducerDouble("P"))
    told(members, "T", is_changed=True)
    members.remove_producer("P")
    members.add_producer("P", ProducerDouble("P"))
    assert told(members, "T", is_changed=False) == 1


def test_heartbeat_names_every_group_once_and_the_inner_producer() -> None:
    members = Members("id")
    members.add_producer("P", ProducerDouble("P"))
    members.add_consumer("C", ConsumerDouble("C", "T"))
    beat = members.heartbeat()
    assert beat.client_id == "id"
    assert [producer.group_name for producer in beat.producer_data_set] == [INNER_PRODUCER_GROUP, "P"]
    assert [consumer.group_name for consumer in beat.consumer_data_set] == ["C"]
