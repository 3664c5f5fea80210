"""The disk fails at any one call of a broker's life, or loses power there, while all that keeps time works together.

Messages wait for their moment, some are called back; transactions are open, ended and asked about; a group pops what
comes, and another one has a filter. What was acknowledged, and brought to the disk, holds afterwards.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import random
from dataclasses import dataclass, field
from functools import cache

import pytest

from rocketline.errors import RocketlineError
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.message_codec import decode_record, decode_records
from rocketline.wire.pop_handles import PopHandle, TopicKind
from support.brokers.connections import consumer, heartbeat
from support.brokers.messages import try_send
from support.brokers.pops import ack, change, pop, popped
from support.brokers.pulls import pull
from support.brokers.still import StillBroker
from support.brokers.transactions import COMMIT, ROLLBACK, answer_fields, end, end_fields, try_half

WAYS = list(Survival)
STRIDES = [
    len(WAYS) * 23,
    pytest.param(len(WAYS), marks=[pytest.mark.interop, pytest.mark.thorough]),
]
"""Some of the calls, spread over the life; in `make interop-all` every one of them, each in one of four ways."""
SETTINGS = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "400",
    "mappedFileSizeTimerLog": "5200",
    "maxHashSlotNum": "10",
    "maxIndexNum": "12",
    "brokerFastFailureEnable": "false",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": "2000",
    "transactionOpMsgMaxSize": "8",
    "transactionCheckMax": "1000",
    "reviveQueueNum": "2",
}
QUEUES = 2
KINDS = PLAIN, TIMER, RECALLED, COMMITS, DROPPED, OPEN = "plain", "timer", "recalled", "commit", "rollback", "open"
INVISIBLE_MS = 3000
CLOCK_MS = 1405 * 14 * 86_400 * 1000
"""A moment at which the slots of now are the first ones of the wheel's file: a crash copies what is before them."""

Place = tuple[int, int]


@dataclass
class Said:
    """What the broker has acknowledged: bodies of messages, and places in the topic."""

    stored: set[bytes] = field(default_factory=set)
    """Plain messages, timers, halves."""
    recalled: set[bytes] = field(default_factory=set)
    acked: set[Place] = field(default_factory=set)
    """Acknowledged while nobody else could have them, and not on their way once more."""


def kind_of(body: bytes) -> str:
    return KINDS[int(body) % len(KINDS)]


class Life:
    """What happened over several starts, and what is owed since."""

    def __init__(self, disk: FaultyFileSystem, clock: FakeClock) -> None:
        self.disk, self.clock = disk, clock
        self.numbers = 0
        self.due_ms: dict[bytes, int] = {}
        self.said, self.safe = Said(), Said()
        self.consumed: set[bytes] = set()
        self.filter: str | None = None
        """Which has been saved; the group may have said a newer one."""

    def live(self) -> bool:
        """Two starts with work; whether nothing failed."""
        try:
            for start in (1, 2):
                asyncio.run(self._work(start, 18))
        except (OSError, RocketlineError):
            return False
        return True

    def crash(self, survival: Survival, seed: int) -> None:
        """Power is gone, and what was not on the disk may be."""
        self.disk = self.disk.crash(survival, seed=seed)
        self.said = copy.deepcopy(self.safe)

    async def _work(self, start: int, count: int) -> None:
        async with StillBroker(self.clock, self.disk, **SETTINGS) as broker:
            await self._work_on(broker, start, count)
            broker.close()
            self._note_safe(broker)
        self.said = copy.deepcopy(self.safe)  # of what a sync that failed has dropped, later ones tell nothing

    async def _work_on(self, broker: StillBroker, start: int, count: int) -> None:
        expression = await self._join(broker, start)
        for step in range(1, count + 1):
            await self._send(broker)
            await self._pop(broker)
            self.clock.advance(0.5)
            broker.work()
            if step % 6 == 5:
                await broker.check()
                await self._answer(broker)
            if step % 2 == 0:
                self._flush(broker)
            if step % 4 == 3:
                broker.save()
                if "filters" not in broker.unsaved:
                    self.filter = expression

    async def _join(self, broker: StillBroker, start: int) -> str:
        """The topic, a producer that is asked, and a consumer with a filter."""
        if broker.storage.topics.get("T") is None:
            broker.storage.topics.update(TopicConfig("T", QUEUES, QUEUES))
        expression = f"number > {start} AND kind = 'plain'"
        said = SubscriptionData("T", expression, sub_version=start, expression_type="SQL92")
        answer = await broker.request(heartbeat("c", consumer("s", said), producers=["p"]))
        assert answer.code == 0 or broker.store.problem is not None, answer.remark
        return expression

    def _flush(self, broker: StillBroker) -> None:
        """What was acknowledged is on the disk, or the broker knows that it is not."""
        broker.flush()
        self._note_safe(broker)

    def _note_safe(self, broker: StillBroker) -> None:
        if broker.store.problem is None and broker.store.flushed_log_offset == broker.store.max_log_offset:
            self.safe = copy.deepcopy(self.said)

    async def _send(self, broker: StillBroker) -> None:
        """One of each kind in turn."""
        self.numbers += 1
        body, queue_id = b"%d" % self.numbers, self.numbers % QUEUES
        kind, now_ms = kind_of(body), self.clock.wall_ms()
        properties = {"UNIQ_KEY": f"K{self.numbers}", "number": str(self.numbers), "kind": kind}
        if kind in (TIMER, RECALLED) or self.numbers % 4 == 1:
            self.due_ms[body] = now_ms + 700 + self.numbers % 5 * 900
            properties["TIMER_DELIVER_MS"] = str(self.due_ms[body])
        if kind in (COMMITS, DROPPED, OPEN):
            answer = await try_half(broker, body, properties, queue_id=queue_id, born_ms=now_ms)
        else:
            answer = await try_send(broker, body, properties, queue_id=queue_id)
        if answer.code != ResponseCode.SUCCESS:
            return
        self.said.stored.add(body)
        if kind == RECALLED:
            ext = {"topic": "T", "recallHandle": answer.ext["recallHandle"], "producerGroup": "p"}
            if (await broker.ask(RequestCode.RECALL_MESSAGE, ext)).code == ResponseCode.SUCCESS:
                self.said.recalled.add(body)
        elif kind in (COMMITS, DROPPED) and self.numbers % 5:  # the others are asked about
            await self._end(broker, body, end_fields(answer))

    async def _end(self, broker: StillBroker, body: bytes, fields: dict[str, str]) -> None:
        await end(broker, fields, COMMIT if kind_of(body) == COMMITS else ROLLBACK)

    async def _answer(self, broker: StillBroker) -> set[bytes]:
        """Answer what the broker has asked; about what."""
        questions, broker.told[:] = broker.told[:], []
        asked = set()
        for question in questions:
            if question.code == RequestCode.CHECK_TRANSACTION_STATE:
                body = decode_record(question.body).body
                asked.add(body)
                if kind_of(body) != OPEN:
                    await self._end(broker, body, answer_fields(question))
        return asked

    async def _pop(self, broker: StillBroker, *, ends: bool = False) -> int:
        """Take what there is, and acknowledge some of it, or all."""
        answer = await broker.request(pop(messages=4, invisible_ms=INVISIBLE_MS, bornTime=str(self.clock.wall_ms())))
        if answer.code != ResponseCode.SUCCESS:
            return 0
        found = popped(answer)
        for message, handle in found:
            place = (handle.queue_id, handle.queue_offset)
            if handle.kind is TopicKind.NORMAL:
                assert place not in self.safe.acked, f"{message.body!r} was acknowledged"
            fate = 0 if ends else int(message.body) % 4
            if fate in (0, 1):
                await self._ack(broker, handle, message.body)
            elif fate == 2:
                await change(broker, handle, 1000)
        return len(found)

    async def _ack(self, broker: StillBroker, handle: PopHandle, body: bytes) -> None:
        if (await ack(broker, handle)).code == ResponseCode.SUCCESS:
            self.consumed.add(body)
            if handle.kind is TopicKind.NORMAL:
                self.said.acked.add((handle.queue_id, handle.queue_offset))

    # --- afterwards

    def go_on(self) -> None:
        asyncio.run(self._look())

    async def _look(self) -> None:
        """Everything that is owed comes, and nothing else."""
        async with StillBroker(self.clock, self.disk, **SETTINGS) as broker:
            assert broker.storage.filters.get("s", "T") is not None or self.filter is None
            await self._join(broker, 3)
            asked: set[bytes] = set()
            for _ in range(10):
                self.clock.advance(1)
                broker.work()
                await broker.check()
                asked |= await self._answer(broker)
                while await self._pop(broker, ends=True):
                    continue
            self._check(broker, asked)
            await self._check_filter(broker)
            broker.close()

    def _check(self, broker: StillBroker, asked: set[bytes]) -> None:
        delivered = [message for queue_id in range(QUEUES) for message in broker.contents("T", queue_id)]
        bodies = {message.body for message in delivered}
        for message in delivered:
            assert message.store_ms >= self.due_ms.get(message.body, 0), f"{message.body!r} is early"
        assert {body for body in bodies if kind_of(body) in (DROPPED, OPEN)} == set()
        assert not bodies & self.safe.recalled
        for body in self.safe.stored - bodies - self.safe.recalled:
            kind = kind_of(body)
            assert kind in (DROPPED, OPEN, RECALLED), f"{body!r} of {kind} is gone"
            assert kind != OPEN or body in asked, f"nobody is asked about {body!r}"
        assert bodies <= self.consumed

    async def _check_filter(self, broker: StillBroker) -> None:
        """A pull that brings no expression is answered by the group's."""
        for queue_id in range(QUEUES):
            wanted = [
                message.body for message in broker.contents("T", queue_id)
                if int(message.properties["number"]) > 3 and message.properties["kind"] == PLAIN
            ]  # fmt: skip
            found: list[bytes] = []
            offset, end_ = 0, broker.store.max_offset("T", queue_id)
            while offset < end_:
                answer = await broker.request(pull(offset, flags=0, consumerGroup="s", queueId=str(queue_id)))
                if answer.code == ResponseCode.SUCCESS:
                    found += [message.body for message in decode_records(answer.body)]
                offset = int(answer.ext["nextBeginOffset"])
            assert found == wanted


def life_with(at: int) -> Life:
    """One that is the same each time: for pops, chance decides which queue is looked at first."""
    random.seed(at)
    clock = FakeClock(wall_ms=CLOCK_MS)
    return Life(FaultyFileSystem(clock, seed=at), clock)


@cache
def calls() -> int:
    """Of a life in which nothing fails."""
    life = life_with(0)
    life.disk.fail(at=10**9)
    assert life.live()
    count = life.disk.call_count
    life.go_on()
    return count


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("survival", WAYS)
def test_what_was_promised_survives_a_power_cut_at_any_call(survival: Survival, stride: int) -> None:
    """And another one in the start that follows."""
    for at in range(WAYS.index(survival) + 1, calls() + 1, stride):
        life, chance = life_with(at), random.Random(at)
        life.disk.fail(at=at, lasting=True, torn=True)
        life.live()
        life.crash(survival, at)
        life.disk.fail(at=chance.randint(1, 100), lasting=True, torn=True)
        life.live()
        life.crash(chance.choice(WAYS), at + 1)
        life.go_on()


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["fails", "is full"])
def test_a_call_that_fails_once_costs_nothing_that_was_promised(error: int, stride: int) -> None:
    for at in range(1 if error == errno.EIO else 3, calls() + 1, stride):
        life = life_with(at)
        life.disk.fail(at=at, error=error, torn=True)
        life.live()
        life.disk.heal()
        life.crash(Survival.SECTORS, at)
        life.go_on()
