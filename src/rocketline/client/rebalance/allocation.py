"""Which queues of a topic a member of a group reads. Every member works it out for itself, so all must count alike.

Strategies are given the queues and the client ids of all members, both in Java's order (`in_java_order`,
`queues_in_java_order`), and answer the queues of one member. All members of a group, whatever their language, must use
the same strategy. Those of Go agree with ours and Java's, except for its consistent hash, which has another ring.
"""

from __future__ import annotations

import bisect
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rocketline.model.queue import MessageQueue
from rocketline.model.queue_shares import circular_share, contiguous_share


class AllocationStrategy(Protocol):
    """A way to share queues out. Java: AllocateMessageQueueStrategy."""

    @property
    def name(self) -> str:
        """What brokers and logs call it."""
        ...

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of `client_id`. What it raises, and an answer of queues that do not exist, costs a round."""
        ...


def in_java_order(names: Iterable[str]) -> list[str]:
    """Sorted as Java sorts text: by UTF-16 units, so that all languages agree on who comes first."""
    return sorted(names, key=_java_key)


def queues_in_java_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sorted by topic, broker name and number."""
    return sorted(queues, key=lambda queue: (_java_key(queue.topic), _java_key(queue.broker_name), queue.queue_id))


def _java_key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _is_member(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    """The check that all strategies but the configured one begin with. Raises `ValueError`."""
    if not client_id or not queues or not client_ids:
        missing = "own client id" if not client_id else "queue" if not queues else "member of the group"
        raise ValueError(f"there is no {missing} to share queues out by")
    return client_id in client_ids


@dataclass(frozen=True, slots=True)
class Averagely:
    """Each member gets neighbouring queues; the first ones one more if need be. Java: AllocateMessageQueueAveragely.

    >>> queues = [MessageQueue("T", "b", number) for number in range(8)]
    >>> [queue.queue_id for queue in Averagely().allocate("g", "c2", queues, ["c1", "c2", "c3"])]
    [3, 4, 5]
    """

    @property
    def name(self) -> str:
        return "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if not _is_member(client_id, queues, client_ids):
            return []
        return contiguous_share(client_ids.index(client_id), len(client_ids), queues)


@dataclass(frozen=True, slots=True)
class AveragelyByCircle:
    """Queues are dealt out one by one. Java: AllocateMessageQueueAveragelyByCircle."""

    @property
    def name(self) -> str:
        return "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if not _is_member(client_id, queues, client_ids):
            return []
        return circular_share(client_ids.index(client_id), len(client_ids), queues)


@dataclass(frozen=True, slots=True)
class Configured:
    """Always the queues given here, whoever else there is. Java: AllocateMessageQueueByConfig."""

    queues: Sequence[MessageQueue]

    @property
    def name(self) -> str:
        return "CONFIG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return self.queues


@dataclass(frozen=True, slots=True)
class MachineRooms:
    """Only queues of brokers named `room@name` with one of these rooms. Java: AllocateMessageQueueByMachineRoom."""

    rooms: Collection[str]

    @property
    def name(self) -> str:
        return "MACHINE_ROOM"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if not _is_member(client_id, queues, client_ids):
            return []
        place, count = client_ids.index(client_id), len(client_ids)
        ours = [queue for queue in queues if self._has(queue.broker_name)]
        size, rest = divmod(len(ours), count)
        shared = ours[place * size : (place + 1) * size]
        return [*shared, ours[place + size * count]] if place < rest else shared

    def _has(self, broker_name: str) -> bool:
        room, *names = broker_name.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(names) == 1 and room in self.rooms


@dataclass(frozen=True, slots=True)
class NearestMachineRoom:
    """Queues go to the members of their own room, and to all members if that room has none.

    `strategy` shares out within the room. The two functions tell the room of a queue and of a client id. Java:
    AllocateMachineRoomNearby, whose MachineRoomResolver has them as brokerDeployIn and consumerDeployIn.
    """

    strategy: AllocationStrategy
    room_of_queue: Callable[[MessageQueue], str]
    room_of_client: Callable[[str], str]

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.strategy.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if not _is_member(client_id, queues, client_ids):
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(_room(self.room_of_queue(queue), queue), []).append(queue)
        clients_by_room: dict[str, list[str]] = {}
        for client in client_ids:
            clients_by_room.setdefault(_room(self.room_of_client(client), client), []).append(client)
        own_room = self.room_of_client(client_id)
        allocated: list[MessageQueue] = []
        if near := queues_by_room.pop(own_room, None):
            allocated += self.strategy.allocate(group, client_id, near, clients_by_room[own_room])
        for room in in_java_order(queues_by_room):
            if room not in clients_by_room:
                allocated += self.strategy.allocate(group, client_id, queues_by_room[room], client_ids)
        return allocated


def _room(room: str, of: object) -> str:
    if not room:
        raise ValueError(f"{of} is in no machine room: the resolver must name one")
    return room


def _md5_hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Members stand on a ring, each at several places; a queue goes to the next one after its own place.

    When a member comes or goes, few queues move. Java: AllocateMessageQueueConsistentHash.
    """

    virtual_nodes: int = 10
    hash_of: Callable[[str], int] = _md5_hash

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ValueError(f"virtual_nodes is {self.virtual_nodes}: it counts places on the ring, 0 or more")

    @property
    def name(self) -> str:
        return "CONSISTENT_HASH"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if not _is_member(client_id, queues, client_ids):
            return []
        ring = self._ring(client_ids)
        places = sorted(ring)
        if not places:
            return []
        return [queue for queue in queues if ring[self._next_place(places, queue)] == client_id]

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        ring: dict[int, str] = {}
        places: Counter[str] = Counter()
        for client in client_ids:
            # A client that is listed twice gets twice the places, and goes on counting them.
            first = places[client]
            for number in range(first, first + self.virtual_nodes):
                place = self.hash_of(f"{client}-{number}")
                if place in ring:
                    places[ring[place]] -= 1
                ring[place] = client
                places[client] += 1
        return ring

    def _next_place(self, places: Sequence[int], queue: MessageQueue) -> int:
        key = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        at = bisect.bisect_left(places, self.hash_of(key))
        return places[at % len(places)]
