"""One story, lived by each foreign client: many messages through a broker that restarts in between.

70 %   to `<client>-plain` in every way the client can send, while its consumer is running;
       five of them fail once, five fail always and end in the dead letter queue
15 %   ordered, to a topic that an orderly consumer reads, and two broadcasting ones
       – the broker stops and starts –
15 %   more to `<client>-plain`: the same group must get these, and nothing else
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, product

from rocketline.testing.clients import ClientProgram, Delivered, Portion, Sent
from support.brokers.questions import BrokerQuestions

ALWAYS = 99
QUEUES = 4
RETRY_MAX_TIMES = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Addresses: where the story happens."""

    name_server: str
    broker: str


@dataclass(slots=True)
class Story:
    """What one client saw."""

    client: ClientProgram
    size: int
    """The number of messages."""
    sent: list[Sent] = field(default_factory=list)
    plain: list[Delivered] = field(default_factory=list)
    failing: list[Delivered] = field(default_factory=list)
    ordered: list[Delivered] = field(default_factory=list)
    broadcast: list[list[Delivered]] = field(default_factory=list)
    pulled: list[Delivered] = field(default_factory=list)
    """By a lite pull consumer, those with the tag `odd`."""
    dead: list[int] = field(default_factory=list)
    """The numbers in the dead letter queue."""
    resumed: list[Delivered] = field(default_factory=list)

    @property
    def failing_portions(self) -> list[Portion]:
        """Five that fail once and five that always do; or one alone, if it would take the others along."""
        end = self.size * 70 // 100
        if self.client.fails_in_batches:
            return [Portion("sync", end - 1, 1, ALWAYS)]
        return [Portion("sync", end - 10, 5, 1), Portion("sync", end - 5, 5, ALWAYS)]

    @property
    def plain_numbers(self) -> range:
        """Up to those that fail."""
        return range(self.failing_portions[0].first)

    @property
    def plain_portions(self) -> list[Portion]:
        """Equal shares for all ways to send but the ordered one."""
        kinds = sorted(self.client.kinds - {"ordered"})
        count = len(self.plain_numbers)
        starts = [count * i // len(kinds) for i in range(len(kinds) + 1)]
        return [Portion(kind, start, end - start) for kind, (start, end) in zip(kinds, pairwise(starts), strict=True)]

    @property
    def ordered_portion(self) -> Portion:
        return Portion("ordered", self.size * 70 // 100, self.size * 15 // 100)

    @property
    def last_portion(self) -> Portion:
        """Those after the restart."""
        return Portion("sync", self.ordered_portion.numbers.stop, self.size * 15 // 100)

    def _name(self, part: str) -> str:
        """A topic, or a group, of this client alone."""
        return f"{self.client.name.replace('+', 'p')}-{part}"

    def prepare(self, place: Place) -> None:
        with BrokerQuestions(place.broker) as broker:
            for part in ("plain", "failing", "ordered"):
                broker.create_topic(self._name(part), queues=QUEUES)
                broker.create_group(self._name(part), retry_max_times=RETRY_MAX_TIMES)
            for part, queue in product(("plain", "failing"), range(QUEUES)):
                # Messages come while these groups begin, and the C++ client cannot be told to begin at the start:
                # where nothing is committed it asks for the queue's end, and leaves out what came until then.
                broker.commit(self._name(part), self._name(part), queue, 0)

    def before_restart(self, place: Place) -> None:
        failing = self.failing_portions
        expected = sum(2 * portion.count for portion in failing)
        with ThreadPoolExecutor() as side_by_side:
            plain = side_by_side.submit(self._consume, place, "plain", len(self.plain_numbers))
            fails = side_by_side.submit(self._consume, place, "failing", expected)
            self._send(place, "failing", *failing)
            self._send(place, "plain", *self.plain_portions)
            self._send(place, "ordered", self.ordered_portion)
            self._read_in_other_modes(place, side_by_side)
            self.plain, self.failing = plain.result(), fails.result()

    def after_restart(self, place: Place) -> None:
        with BrokerQuestions(place.broker) as broker:
            dead = broker.queue(f"%DLQ%{self._name('failing')}", 0)
        self.dead = [int(message.body.partition(b"/")[0]) for message in dead]
        self._send(place, "plain", self.last_portion)
        self.resumed = self._consume(place, "plain", self.last_portion.count)

    def _read_in_other_modes(self, place: Place, side_by_side: ThreadPoolExecutor) -> None:
        count, modes = self.ordered_portion.count, self.client.modes
        self.ordered = self._consume(place, "ordered", count, mode="orderly" if "orderly" in modes else "concurrent")
        if "broadcast" in modes:
            options = {"mode": "broadcast", "group": "broadcast"}
            both = [side_by_side.submit(self._consume, place, "ordered", count, **options) for _ in range(2)]
            self.broadcast = [one.result() for one in both]
        if "pull" in modes:
            odd = len(self.plain_numbers) // 2
            self.pulled = self._consume(place, "plain", odd, mode="pull", group="pull", expression="odd")

    def _send(self, place: Place, topic: str, *portions: Portion) -> None:
        self.sent.append(self.client.send(place.name_server, self._name(topic), *portions))

    def _consume(
        self, place: Place, topic: str, count: int, *, mode: str = "concurrent", group: str = "", expression: str = "*"
    ) -> list[Delivered]:
        names = self._name(topic), self._name(group or topic)
        return self.client.consume(place.name_server, *names, count, mode=mode, expression=expression, timeout_s=90)


def tell(stories: list[Story], chapter: Callable[[Story], None]) -> dict[str, Exception]:
    """One chapter of all stories at once; what went wrong, by the client's name."""
    with ThreadPoolExecutor(len(stories)) as side_by_side:
        running = {story.client.name: side_by_side.submit(chapter, story) for story in stories}
    problems = {name: future.exception() for name, future in running.items()}
    return {name: problem for name, problem in problems.items() if isinstance(problem, Exception)}
