"""Messages that count only if something else happened: half messages, their ends, and questions about them.

A half message is stored where nobody sees it. Then the application does its work, and the broker is told whether the
message counts. A broker that is not told asks a member of the producer's group, with CHECK_TRANSACTION_STATE, which has
the application's check function find out. Java: TransactionMQProducer.
"""

from __future__ import annotations

import asyncio
import inspect
import reprlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias, cast

from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.producer.send_request import SendRequest, SendRequests
from rocketline.client.producer.traced import SendTrace
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.members import TransactionCheck
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import InvalidMessageError, RocketlineError, TransactionOverError
from rocketline.logs import Log
from rocketline.model import property_names
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import EndTransactionRequestHeader

_log = Log(__name__)
_ANSWER_TIMEOUT_S: Final = 3.0
_WAITING_MAX: Final = 2000
"""Questions. A broker asks again, so that what is dropped is only late. Java: checkRequestHoldMax."""
_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
_HANGING_MAX: Final = 64
"""Check functions that were given up and run on in their threads."""
_REMARK_MAX: Final = 1024


class TransactionState(Enum):
    """What became of a transaction. Java: LocalTransactionState."""

    COMMIT = TRANSACTION_COMMIT
    """The message counts: consumers get it."""
    ROLLBACK = TRANSACTION_ROLLBACK
    """It does not, and nobody ever gets it."""
    UNKNOWN = 0
    """Not known yet. The broker asks later."""


@dataclass(slots=True)
class Transaction:
    """A half message that is stored, and waits for its end."""

    message: Message
    receipt: SendReceipt
    state: TransactionState | None = None
    """What was decided; None if nothing was, so that the end of the block decides."""
    header: EndTransactionRequestHeader = field(kw_only=True, repr=False)
    is_over: bool = field(default=False, kw_only=True)
    """Brokers were told of `state`, and no more can be decided here."""

    @property
    def queue(self) -> MessageQueue:
        """Where the message will be if it counts, named as on the wire."""
        return MessageQueue(self.header.topic or "", self.receipt.queue.broker_name, self.receipt.queue.queue_id)

    @property
    def transaction_id(self) -> str:
        """What the message is known by, to the check function too: an id to write down with the local work."""
        return self.receipt.message_id

    def commit(self) -> None:
        """Let the message count when the block is left, whatever happens until then.

        The last decision holds. Raises `TransactionOverError` behind the block, as the others do.
        """
        self._decide(TransactionState.COMMIT)

    def rollback(self) -> None:
        """Let it not count, though the block is left without an exception."""
        self._decide(TransactionState.ROLLBACK)

    def leave_open(self) -> None:
        """Let the broker ask later."""
        self._decide(TransactionState.UNKNOWN)

    def _decide(self, state: TransactionState) -> None:
        if self.is_over:
            raise TransactionOverError(self.message.topic, self.transaction_id)
        self.state = state

    def state_after(self, error: BaseException) -> TransactionState:
        """What becomes of it if the block is left so: an exception rolls back. What comes from outside, as a
        cancellation and Ctrl-C do, may come in the midst of the commit of a database: only the check finds that out."""
        return self.state or (TransactionState.ROLLBACK if isinstance(error, Exception) else TransactionState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """The half message is stored, and the broker is told what became of it. Java: TransactionSendResult."""

    receipt: SendReceipt
    state: TransactionState
    error: Exception | None = None
    """What the local work raised; then the state is `UNKNOWN`, unless it had decided before."""

    @property
    def transaction_id(self) -> str:
        return self.receipt.message_id


Decision: TypeAlias = "TransactionState | Awaitable[TransactionState | None] | None"
LocalWork: TypeAlias = "Callable[[Transaction], Decision]"
"""Does what the message depends on, blocking or as a coroutine."""
Check: TypeAlias = "Callable[[ReceivedMessage], Decision]"
"""Finds out what became of a transaction whose message is given, blocking or as a coroutine."""


def prepare_half(requests: SendRequests, group: str, message: Message) -> SendRequest:
    """The request for half a transaction of the producer group, named as on the wire. A delay level is left away, as
    Java leaves it. Raises `InvalidMessageError`, `InvalidNameError`."""
    if not isinstance(message, Message):
        raise TypeError(f"a transaction has one Message, not {message!r:.100}")
    if any(name in message.properties for name in property_names.TIMERS):
        raise InvalidMessageError(message.topic, "a message of a transaction cannot be delayed")
    properties = {name: value for name, value in message.properties.items() if name != property_names.DELAY}
    properties |= {property_names.TRAN_MSG: "true", property_names.PGROUP: group}
    request = requests.prepare(Message.of(message.topic, message.body, properties, message.flag))
    request.sys_flag |= TRANSACTION_PREPARED
    return request


def begun(request: SendRequest, message: Message, receipt: SendReceipt, group: str) -> Transaction:
    """The transaction of a half message that is stored. Raises `RemoteProtocolError` if nobody could ever end it."""
    header = EndTransactionRequestHeader(
        topic=request.topic,
        producer_group=group,
        tran_state_table_offset=receipt.queue_offset,
        commit_log_offset=OffsetMessageId.parse(receipt.offset_message_id).log_offset,
        commit_or_rollback=0,
        msg_id=receipt.message_id,
        transaction_id=receipt.transaction_id,
        target_broker=receipt.queue.broker_name,
    )
    return Transaction(message, receipt, header=header)


def end_command(header: EndTransactionRequestHeader, state: TransactionState, problem: str | None = None) -> Command:
    """END_TRANSACTION with this state."""
    ext = headers.encode(header) | {"commitOrRollback": str(state.value)}
    return Command(RequestCode.END_TRANSACTION, ext, remark=None if problem is None else problem[:_REMARK_MAX])


def _answer_header(check: TransactionCheck, group: str) -> EndTransactionRequestHeader:
    asked = check.header
    return EndTransactionRequestHeader(
        topic=asked.topic,
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=0,
        from_transaction_check=True,
        msg_id=check.message.message_id,
        transaction_id=asked.transaction_id,
        target_broker=asked.target_broker,
    )


def decided(decision: object, what: str, before: TransactionState | None = None) -> TransactionState:
    """What the application's function returned, if that is a state; else what was decided `before`, if anything."""
    if isinstance(decision, TransactionState):
        return decision
    if decision is not None:
        _log.warning("no state of a transaction was returned", by=what, returned=reprlib.repr(decision))
    return before or TransactionState.UNKNOWN


def told_of(error: BaseException) -> str:
    """What is logged, and told to the broker, of an application's exception."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # its text is the application's, too: the broker is told all the same
        return type(error).__name__


async def awaited(decision: Awaitable[TransactionState | None]) -> TransactionState | None:
    """What an application's coroutine, or anything else that can be awaited, comes to. `sys.exit` in it raises
    `RuntimeError`: it must not end the loop, which is that of a blocking client."""
    try:
        return await decision
    except SystemExit as raised:
        raise RuntimeError(told_of(raised)) from raised


async def called(function: Callable[..., Any], *arguments: object, ended: Callable[[], None] | None = None) -> object:
    """What the function returns, a coroutine function on this loop and any other in a thread of its own.

    The thread is a daemon: a function that hangs keeps neither the loop nor the process. `ended` is called on the loop
    when the thread has.
    """
    if is_coroutine_function(function):
        return await function(*arguments)
    result = await _in_thread(partial(function, *arguments), ended)
    return await result if inspect.isawaitable(result) else result


def is_coroutine_function(function: object) -> bool:
    """A call of it gives something to be awaited."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _in_thread(function: Callable[[], Any], ended: Callable[[], None] | None) -> Any:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def come_back(result: object, error: BaseException | None) -> None:
        if ended is not None:
            ended()
        if outcome.done():
            return  # nobody waits any more
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result, error = None, cast("BaseException | None", None)
        try:
            result = function()
        except (StopIteration, SystemExit, KeyboardInterrupt) as raised:  # which no future takes, or no loop survives
            error = RuntimeError(told_of(raised))
        except BaseException as raised:  # noqa: BLE001  # whoever waits is told, whatever it is
            error = raised
        with suppress(RuntimeError):  # what a closed loop gives
            loop.call_soon_threadsafe(come_back, result, error)

    try:
        threading.Thread(target=run, name="rocketline transaction", daemon=True).start()
    except RuntimeError:  # the system has none left
        if ended is not None:
            ended()
        raise
    return await outcome


def _is_cancelled() -> bool:
    """The task that runs check functions is to end; not just something that one of them waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Checks:
    """Has the check function answer brokers' questions, some at a time; further ones wait, up to a bound.

    A function that raises leaves the transaction open, and so does one that takes longer than `timeout_s`: the broker
    asks again. Should sixty-four hang in their threads, no more are begun until one of them is done.
    """

    def __init__(
        self,
        check: Check,
        group: str,
        runtime: ClientRuntime,
        *,
        workers: int,
        timeout_s: float,
        trace: SendTrace | None = None,
    ) -> None:
        """`group` as it is called on the wire; `trace` is where answers are written down."""
        self._check, self._group, self._runtime, self._trace = check, group, runtime, trace
        self._workers, self._timeout_s = workers, timeout_s
        self._waiting: deque[TransactionCheck] = deque()
        self._waiting_bytes = self._running = self._threads = 0
        self._is_dropping = False

    def add(self, check: TransactionCheck) -> None:
        """Answer it, now or after others."""
        if len(self._waiting) >= _WAITING_MAX or self._waiting_bytes + check.size > _WAITING_BYTES_MAX:
            if not self._is_dropping:
                self._is_dropping = True
                _log.warning("checks of transactions dropped: too many wait; the broker asks again", group=self._group)
            return
        self._is_dropping = False
        self._waiting.append(check)
        self._waiting_bytes += check.size
        self._begin()

    def close(self) -> None:
        """Answer none of those that wait: brokers ask others of the group."""
        self._waiting.clear()

    def _begin(self) -> None:
        if self._waiting and self._running < self._workers and self._threads < self._workers + _HANGING_MAX:
            self._running += 1
            self._runtime.spawn(self._work(), name=f"check transactions of {self._group}")

    async def _work(self) -> None:
        try:
            while self._waiting and self._threads < self._workers + _HANGING_MAX:
                check = self._waiting.popleft()
                self._waiting_bytes -= check.size
                await self._answer(check)
        finally:
            self._running -= 1

    async def _answer(self, check: TransactionCheck) -> None:
        state, problem = await self._find_out(check.message)
        command = end_command(_answer_header(check, self._group), state, problem)
        try:
            self._runtime.prepare(command, check.channel.peer)
            if self._trace is not None:
                self._trace.answered(check.message, check.header.transaction_id, check.channel.peer, state.value)
            await check.channel.send_oneway(command, _ANSWER_TIMEOUT_S)
        except RocketlineError as error:
            _log.warning("check of a transaction not answered; the broker asks again", problem=str(error))

    async def _find_out(self, message: ReceivedMessage) -> tuple[TransactionState, str | None]:
        try:
            async with self._runtime.limit(self._timeout_s):
                if not is_coroutine_function(self._check):
                    self._threads += 1
                decision = await called(self._check, message, ended=self._thread_ended)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            problem = told_of(error)  # whatever it is, also the end of something that the function waited for
            if isinstance(error, TimeoutError) and not str(error):
                problem = f"the check function took more than {self._timeout_s:g} s"
            _log.warning("transaction left open", problem=problem, message_id=message.message_id)
            return TransactionState.UNKNOWN, problem
        return decided(decision, "the check function"), None

    def _thread_ended(self) -> None:
        self._threads -= 1
        self._begin()
