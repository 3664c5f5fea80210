"""Producers of transactions that go on through every crash, and answer whatever a broker asks them.

What becomes of a transaction follows from its number: so whoever is asked, and after however many crashes, says the
same.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from random import Random

from crash import requests
from crash.gate import Gate
from crash.ledger import TRANSACTED, Ledger, Sent, is_rolled_back, number_of
from rocketline.clock import SystemClock
from rocketline.errors import TransportError
from rocketline.model.ids import OffsetMessageId
from rocketline.net.channel import Channel, Outcome
from rocketline.net.remote import Remote
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_record

TRANSACTORS = 4
SETTINGS = {
    "transactionTimeOut": "300",
    "transactionCheckInterval": "300",
    "transactionOpBatchInterval": "50",
    "transactionCheckMax": "100000",
}
"""So short that kills meet a round of questions."""
_REQUEST_S = 20.0
_RETRY_S = 0.02
_KNOWN_S = 0.2
_LEFT_OPEN = 0.3
_FIRST_NUMBER = 1 << 30
_CLOCK = SystemClock()


class Transactions:
    """All of it on one connection, as `async with`. It begins none while the gate is shut, and answers always."""

    def __init__(self, address: str, ledger: Ledger, random: Random, gate: Gate) -> None:
        self._address, self._ledger, self._random, self._gate = address, ledger, random, gate
        self._next_number = _FIRST_NUMBER
        self._questions: asyncio.Queue[Command] = asyncio.Queue()
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Transactions:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        remote = await self._stack.enter_async_context(Remote(self._address, dispatch=self._asked))
        works = [self._transact(remote) for _ in range(TRANSACTORS)]
        self._tasks = [group.create_task(work) for work in (*works, self._answer(remote), self._stay_known(remote))]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._stack.aclose()

    def _asked(self, channel: Channel, request: Command) -> Outcome:
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._questions.put_nowait(request)
        return None

    async def _stay_known(self, remote: Remote) -> None:
        while True:
            with suppress(TransportError):
                await remote.request(requests.transactor(), _REQUEST_S)
            await asyncio.sleep(_KNOWN_S)

    async def _transact(self, remote: Remote) -> None:
        while True:
            await self._gate.passage()
            self._next_number += 1
            number, born_ms = self._next_number, _CLOCK.wall_ms()
            self._ledger.send(number, Sent(TRANSACTED, born_ms))
            try:
                answer = await remote.request(requests.half(number, born_ms), _REQUEST_S)
                if answer.code != ResponseCode.SUCCESS:
                    self._ledger.refused[f"half {answer.code} {answer.remark}"] += 1
                    await asyncio.sleep(_RETRY_S)
                    continue
                self._ledger.begin_transaction(number)
                if self._random.random() >= _LEFT_OPEN:
                    sent = headers.decode(headers.SendMessageResponseHeader, answer.ext)
                    place = OffsetMessageId.parse(sent.msg_id).log_offset
                    await self._end(remote, number, place, sent.queue_offset)
            except TransportError:
                await asyncio.sleep(_RETRY_S)

    async def _answer(self, remote: Remote) -> None:
        while True:
            question = await self._questions.get()
            asked = headers.decode(headers.CheckTransactionStateRequestHeader, question.ext)
            number = number_of(decode_record(question.body).body)
            if number is None or number not in self._ledger.sent:
                self._ledger.report(f"the broker asked for what nobody sent: {question.body[:200]!r}")
                continue
            with suppress(TransportError):
                place, offset = asked.commit_log_offset, asked.tran_state_table_offset
                await self._end(remote, number, place, offset, is_answer=True)

    async def _end(
        self, remote: Remote, number: int, log_offset: int, queue_offset: int, *, is_answer: bool = False
    ) -> None:
        commits = not is_rolled_back(number)
        request = requests.end(number, log_offset, queue_offset, commits=commits, is_answer=is_answer)
        answer = await remote.request(request, _REQUEST_S)
        if answer.code != ResponseCode.SUCCESS:
            self._ledger.refused[f"end {answer.code} {answer.remark}"] += 1
        elif commits:
            self._ledger.committed.add(number)
            self._ledger.answers += is_answer
