"""The asyncio producer of transactions. Java: TransactionMQProducer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Unpack

from rocketline.client.aio.producer import Producer
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerKeywords
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.transactions import (
    Check,
    Checks,
    LocalWork,
    Transaction,
    TransactionReceipt,
    TransactionState,
    begun,
    called,
    decided,
    end_command,
    prepare_half,
    told_of,
)
from rocketline.client.runtime.members import TransactionCheck
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.clock import Clock
from rocketline.errors import RocketlineError, TransactionError
from rocketline.logs import Log
from rocketline.model import names
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue

_log = Log(__name__)


class TransactionProducer(Producer):
    """Sends messages that count only if something else happened, such as a commit of a database. All else that a
    producer does, it does too.

    `check` is given a message of this group whose transaction nobody ended, perhaps that of a process that died, and
    says what became of it; a coroutine function, or any other, which then runs in a thread. At most `check_workers` run
    at once, and one that takes longer than `check_timeout_s` is given up: the broker asks again.

    >>> from rocketline.aio import ReceivedMessage
    >>> from rocketline.testing import Server
    >>> paid = set()
    >>> async def check(message: ReceivedMessage) -> TransactionState:
    ...     return TransactionState.COMMIT if message.keys[0] in paid else TransactionState.ROLLBACK
    >>> async def main(address: str) -> None:
    ...     async with TransactionProducer(address, group="shop", check=check) as producer:
    ...         async with producer.transaction(Message("orders", b"{}", keys=["42"])) as transaction:
    ...             paid.add("42")
    ...         print(transaction.state.name)
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
    COMMIT
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        check: Check,
        check_workers: int = 4,
        check_timeout_s: float = 30.0,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(name_servers, group=group, runtime=runtime, clock=clock, **options)
        if not callable(check):
            raise TypeError(f"check is a function that gets a message, not {check!r:.100}")
        if check_workers < 1 or not check_timeout_s > 0:
            raise ValueError(f"check_workers={check_workers}, check_timeout_s={check_timeout_s}: both are above zero")
        self._wire_group = self.runtime.with_namespace(group)
        self._checks = Checks(
            check,
            self._wire_group,
            self.runtime,
            workers=check_workers,
            timeout_s=check_timeout_s,
            trace=self.core.trace,
        )

    @asynccontextmanager
    async def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Transaction]:
        """A block in which the message is stored already, and nobody sees it. Leaving the block commits it, an
        exception rolls it back; `commit`, `rollback` and `leave_open` of what the block gets decide otherwise.

        Should the process die in between, or the block be cancelled or interrupted, the broker has `check` asked, in
        any process of the group.

        Raises what `send` raises, and `TransactionError` if the half message is not safe: then the block is not run.
        """
        half = await self.begin_half(message, queue, selector, timeout_s)
        if not half.receipt.is_ok:
            await self.end_transaction(half, TransactionState.ROLLBACK)
            raise TransactionError(message.topic, half.receipt.status.name)
        try:
            yield half
        except BaseException as error:
            await self.end_transaction(half, half.state_after(error), told_of(error))
            raise
        await self.end_transaction(half, half.state or TransactionState.COMMIT)

    async def send_in_transaction(
        self,
        message: Message,
        work: LocalWork,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> TransactionReceipt:
        """Store the message where nobody sees it, do `work`, and tell the broker what that returned.

        `work` gets the transaction and returns a state, or decides by its methods and returns None; a coroutine
        function, or any other, which runs in a thread. If it raises and has not decided, the transaction stays open, as
        with Java, and the receipt has the error. If the half message is not safe, it is rolled back, and `work` is not
        done. Raises what `send` raises.
        """
        half = await self.begin_half(message, queue, selector, timeout_s)
        state, error = TransactionState.ROLLBACK, None
        if half.receipt.is_ok:
            try:
                state = decided(await called(work, half), "the local work", half.state)
            except Exception as raised:  # noqa: BLE001  # whatever the application's function raises
                state, error = half.state or TransactionState.UNKNOWN, raised
            except BaseException:
                await self.end_transaction(half, half.state or TransactionState.UNKNOWN)
                raise
        await self.end_transaction(half, state, None if error is None else told_of(error))
        return TransactionReceipt(half.receipt, state, error)

    async def begin_half(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout_s: float | None,
    ) -> Transaction:
        """Store the half message."""
        if asyncio.get_running_loop() is not self._loop:
            self._refuse()
        started_s = self._clock.monotonic()
        timeout_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        request = prepare_half(self.core.requests, self._wire_group, self.core.hooked(message))
        queue = self._make_way(request, queue, selector)
        receipt = await self.delivery.send(request, SendMode.SYNC, queue, selector, started_s, timeout_s)
        return begun(request, message, receipt, self._wire_group)

    async def end_transaction(
        self, transaction: Transaction, state: TransactionState, problem: str | None = None
    ) -> None:
        """Tell the broker. If that fails it is only logged: the broker asks later."""
        transaction.state, transaction.is_over = state, True
        if problem is not None:
            _log.warning("transaction ended by an exception", state=state.name, problem=problem)
        routes, queue = self.core.routes, transaction.queue
        address = routes.master(routes.broker_of(queue))
        command = end_command(transaction.header, state, problem)
        try:
            if address is None:
                raise self.core.no_address(queue.broker_name)
            if self.core.trace is not None:
                self.core.trace.ended(transaction.message, transaction.receipt, address, state.value)
            await self.runtime.send_oneway(address, command, timeout_s=self.options.send_timeout_s)
        except RocketlineError as error:
            _log.warning("end of a transaction not told; the broker asks later", problem=str(error))

    # --- what the runtime asks

    def topics(self) -> Collection[str]:
        """That of half messages, too: each broker that may have some learns from heartbeats whom it can ask, be it that
        nothing was sent since the start."""
        return {*super().topics(), names.HALF_TOPIC}

    def check_transaction(self, check: TransactionCheck) -> None:
        self._checks.add(check)

    async def _leave(self) -> None:
        self._checks.close()
        await super()._leave()
