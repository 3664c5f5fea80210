from __future__ import annotations

import pytest

from rocketline.client.runtime.members import Members
from rocketline.errors import GroupInUseError
from rocketline.model.names import INNER_PRODUCER_GROUP
from support.clients.members import ConsumerDouble, ProducerDouble


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


def test_heartbeat_names_every_group_once_and_the_inner_producer() -> None:
    members = Members("id")
    members.add_producer("P", ProducerDouble("P"))
    members.add_consumer("C", ConsumerDouble("C", "T"))
    beat = members.heartbeat()
    assert beat.client_id == "id"
    assert [producer.group_name for producer in beat.producer_data_set] == [INNER_PRODUCER_GROUP, "P"]
    assert [consumer.group_name for consumer in beat.consumer_data_set] == ["C"]
