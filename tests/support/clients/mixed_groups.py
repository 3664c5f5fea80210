"""Consumers of several languages in one group: who owns which queue, what they were given, and in which order."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rocketline.errors import RemoteProtocolError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.testing.clients import ClientProgram, Watched, Watcher
from rocketline.wire import headers
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.running import ConsumerRunningInfo
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetConsumerRunningInfoRequestHeader
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import ClientCluster

QUEUES: Final = 4
"""On each of the two masters."""
CONVERGED_S: Final = {"concurrent": 45.0, "orderly": 105.0}
"""A killed consumer is noticed at once, since its connection closes, and whoever missed it looks every 20 s. But
brokers keep its locks for 60 s."""
PERSISTED_S: Final = 6.0
"""By then every consumer has told brokers how far it is."""


class MixedGroup:
    """A topic, a group, and its members through their joins, leaves and deaths."""

    def __init__(self, cluster: ClientCluster, *, mode: str) -> None:
        self.cluster, self.mode = cluster, mode
        self.topic = cluster.topic(f"mixed-{mode}", queues=QUEUES, brokers=2)
        self.group = cluster.group(f"mixed-{mode}")
        self.queues = [MessageQueue(self.topic, name, n) for name in ("broker-a", "broker-b") for n in range(QUEUES)]
        self.members: list[Watcher] = []
        self._gone: list[Watcher] = []
        self.sent: list[int] = []

    # --- members

    def join(self, *programs: ClientProgram) -> None:
        """Start a consumer of each, and wait until they and the others have shared the queues out."""
        for program in programs:
            self.members.append(Watcher(program, self.cluster.name_server, self.topic, self.group, mode=self.mode))
        for member in self.members[-len(programs) :]:
            member.wait_until_ready()
        self.converge()

    def leave(self, name: str) -> None:
        """The oldest member of this client says goodbye."""
        self._part(name).leave()
        self.converge()

    def kill(self, name: str) -> None:
        """It dies without a word."""
        self._part(name).kill()
        self.converge()

    def _part(self, name: str) -> Watcher:
        member = next(member for member in self.members if member.name == name)
        self.members.remove(member)
        self._gone.append(member)
        return member

    def close(self) -> None:
        for member in (*self.members, *self._gone):
            member.kill()

    def converge(self) -> None:
        """Return once each queue belongs to one member, and each of the members that there are has some."""
        timeout_s = CONVERGED_S[self.mode]
        deadline_s = time.monotonic() + timeout_s
        while True:
            owned = self.ownership()
            shares = [len(queues) for queues in owned.values()]
            of_all = [queue for queues in owned.values() for queue in queues]
            if len(shares) == len(self.members) and min(shares) > 0 and sorted(of_all) == sorted(self.queues):
                return
            assert time.monotonic() < deadline_s, f"after {timeout_s} s queues are shared out as {owned}"
            time.sleep(0.2)

    def ownership(self) -> dict[str, list[MessageQueue]]:
        """The queues of the topic that each member says it has, by client id."""
        owned = {}
        # The broker asks the member, and waits 10 s for it.
        with BrokerQuestions(self.cluster.brokers[0], timeout_s=20) as broker:
            for client_id in broker.client_ids(self.group):
                header = GetConsumerRunningInfoRequestHeader(consumer_group=self.group, client_id=client_id)
                code = RequestCode.GET_CONSUMER_RUNNING_INFO
                answer = broker.ask(Command(code, headers.encode(header)))
                # For a while the Go client has no body to give: of nothing consumed it makes an average, which is NaN.
                if answer.code == 0 and answer.body:
                    owned[client_id] = _queues(answer.body, self.topic)
        return owned

    # --- messages

    @contextmanager
    def sending(self, pace_s: float = 0.01) -> Iterator[None]:
        """Numbered messages to all queues in turn, meanwhile."""
        stop = threading.Event()
        sender = threading.Thread(target=self._send, args=(stop, pace_s), name="sender")
        sender.start()
        try:
            yield
        finally:
            stop.set()
            sender.join()

    def send(self, count: int) -> list[int]:
        """So many more, at once; their numbers."""
        first = len(self.sent)
        with self._senders() as send:
            for number in range(first, first + count):
                send(number)
        return self.sent[first:]

    def _send(self, stop: threading.Event, pace_s: float) -> None:
        with self._senders() as send:
            while not stop.wait(pace_s):
                send(len(self.sent))

    @contextmanager
    def _senders(self) -> Iterator[Callable[[int], None]]:
        with (
            BrokerQuestions(self.cluster.brokers[0], timeout_s=20) as a,
            BrokerQuestions(self.cluster.brokers[1], timeout_s=20) as b,
        ):

            def send(number: int) -> None:
                queue = number % (2 * QUEUES)
                (a if queue < QUEUES else b).send(Message(self.topic, b"%d/0" % number), queue % QUEUES)
                self.sent.append(number)

            yield send

    # --- what came

    @property
    def deliveries(self) -> list[Watched]:
        """Of all members, those that are gone too, in the order of their times."""
        all_of_them = [one for member in (*self.members, *self._gone) for one in list(member.deliveries)]
        return sorted(all_of_them, key=lambda one: (one.time_ms, one.queue_offset))

    def wait_for_all(self, timeout_s: float = 60) -> None:
        """Return once everything that was sent has come."""
        deadline_s = time.monotonic() + timeout_s
        while missing := set(self.sent) - {one.number for one in self.deliveries}:
            assert time.monotonic() < deadline_s, f"{len(missing)} never came: {sorted(missing)[:10]}"
            time.sleep(0.2)

    def times(self, numbers: Sequence[int]) -> Counter[int]:
        """How often each of these came."""
        counted = Counter(one.number for one in self.deliveries)
        return Counter({number: counted[number] for number in numbers})

    def order_problems(self) -> list[str]:
        """Messages that came before one that lies before them in their queue had ever come."""
        problems, last = [], defaultdict[tuple[str, int], int](lambda: -1)
        for one in self.deliveries:
            queue = one.broker_name, one.queue_id
            if one.queue_offset > last[queue] + 1:
                problems.append(f"{one} came when {last[queue]} was the last of its queue")
            last[queue] = max(last[queue], one.queue_offset)
        return problems


def _queues(body: bytes, topic: str) -> list[MessageQueue]:
    try:
        info = decode(ConsumerRunningInfo, body)
    except RemoteProtocolError as error:
        raise AssertionError(f"a member's running info cannot be read: {error}: {body[:500]!r}") from error
    return sorted(queue for queue, state in info.mq_table.items() if queue.topic == topic and not state.dropped)
