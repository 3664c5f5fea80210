"""Clients on a bad day: their connections are cut, delayed and swallowed, their brokers killed and started again.

Producers send until each message was acknowledged; consumers of one group share them. In the end every acknowledged
message was consumed, nothing came that nobody sent, messages of one key came in order, and no call took longer than it
was allowed to.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from rocketline import (
    ConsumeFromWhere,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    aio,
)
from rocketline.client.options import ClientKeywords
from rocketline.errors import RocketlineError
from rocketline.testing import setting_up
from rocketline.testing.fault_proxy import FaultProxy
from rocketline.testing.server_process import ServerProcess, free_port

BEHIND: Final = "127.0.0.2"
"""Brokers listen there, and tell clients the same port of 127.0.0.1, where the proxy listens."""
QUEUES: Final = 4
KEYS: Final = 16
TIMEOUTS_S: Final = {"send": 3.0, "pull": 1.0}
OVERDUE_S: Final = 2.0
"""By how much a call may miss its timeout before we say that it hangs: on a machine where everything runs at once."""
_TICK_S: Final = 0.02
QUICK: Final[ClientKeywords] = {
    "route_period_s": 1.0,
    "heartbeat_period_s": 2.0,
    "offset_persist_period_s": 1.0,
}

StartBroker = Callable[[Path, str, int, dict[str, str]], ServerProcess]
"""Starts a broker from its home, name, port and settings; again from the same home it is the broker's next start."""


@dataclass(slots=True)
class Broker:
    """A master behind its proxy."""

    start: Callable[[], ServerProcess]
    proxy: FaultProxy
    process: ServerProcess

    def kill(self) -> None:
        self.process.kill()

    async def restart(self) -> None:
        self.process = await asyncio.to_thread(self.start)
        await asyncio.to_thread(self.process.wait_until_ready)


@asynccontextmanager
async def brokers_behind_proxies(start: StartBroker, home: Path) -> AsyncIterator[list[Broker]]:
    async with AsyncExitStack() as stack:
        brokers = []
        for name in ("broker-a", "broker-b"):
            port = free_port()
            settings = {"bindAddress": BEHIND}

            def start_this(name: str = name, port: int = port, settings: dict[str, str] = settings) -> ServerProcess:
                return start(home / name, name, port, settings)

            proxy = await stack.enter_async_context(FaultProxy(f"{BEHIND}:{port}", port=port))
            broker = Broker(start_this, proxy, start_this())
            stack.callback(broker.kill)
            brokers.append(broker)
        for broker in brokers:
            await asyncio.to_thread(broker.process.wait_until_ready)
        yield brokers


class Ledger:
    """What was sent and what came, from threads and tasks alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.consumed: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.slowest_s = dict.fromkeys(TIMEOUTS_S, 0.0)
        """Calls, without what this process was held up meanwhile."""
        self._held_up: list[tuple[float, float]] = []
        """When a timer was late, and by how much."""
        self.problems: list[str] = []
        self._sent: set[str] = set()
        self._last_of_key: dict[str, int] = {}

    def sending(self, text: str) -> None:
        with self._lock:
            self._sent.add(text)

    def held_up(self, at_s: float, late_s: float) -> None:
        with self._lock:
            self._held_up.append((at_s, late_s))

    def called(self, call: str, begin_s: float, error: RocketlineError | None) -> None:
        with self._lock:
            late_s = sum(late_s for at_s, late_s in self._held_up if at_s >= begin_s)
            self.slowest_s[call] = max(self.slowest_s[call], time.monotonic() - begin_s - late_s)
            if error is not None:
                self.failures[f"{call}: {type(error).__name__}"] += 1

    def acknowledge(self, text: str) -> None:
        with self._lock:
            self.acknowledged.add(text)

    def consume(self, text: str) -> None:
        with self._lock:
            self.consumed[text] += 1
            if text not in self._sent:
                self.problems.append(f"{text} came, and nobody sent it")

    def consume_ordered(self, text: str) -> None:
        """`key/number`. A key's next message comes after all before it; any of those may come again."""
        self.consume(text)
        key, _, number = text.partition("/")
        with self._lock:
            last = self._last_of_key.get(key, -1)
            if int(number) > last + 1:
                self.problems.append(f"{text} came when {key}/{last} was the last before it")
            self._last_of_key[key] = max(last, int(number))

    @property
    def missing(self) -> set[str]:
        with self._lock:
            return self.acknowledged - self.consumed.keys()

    @property
    def repeated(self) -> int:
        return self.consumed.total() - len(self.consumed)


@dataclass(slots=True)
class Chaos:
    """One bad day with `plain` messages to any queue and `ordered` ones, each key to a queue of its own."""

    name_server: str
    brokers: list[Broker]
    plain: int
    ordered: int
    seconds: float
    """How long things go wrong. Sending takes about as long."""
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    faults: Counter[str] = field(default_factory=Counter)
    _is_over: threading.Event = field(default_factory=threading.Event)
    """All is sent, or something went wrong that should not: threads are not cancelled, they have to look."""

    async def run(self, *, patience_s: float) -> None:
        """All of it; then wait for what is missing, `patience_s` at most."""
        addresses = [broker.process.address for broker in self.brokers]
        for topic in ("plain", "ordered"):
            await asyncio.to_thread(setting_up.create_topic, self.name_server, addresses, topic, queues=QUEUES)
        async with self._consumers():
            async with asyncio.TaskGroup() as pullers:
                pullers.create_task(self._note_lateness())
                pullers.create_task(asyncio.to_thread(self._pull))
                pullers.create_task(self._pull_async())
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._go_wrong())
                        group.create_task(asyncio.to_thread(self._send_plain))
                        group.create_task(self._send_ordered())
                finally:
                    self._is_over.set()
            deadline_s = time.monotonic() + patience_s
            # Handlers in threads tell the ledger, and not this loop.
            while self.ledger.missing and time.monotonic() < deadline_s:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _note_lateness(self) -> None:
        """A machine that has others to serve is late with everything: what a call owes to that is not its fault."""
        while not self._is_over.is_set():
            due_s = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            if (late_s := time.monotonic() - due_s) > _TICK_S:
                self.ledger.held_up(due_s, late_s)

    # --- clients

    @asynccontextmanager
    async def _consumers(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for _ in range(2):
                plain = PushConsumer(
                    self.name_server, group="plain", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **QUICK
                )
                plain.subscribe("plain", "*", self._take_plain)
                await asyncio.to_thread(plain.start)
                stack.push_async_callback(asyncio.to_thread, plain.close)
                ordered = aio.PushConsumer(
                    self.name_server,
                    group="ordered",
                    orderly=True,
                    consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                    **QUICK,
                )
                ordered.subscribe("ordered", "*", self._take_ordered)
                await stack.enter_async_context(ordered)
            yield

    def _take_plain(self, message: ReceivedMessage) -> None:
        self.ledger.consume(message.body.decode())

    async def _take_ordered(self, message: ReceivedMessage) -> None:
        self.ledger.consume_ordered(message.body.decode())

    def _send_plain(self) -> None:
        """Four threads with one producer."""
        pace_s = self.seconds / (self.plain / 4)
        with Producer(self.name_server, group="plain", send_timeout_s=TIMEOUTS_S["send"], **QUICK) as producer:
            threads = [
                threading.Thread(target=self._send_share, args=(producer, number, pace_s), name=f"send-{number}")
                for number in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _send_share(self, producer: Producer, share: int, pace_s: float) -> None:
        begin_s = time.monotonic()
        for position, number in enumerate(range(share, self.plain, 4)):
            if self._is_over.is_set():
                return
            text = f"p{number}"
            self.ledger.sending(text)
            while not self._try("send", lambda text=text: producer.send(Message("plain", text.encode(), keys=[text]))):  # type: ignore[misc]
                if self._is_over.wait(0.05):
                    return
            self.ledger.acknowledge(text)
            time.sleep(max(begin_s + position * pace_s - time.monotonic(), 0))

    def _try(self, call: str, act: Callable[[], object]) -> bool:
        begin_s = time.monotonic()
        try:
            act()
        except RocketlineError as error:
            self.ledger.called(call, begin_s, error)
            return False
        self.ledger.called(call, begin_s, None)
        return True

    async def _send_ordered(self) -> None:
        async with (
            aio.Producer(self.name_server, group="ordered", send_timeout_s=TIMEOUTS_S["send"], **QUICK) as producer,
            asyncio.TaskGroup() as group,
        ):
            for key in range(KEYS):
                group.create_task(self._send_key(producer, key))

    async def _send_key(self, producer: aio.Producer, key: int) -> None:
        share = self.ordered // KEYS
        queue = MessageQueue("ordered", ("broker-a", "broker-b")[key % 2], key // 2 % QUEUES)
        begin_s, pace_s = time.monotonic(), self.seconds / share
        for number in range(share):
            text = f"{key}/{number}"
            self.ledger.sending(text)
            while True:
                if await self._try_async("send", producer.send(Message("ordered", text.encode()), queue=queue)):
                    break
                await asyncio.sleep(0.05)
            self.ledger.acknowledge(text)
            await asyncio.sleep(max(begin_s + number * pace_s - time.monotonic(), 0))

    async def _try_async(self, call: str, act: Awaitable[object]) -> bool:
        begin_s = time.monotonic()
        try:
            await act
        except RocketlineError as error:
            self.ledger.called(call, begin_s, error)
            return False
        self.ledger.called(call, begin_s, None)
        return True

    def _pull(self) -> None:
        """Queue after queue, held back where nothing has come yet: only how long it takes counts."""
        offsets: Counter[MessageQueue] = Counter()

        def pull(consumer: PullConsumer, queue: MessageQueue) -> None:
            result = consumer.pull(queue, offsets[queue], waits=True, timeout_s=TIMEOUTS_S["pull"])
            offsets[queue] = result.next_offset

        with PullConsumer(self.name_server, group="looks", **QUICK) as consumer:
            for queue in self._queues():
                self._try("pull", partial(pull, consumer, queue))
                time.sleep(0.01)

    async def _pull_async(self) -> None:
        offsets: Counter[MessageQueue] = Counter()

        async def pull(consumer: aio.PullConsumer, queue: MessageQueue) -> None:
            result = await consumer.pull(queue, offsets[queue], waits=True, timeout_s=TIMEOUTS_S["pull"])
            offsets[queue] = result.next_offset

        async with aio.PullConsumer(self.name_server, group="looks", **QUICK) as consumer:
            for queue in self._queues():
                await self._try_async("pull", pull(consumer, queue))
                await asyncio.sleep(0.01)

    def _queues(self) -> Iterator[MessageQueue]:
        """Those of `plain`, in turn, until it is over."""
        for number in count():
            if self._is_over.is_set():
                return
            yield MessageQueue("plain", ("broker-a", "broker-b")[number % 2], number // 2 % QUEUES)

    # --- what goes wrong

    async def _go_wrong(self) -> None:
        """Faults at random, and each master killed once alone and once with the other."""
        begin_s = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for number, broker in enumerate(self.brokers):
                    group.create_task(self._disturb_often(broker.proxy, Random(self.seed + number), begin_s))
                for share, killed in ((0.1, [0]), (0.4, [1]), (0.7, [0, 1])):
                    await asyncio.sleep(max(begin_s + share * self.seconds - time.monotonic(), 0))
                    await self._kill([self.brokers[number] for number in killed])
        finally:
            for broker in self.brokers:
                broker.proxy.delay_s = 0.0
                broker.proxy.pass_on()

    async def _kill(self, brokers: list[Broker]) -> None:
        self.faults["kill"] += len(brokers)
        for broker in brokers:
            await asyncio.to_thread(broker.kill)
        await asyncio.sleep(1)
        await asyncio.gather(*(broker.restart() for broker in brokers))

    async def _disturb_often(self, proxy: FaultProxy, random: Random, begin_s: float) -> None:
        while time.monotonic() - begin_s < self.seconds:
            await asyncio.sleep(random.uniform(0.2, 1.0))
            await self._disturb(proxy, random)

    async def _disturb(self, proxy: FaultProxy, random: Random) -> None:
        what = random.choice(("cut", "delay", "black hole", "black hole and cut"))
        self.faults[what] += 1
        match what:
            case "cut":
                proxy.cut()
            case "delay":
                proxy.delay_s = random.uniform(0.05, 0.5)
                await asyncio.sleep(random.uniform(0.2, 1.0))
                proxy.delay_s = 0.0
            case _:
                proxy.is_black_hole = True
                await asyncio.sleep(random.uniform(0.2, 1.5))
                if what.endswith("cut"):
                    proxy.cut()
                proxy.pass_on()


def check(chaos: Chaos) -> None:
    """Everything that must hold of a day that is over."""
    ledger = chaos.ledger
    print(
        f"seed {chaos.seed}: {dict(chaos.faults)}, {dict(ledger.failures)}, "
        f"{ledger.repeated} came again, slowest calls in seconds: {ledger.slowest_s}"
    )
    assert len(ledger.acknowledged) == chaos.plain + chaos.ordered // KEYS * KEYS
    assert not ledger.problems, ledger.problems[:10]
    assert not (missing := ledger.missing), f"{len(missing)} never came: {sorted(missing)[:10]}"
    for call, timeout_s in TIMEOUTS_S.items():
        assert 0 < ledger.slowest_s[call] < timeout_s + OVERDUE_S, call
    assert chaos.faults["kill"] == 4
