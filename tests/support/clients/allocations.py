"""Questions to allocation strategies in the form that they have in recorded data and on the way to a JVM."""

from __future__ import annotations

from collections.abc import Sequence

from rocketline.client.rebalance.allocation import (
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    MachineRooms,
    NearestMachineRoom,
    in_java_order,
    queues_in_java_order,
)
from rocketline.model.queue import MessageQueue


def room_of_name(name: str) -> str:
    """What stands before the first @."""
    room, found, _ = name.partition("@")
    return room if found else ""


STRATEGIES: Sequence[AllocationStrategy] = (
    Averagely(),
    AveragelyByCircle(),
    ConsistentHash(),
    MachineRooms({"r1", "r2"}),
    NearestMachineRoom(Averagely(), lambda queue: room_of_name(queue.broker_name), room_of_name),
)
BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}


def queue_of(text: str) -> MessageQueue:
    topic, broker, number = text.split(":")
    return MessageQueue(topic, broker, int(number))


def allocate(strategy: str, client: str, clients: Sequence[str], queues: Sequence[str]) -> list[str] | None:
    """The queues of a client as `topic:broker:number`; None if the strategy refuses to share out."""
    in_order = queues_in_java_order(map(queue_of, queues))
    try:
        shared = BY_NAME[strategy].allocate("group", client, in_order, in_java_order(clients))
    except ValueError:
        return None
    return [f"{queue.topic}:{queue.broker_name}:{queue.queue_id}" for queue in shared]
