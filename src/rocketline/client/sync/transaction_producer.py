"""The blocking producer of transactions. Java: TransactionMQProducer.

Half messages and ends go by the runtime's background thread; the local work is done in the caller's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

from rocketline.client.aio.producer import Producer as AsyncProducer
from rocketline.client.aio.transaction_producer import TransactionProducer as AsyncTransactionProducer
from rocketline.client.producer.options import ProducerKeywords
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.transactions import (
    Check,
    LocalWork,
    Transaction,
    TransactionReceipt,
    TransactionState,
    awaited,
    decided,
    told_of,
)
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.clock import Clock
from rocketline.errors import TransactionError
from rocketline.logs import Log
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue

_log = Log(__name__)


class TransactionProducer(Producer):
    """Sends messages that count only if something else happened, such as a commit of a database. All else that a
    producer does, it does too.

    `check` is given a message of this group whose transaction nobody ended, perhaps that of a process that died, and
    says what became of it; it runs in a thread of its own, or, if it is a coroutine function, on the client's loop. At
    most `check_workers` run at once, and one that takes longer than `check_timeout_s` is given up: the broker asks
    again.

    >>> from rocketline.testing import Server
    >>> paid = set()
    >>> def check(message: ReceivedMessage) -> TransactionState:
    ...     return TransactionState.COMMIT if message.keys[0] in paid else TransactionState.ROLLBACK
    >>> from rocketline import ReceivedMessage
    >>> with Server() as server, TransactionProducer(server.address, group="shop", check=check) as producer:
    ...     with producer.transaction(Message("orders", b"{}", keys=["42"])) as transaction:
    ...         paid.add("42")
    ...     print(transaction.state.name)
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
        self._check, self._check_workers, self._check_timeout_s = check, check_workers, check_timeout_s
        super().__init__(name_servers, group=group, runtime=runtime, clock=clock, **options)

    def _make_twin(
        self, name_servers: str | Sequence[str] | None, group: str, options: ProducerKeywords
    ) -> AsyncProducer:
        self._transactions = AsyncTransactionProducer(
            name_servers,
            group=group,
            check=self._check,
            check_workers=self._check_workers,
            check_timeout_s=self._check_timeout_s,
            runtime=self.runtime.core,
            **options,
        )
        return self._transactions

    @contextmanager
    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Transaction]:
        """A block in which the message is stored already, and nobody sees it. Leaving the block commits it, an
        exception rolls it back; `commit`, `rollback` and `leave_open` of what the block gets decide otherwise.

        Should the process die in between, or the block be cancelled or interrupted, the broker has `check` asked, in
        any process of the group.

        Raises what `send` raises, and `TransactionError` if the half message is not safe: then the block is not run.
        """
        half = self._begin_half(message, queue, selector, timeout_s)
        if not half.receipt.is_ok:
            self._tell_end(half, TransactionState.ROLLBACK)
            raise TransactionError(message.topic, half.receipt.status.name)
        try:
            yield half
        except BaseException as error:
            self._tell_end(half, half.state_after(error), told_of(error))
            raise
        self._tell_end(half, half.state or TransactionState.COMMIT)

    def send_in_transaction(
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
        function runs on the client's loop. If it raises and has not decided, the transaction stays open, as with Java,
        and the receipt has the error. If the half message is not safe, it is rolled back, and `work` is not done.
        Raises what `send` raises.
        """
        half = self._begin_half(message, queue, selector, timeout_s)
        state, error = TransactionState.ROLLBACK, None
        if half.receipt.is_ok:
            try:
                decision = work(half)
                if inspect.isawaitable(decision):
                    decision = self.runtime.portal.call(awaited(decision))
                state = decided(decision, "the local work", half.state)
            except Exception as raised:  # noqa: BLE001  # whatever the application's function raises
                state, error = half.state or TransactionState.UNKNOWN, raised
            except BaseException:
                self._tell_end(half, half.state or TransactionState.UNKNOWN)
                raise
        self._tell_end(half, state, None if error is None else told_of(error))
        return TransactionReceipt(half.receipt, state, error)

    def _begin_half(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout_s: float | None,
    ) -> Transaction:
        beginning = self._transactions.begin_half
        return self._open_portal().call(beginning(message, queue, selector, timeout_s))

    def _tell_end(self, transaction: Transaction, state: TransactionState, problem: str | None = None) -> None:
        """Tell the broker, unless the client was closed meanwhile, or this is a forked child: then the broker asks."""
        self.runtime.portal.call_closing(self._transactions.end_transaction(transaction, state, problem))
        if not transaction.is_over:
            transaction.state, transaction.is_over = state, True
            _log.warning("end of a transaction not told; the broker asks later", problem=f"{self!r} is not open here")
