"""Producers and consumers that go on through every crash, and write down what they are told."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

from crash import requests
from crash.gate import Gate
from crash.ledger import DELAY_LEVELS_MS, DELAYED, MADE, PLAIN, QUEUES, TIMED, TIMER_MS_MAX, Ledger, Place, Sent
from crash.transactions import TRANSACTORS, Transactions
from rocketline.clock import SystemClock
from rocketline.errors import ConnectError, TransportError
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import Message
from rocketline.net.remote import Remote
from rocketline.wire import headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records

PRODUCERS, WINDOW, GROUPS = 3, 8, ("crash-commits-with-pulls", "crash-commits-apart")
REQUEST_S = 20.0
_HOLD_MS = 300
_RETRY_S = 0.02
_RECALLED = 0.2
_MESSAGES_PER_MADE_TOPIC = 400
_CLOCK = SystemClock()


class Reader:
    """One group's consumer of one queue: it goes on from what was committed, whenever the broker was gone."""

    def __init__(self, group: str, topic: str, queue_id: int) -> None:
        self.group, self.topic, self.queue_id = group, topic, queue_id
        self.offset: int | None = None
        """Where it reads next; None if it has to ask first."""
        self.seen: set[int] = set()
        self.asked_commit = 0
        """The highest offset that it wanted to be remembered."""
        self.known_commit = 0
        """The last one that the broker is known to have."""
        self.safe_commit = 0
        """The one that was known at the last clean stop: from then on it must never be less."""

    def __str__(self) -> str:
        return f"{self.group} on {self.topic}:{self.queue_id}"


class Traffic:
    """All of it, as `async with`. It starts held."""

    def __init__(self, address: str, ledger: Ledger, random: Random) -> None:
        self._address, self._ledger, self._random = address, ledger, random
        self.readers = [
            Reader(group, topic, queue_id)
            for group in GROUPS
            for topic, count in QUEUES.items()
            for queue_id in range(count)
        ]
        self.producing, self.consuming = Gate(PRODUCERS * WINDOW + TRANSACTORS), Gate(len(self.readers))
        self.answered = asyncio.Event()
        """A message was acknowledged since all were let through."""
        self._next_number = 1
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Traffic:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for _ in range(PRODUCERS):
            remote = await self._stack.enter_async_context(Remote(self._address))
            self._tasks += [group.create_task(self._produce(remote)) for _ in range(WINDOW)]
        transactions = Transactions(self._address, self._ledger, self._random, self.producing)
        await self._stack.enter_async_context(transactions)
        for name in GROUPS:
            remote = await self._stack.enter_async_context(Remote(self._address))
            readers = [reader for reader in self.readers if reader.group == name]
            self._tasks += [group.create_task(self._consume(remote, reader)) for reader in readers]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._stack.aclose()

    def resume(self) -> None:
        self.answered.clear()
        self.producing.open()
        self.consuming.open()

    async def hold(self) -> None:
        await self.producing.shut()
        await self.consuming.shut()

    # --- producers

    async def _produce(self, remote: Remote) -> None:
        while True:
            await self.producing.passage()
            messages, queue_id, delay_ms = self._next_messages()
            numbers = [int(message.properties["UNIQ_KEY"], 16) for message in messages]
            born_ms = _CLOCK.wall_ms()
            for number in numbers:
                self._ledger.send(number, Sent(messages[0].topic, born_ms, delay_ms))
            try:
                answer = await remote.request(requests.send(messages, queue_id, born_ms), REQUEST_S)
            except TransportError as error:
                self._ledger.unanswered += 0 if isinstance(error, ConnectError) else len(messages)
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.code == ResponseCode.SUCCESS:
                self._acknowledge(numbers, messages[0].topic, answer)
                if (handle := answer.ext.get("recallHandle")) and self._random.random() < _RECALLED:
                    await self._recall(remote, numbers[0], handle)
            else:
                self._ledger.refused[f"send {answer.code} {answer.remark}"] += 1
                await asyncio.sleep(_RETRY_S)

    async def _recall(self, remote: Remote, number: int, handle: str) -> None:
        """Call a message back; the broker may be gone meanwhile."""
        code = None
        try:
            code = (await remote.request(requests.recall(TIMED, handle), REQUEST_S)).code
        except TransportError:
            await asyncio.sleep(_RETRY_S)
        self._ledger.recall(number, code)

    def _next_messages(self) -> tuple[list[Message], int, int]:
        """What to send next, to which queue, and by how much it is to be delayed."""
        chance, random = self._random.random(), self._random
        if chance < 0.03:
            level = random.choice(list(DELAY_LEVELS_MS))
            message = requests.message_of(self._number(), DELAYED, level)
            return [message], random.randrange(QUEUES[DELAYED]), DELAY_LEVELS_MS[level]
        if chance < 0.08:
            timer_ms = random.randint(1, TIMER_MS_MAX)
            return (
                [requests.message_of(self._number(), TIMED, timer_ms=timer_ms)],
                random.randrange(QUEUES[TIMED]),
                timer_ms,
            )
        if chance < 0.13:
            topic = f"{MADE}{self._next_number // _MESSAGES_PER_MADE_TOPIC}"
            return [requests.message_of(self._number(), topic)], random.randrange(2), 0
        count = random.randint(2, 8) if chance < 0.2 else 1
        return [requests.message_of(self._number(), PLAIN) for _ in range(count)], random.randrange(QUEUES[PLAIN]), 0

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _acknowledge(self, numbers: list[int], topic: str, answer: Command) -> None:
        self.answered.set()
        header = headers.decode(headers.SendMessageResponseHeader, answer.ext)
        ids = header.msg_id.split(",")
        for at, number in enumerate(numbers):
            place = Place(topic, header.queue_id, header.queue_offset + at)
            log_offset = OffsetMessageId.parse(ids[at]).log_offset if len(ids) == len(numbers) else None
            self._ledger.acknowledge(number, place, log_offset)

    # --- consumers

    async def _consume(self, remote: Remote, reader: Reader) -> None:
        while True:
            await self.consuming.passage()
            try:
                if reader.offset is None:
                    reader.offset = await committed_offset(remote, reader, self._ledger)
                await self._pull(remote, reader, reader.offset)
            except TransportError:
                reader.offset = None
                await asyncio.sleep(_RETRY_S)

    async def _pull(self, remote: Remote, reader: Reader, offset: int) -> None:
        commits_apart = reader.group == GROUPS[1]
        place = Place(reader.topic, reader.queue_id, offset)
        reader.asked_commit = max(reader.asked_commit, offset)
        request = requests.pull(reader.group, place, hold_ms=_HOLD_MS, commit=None if commits_apart else offset)
        answer = await remote.request(request, REQUEST_S)
        if answer.code == ResponseCode.SUCCESS:
            reader.offset = self._take(reader, offset, answer)
        elif answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            reader.offset = offset
        else:
            reader.offset = None
            self._ledger.refused[f"pull {answer.code} {answer.remark}"] += 1
            if answer.code == ResponseCode.PULL_OFFSET_MOVED:  # nothing is ever deleted here
                self._ledger.report(f"{reader} is at {offset}, and is told {answer.ext}")
            await asyncio.sleep(_RETRY_S)
            return
        if commits_apart and (await remote.request(requests.commit(reader.group, place), REQUEST_S)).code != 0:
            return
        reader.known_commit = offset

    def _take(self, reader: Reader, offset: int, answer: Command) -> int:
        for message in decode_records(answer.body, check_crc=True):
            self._ledger.see(message, Place(reader.topic, reader.queue_id, offset), str(reader))
            reader.seen.add(offset)
            offset += 1
        return offset


async def committed_offset(remote: Remote, reader: Reader, ledger: Ledger) -> int:
    """Where the broker says that the reader's group is; 0 if it knows nothing of it. Raises `TransportError`."""
    answer = await remote.request(requests.committed(reader.group, reader.topic, reader.queue_id), REQUEST_S)
    offset = int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else 0
    if not reader.safe_commit <= offset <= reader.asked_commit:
        ledger.report(
            f"{reader}: {offset} is committed, the group asked for {reader.asked_commit} at most, "
            f"and {reader.safe_commit} was safe"
        )
    return offset
