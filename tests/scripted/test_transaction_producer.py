"""Producers of transactions against brokers that answer, and ask, as they are told."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

import rocketline
from rocketline import ReceivedMessage, Transaction, TransactionState
from rocketline.aio import TransactionProducer
from rocketline.client.producer.transactions import Check
from rocketline.errors import InvalidMessageError, RefusedMessageError, TransactionError, TransactionOverError
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import Message
from rocketline.model.names import HALF_TOPIC
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.acl import Credentials, is_signed_with
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import CheckTransactionStateRequestHeader
from rocketline.wire.message_codec import encode_record
from rocketline.wire.properties import parse_properties
from support.brokers.tables import message
from support.clients.members import in_background, settled

SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
CHECK = RequestCode.CHECK_TRANSACTION_STATE
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
MESSAGE = Message("T", b"body", tags="A", delay_level=3)


class WrongError(Exception):
    """What goes wrong in a test."""


class UnreadableError(Exception):
    """One that cannot be printed, as the application wrote it."""

    def __str__(self) -> str:
        raise WrongError

    __repr__ = __str__


@asynccontextmanager
async def producing(
    peer: ScriptedPeer, check: Check = lambda _: COMMIT, *, workers: int = 4, timeout_s: float = 30.0
) -> AsyncIterator[TransactionProducer]:
    async with TransactionProducer(
        peer.address, group="P", check=check, check_workers=workers, check_timeout_s=timeout_s, clock=peer.clock
    ) as producer:
        await producer.send(Message("T", b"plain"))
        peer.forget()
        yield producer


async def ask(peer: ScriptedPeer, body: bytes = b"half", *, topic: str = "T", group: str = "P") -> None:
    """The broker's question about a half message."""
    header = CheckTransactionStateRequestHeader(
        topic=HALF_TOPIC,
        tran_state_table_offset=7,
        commit_log_offset=4711,
        msg_id="K",
        transaction_id="K",
        target_broker="broker-a",
    )
    half = message(topic, body, UNIQ_KEY="K", PGROUP=group, TRAN_MSG="true", KEYS="key")
    await peer.tell(CHECK, header, encode_record(half))


async def test_half_message_and_its_commit(peer: ScriptedPeer) -> None:
    """C106, C107, C113."""
    async with producing(peer) as producer:
        async with producer.transaction(MESSAGE) as transaction:
            assert not peer.requests(END)
        (sent,), (ended,) = peer.requests(SEND), await peer.wait_for(END)
        assert sent.ext["f"] == "4"
        properties = parse_properties(sent.ext["i"])
        assert (properties["TRAN_MSG"], properties["PGROUP"], properties["TAGS"]) == ("true", "P", "A")
        assert "DELAY" not in properties
        assert MESSAGE.properties.keys() == {"TAGS", "DELAY"}, "the application's message stays as it is"
        assert ended.command.is_oneway
        place = OffsetMessageId.parse(transaction.receipt.offset_message_id)
        assert {name: ended.ext[name] for name in ("producerGroup", "commitOrRollback", "fromTransactionCheck")} == {
            "producerGroup": "P",
            "commitOrRollback": "8",
            "fromTransactionCheck": "false",
        }
        assert ended.ext["commitLogOffset"] == str(place.log_offset)
        assert ended.ext["tranStateTableOffset"] == str(transaction.receipt.queue_offset)
        assert (ended.ext["msgId"], ended.ext["topic"]) == (properties["UNIQ_KEY"], "T")


@pytest.mark.parametrize(("state", "value"), [(COMMIT, "8"), (ROLLBACK, "12"), (UNKNOWN, "0"), (None, "0")])
async def test_what_the_work_returns_is_told(peer: ScriptedPeer, state: TransactionState | None, value: str) -> None:
    """C107."""
    seen: list[Transaction] = []

    def work(transaction: Transaction) -> TransactionState | None:
        seen.append(transaction)
        return state

    async with producing(peer) as producer:
        receipt = await producer.send_in_transaction(MESSAGE, work)
        (ended,) = await peer.wait_for(END)
        assert ended.ext["commitOrRollback"] == value
        assert receipt.state is (state or UNKNOWN)
        assert seen[0].transaction_id == receipt.transaction_id
        assert (receipt.error, ended.command.remark) == (None, None)


async def test_work_that_raises_leaves_the_transaction_open(peer: ScriptedPeer) -> None:
    """C108."""

    async def work(transaction: Transaction) -> TransactionState:
        raise WrongError("no money")

    async with producing(peer) as producer:
        receipt = await producer.send_in_transaction(MESSAGE, work)
        (ended,) = await peer.wait_for(END)
        assert (receipt.state, str(receipt.error)) == (UNKNOWN, "no money")
        assert (ended.ext["commitOrRollback"], ended.command.remark) == ("0", "WrongError: no money")


async def test_half_message_that_is_not_safe_is_rolled_back(peer: ScriptedPeer) -> None:
    """C109."""
    fields = {"msgId": "7F00000100002A9F0000000000000005", "queueId": "0", "queueOffset": "3"}
    peer.on(SEND).default().reply(fields, code=ResponseCode.FLUSH_DISK_TIMEOUT)
    async with producing(peer) as producer:
        receipt = await producer.send_in_transaction(MESSAGE, lambda _: pytest.fail("it is not done"))
        assert receipt.state is ROLLBACK
        with pytest.raises(TransactionError, match="FLUSH_DISK_TIMEOUT"):
            async with producer.transaction(MESSAGE):
                pytest.fail("nor is this")
        ends = await peer.wait_for(END, 2)
        assert [one.ext["commitOrRollback"] for one in ends] == ["12", "12"]
        assert ends[0].ext["commitLogOffset"] == "5"


async def test_half_message_that_cannot_be_sent(peer: ScriptedPeer) -> None:
    """C110."""
    peer.on(SEND).default().reply(code=ResponseCode.MESSAGE_ILLEGAL, remark="no")
    async with producing(peer) as producer:
        with pytest.raises(RefusedMessageError):
            await producer.send_in_transaction(MESSAGE, lambda _: pytest.fail("it is not done"))
        with pytest.raises(RefusedMessageError):
            async with producer.transaction(MESSAGE):
                pytest.fail("nor is this")
        await settled()
        assert not peer.requests(END)


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_question_is_answered_where_it_came_from(peer: ScriptedPeer, is_coroutine: bool) -> None:
    """C111."""
    seen: list[ReceivedMessage] = []

    def check(half: ReceivedMessage) -> TransactionState:
        seen.append(half)
        return COMMIT

    async def check_later(half: ReceivedMessage) -> TransactionState:
        await asyncio.sleep(0)
        return check(half)

    async with producing(peer, check_later if is_coroutine else check):
        await ask(peer)
        (ended,) = await peer.wait_for(END)
        (half,) = seen
        assert (half.topic, half.body, list(half.keys), half.transaction_id) == ("T", b"half", ["key"], "K")
        assert ended.command.is_oneway
        wanted = {
            "topic": HALF_TOPIC,
            "producerGroup": "P",
            "tranStateTableOffset": "7",
            "commitLogOffset": "4711",
            "commitOrRollback": "8",
            "fromTransactionCheck": "true",
            "msgId": "K",
            "transactionId": "K",
            "bname": "broker-a",
        }
        assert {name: ended.ext.get(name) for name in wanted} == wanted


async def test_question_of_another_group_is_ignored(peer: ScriptedPeer) -> None:
    """C112: and so is one to a producer that makes no transactions, and one that is no message."""
    async with producing(peer, lambda _: pytest.fail("it is another's")):
        await ask(peer, group="Q")
        await peer.tell(CHECK, CheckTransactionStateRequestHeader(tran_state_table_offset=0, commit_log_offset=0), b"?")
        assert (await peer.ask(4711)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert not peer.requests(END)


async def test_check_that_raises_or_returns_nonsense_leaves_it_open(peer: ScriptedPeer) -> None:
    def check(half: ReceivedMessage) -> TransactionState:
        if half.body == b"raises":
            raise WrongError("not now")
        if half.body == b"exits":
            raise SystemExit
        return "COMMIT"  # type: ignore[return-value]

    async with producing(peer, check):
        for body in (b"raises", b"exits", b"nonsense"):
            await ask(peer, body)
        ends = await peer.wait_for(END, 3)
        remarks = {one.command.remark for one in ends}
        assert remarks == {"WrongError: not now", "RuntimeError: SystemExit: ", None}
        assert [one.ext["commitOrRollback"] for one in ends] == ["0"] * 3


@pytest.mark.parametrize("returns", [True, False])
async def test_check_whose_outcome_cannot_be_printed_leaves_it_open(peer: ScriptedPeer, returns: bool) -> None:
    """The question stayed without an answer, and those that waited behind it, too."""

    def check(half: ReceivedMessage) -> TransactionState:
        if half.body == b"second":
            return COMMIT
        if returns:
            return UnreadableError()  # type: ignore[return-value]
        raise UnreadableError

    async with producing(peer, check, workers=1):
        for body in (b"first", b"second"):
            await ask(peer, body)
        ends = await peer.wait_for(END, 2)
        assert [one.ext["commitOrRollback"] for one in ends] == ["0", "8"]
        assert ends[0].command.remark == (None if returns else "UnreadableError")


async def test_error_that_cannot_be_printed_ends_the_transaction_as_any(peer: ScriptedPeer) -> None:
    """The broker was told nothing, and the application got another error than its own."""
    async with producing(peer) as producer:
        with pytest.raises(UnreadableError):
            async with producer.transaction(MESSAGE):
                raise UnreadableError
        (ended,) = await peer.wait_for(END)
        assert (ended.ext["commitOrRollback"], ended.command.remark) == ("12", "UnreadableError")


async def test_who_has_sent_nothing_is_known_to_brokers(peer: ScriptedPeer, clock: FakeClock) -> None:
    """A program that was started again after its death was not asked before its first message: by then, what it had
    left open could be given up."""
    peer.route(HALF_TOPIC)
    producer = TransactionProducer(peer.address, group="P", check=lambda _: COMMIT, clock=clock)
    async with producer:
        while not (beats := peer.requests(RequestCode.HEART_BEAT)):
            clock.advance(0.5)
            await settled()
        assert "P" in [told.group_name for told in beats[0].decoded(HeartbeatData).producer_data_set]


async def test_ends_are_signed(peer: ScriptedPeer) -> None:
    """Those of blocks, and answers to questions."""
    async with TransactionProducer(
        peer.address, group="P", check=lambda _: COMMIT, credentials=Credentials("key", "secret"), clock=peer.clock
    ) as producer:
        async with producer.transaction(MESSAGE):
            pass
        await peer.wait_for(END)
        await ask(peer)
        for ended in await peer.wait_for(END, 2):
            assert is_signed_with(ended.command, "secret")


async def test_checks_that_hang_are_given_up(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Further ones wait until then; whoever hangs in a thread stays there, and closing does not wait for it."""
    release, begun = threading.Event(), threading.Semaphore(0)

    def check(half: ReceivedMessage) -> TransactionState:
        if half.body == b"hangs":
            begun.release()
            release.wait()
        return COMMIT

    async with producing(peer, check, workers=1):
        await ask(peer, b"hangs")
        await in_background(begun.acquire)
        await ask(peer, b"waits")
        await settled()
        assert not peer.requests(END)
        clock.advance(30)
        ends = await peer.wait_for(END, 2)
        assert [one.ext["commitOrRollback"] for one in ends] == ["0", "8"]
        assert ends[0].command.remark == "the check function took more than 30 s"
    release.set()


async def test_coroutine_that_hangs_is_cancelled(peer: ScriptedPeer, clock: FakeClock) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def check(half: ReceivedMessage) -> TransactionState:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return COMMIT

    async with producing(peer, check):
        await ask(peer)
        await begun.wait()
        clock.advance(30)
        await cancelled.wait()
        assert (await peer.wait_for(END))[0].ext["commitOrRollback"] == "0"


async def test_too_many_questions_are_dropped(peer: ScriptedPeer) -> None:
    release = asyncio.Event()

    async def check(half: ReceivedMessage) -> TransactionState:
        await release.wait()
        return COMMIT

    async with producing(peer, check, workers=1):
        for _ in range(2010):
            await ask(peer)
        assert (await peer.ask(4711)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        release.set()
        await peer.wait_for(END, 2000)
        await settled()
        assert len(peer.requests(END)) <= 2002


async def test_broker_that_is_gone_is_not_told_and_nobody_suffers(peer: ScriptedPeer) -> None:
    async with producing(peer) as producer:
        async with producer.transaction(MESSAGE) as transaction:
            await peer.stop()
        assert transaction.state is COMMIT
        await peer.start()


@pytest.mark.parametrize(("has_decided", "value"), [(False, "0"), (True, "8")])
async def test_cancellation_leaves_it_open(peer: ScriptedPeer, has_decided: bool, value: str) -> None:
    """It may come in the midst of the commit of a database: rolled back, what was done there had no message."""
    async with producing(peer) as producer:
        entered = asyncio.Event()

        async def work() -> None:
            async with producer.transaction(MESSAGE) as transaction:
                if has_decided:
                    transaction.commit()
                entered.set()
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(work())
            await entered.wait()
            task.cancel()
        (ended,) = await peer.wait_for(END)
        assert (ended.ext["commitOrRollback"], ended.command.remark) == (value, "CancelledError: ")


@pytest.mark.parametrize(
    ("error", "value"), [(KeyboardInterrupt, "0"), (SystemExit, "0"), (GeneratorExit, "0"), (WrongError, "12")]
)
async def test_what_comes_from_outside_leaves_it_open(
    peer: ScriptedPeer, error: type[BaseException], value: str
) -> None:
    def work() -> TransactionState | None:
        with rocketline.TransactionProducer(peer.address, group="P", check=lambda _: COMMIT) as producer:
            with pytest.raises(error), producer.transaction(MESSAGE) as transaction:
                raise error
            return transaction.state

    assert await in_background(work) is (UNKNOWN if value == "0" else ROLLBACK)
    assert (await peer.wait_for(END))[0].ext["commitOrRollback"] == value


async def test_last_decision_holds_and_none_comes_too_late(peer: ScriptedPeer) -> None:
    """Behind the block nothing came of it, and nobody was told."""
    async with producing(peer) as producer:
        async with producer.transaction(MESSAGE) as outer, producer.transaction(MESSAGE) as inner:
            outer.commit()
            outer.rollback()
            outer.rollback()
            inner.leave_open()
        ends = await peer.wait_for(END, 2)
        assert [one.ext["commitOrRollback"] for one in ends] == ["0", "12"]
        for decide in (outer.commit, outer.rollback, inner.leave_open):
            with pytest.raises(TransactionOverError, match="is over"):
                decide()
        assert (outer.state, inner.state) == (ROLLBACK, UNKNOWN)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_work_that_decides_by_the_transaction(peer: ScriptedPeer, raises: bool, is_blocking: bool) -> None:
    """What it returned, None, left the transaction open."""

    def work(transaction: Transaction) -> TransactionState | None:
        transaction.commit()
        if raises:
            raise WrongError
        return None

    def send() -> rocketline.TransactionReceipt:
        with rocketline.TransactionProducer(peer.address, group="P", check=lambda _: COMMIT) as blocking:
            return blocking.send_in_transaction(MESSAGE, work)

    if is_blocking:
        receipt = await in_background(send)
    else:
        async with producing(peer) as producer:
            receipt = await producer.send_in_transaction(MESSAGE, work)
    assert (receipt.state, isinstance(receipt.error, WrongError)) == (COMMIT, raises)
    assert (await peer.wait_for(END))[0].ext["commitOrRollback"] == "8"


async def test_client_that_is_closed_in_the_block(peer: ScriptedPeer, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is told, which the log says; the broker asks another of the group."""
    async with producing(peer) as producer, producer.transaction(MESSAGE):
        await producer.close()

    def work() -> TransactionState | None:
        with rocketline.TransactionProducer(peer.address, group="P", check=lambda _: COMMIT) as blocking:
            with blocking.transaction(MESSAGE) as transaction:
                blocking.close()
            return transaction.state

    assert await in_background(work) is COMMIT
    assert not peer.requests(END)
    assert caplog.text.count("end of a transaction not told; the broker asks later") == 2


FORKING = """
import os, sys
from rocketline import Message, TransactionProducer
with TransactionProducer(sys.argv[1], group="P", check=None.__class__) as producer:
    with producer.transaction(Message("T", b"1")):
        child = os.fork()
        if child == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


async def test_forked_child_that_leaves_the_block_ends_nothing(peer: ScriptedPeer) -> None:
    """What the parent is still at must not be ended by its child, nor may that hang there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKING, peer.address, stderr=asyncio.subprocess.PIPE
    )
    complaints = (await process.communicate())[1]
    assert process.returncode == 0, complaints
    assert [one.ext["commitOrRollback"] for one in await peer.wait_for(END)] == ["8"]


async def test_checks_know_namespaces(peer: ScriptedPeer) -> None:
    """The group and the topic of a question have it; the check function sees neither with it, and its answer has it."""
    seen: list[str] = []

    def check(half: ReceivedMessage) -> TransactionState:
        seen.append(half.topic)
        return COMMIT

    peer.route("N%T")
    async with TransactionProducer(peer.address, group="P", namespace="N", check=check, clock=peer.clock) as producer:
        async with producer.transaction(MESSAGE) as transaction:
            transaction.rollback()
        (ended,) = await peer.wait_for(END)
        assert parse_properties(peer.requests(SEND)[0].ext["i"])["PGROUP"] == "N%P"
        assert (ended.ext["producerGroup"], ended.ext["topic"]) == ("N%P", "N%T")
        peer.forget()
        await ask(peer, topic="N%T", group="N%P")
        (ended,) = await peer.wait_for(END)
        assert (ended.ext["producerGroup"], ended.ext["commitOrRollback"], seen) == ("N%P", "8", ["T"])


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_check_whose_own_work_is_cancelled_leaves_it_open(
    peer: ScriptedPeer, error: type[BaseException], is_blocking: bool
) -> None:
    """The question stayed without an answer, those that waited behind it, too; `sys.exit` ended a blocking client."""

    async def check(half: ReceivedMessage) -> TransactionState:
        if half.body == b"first":
            raise error
        return COMMIT

    async def ask_twice() -> None:
        for body in (b"first", b"second"):
            await ask(peer, body)
        ends = await peer.wait_for(END, 2)
        assert [one.ext["commitOrRollback"] for one in ends] == ["0", "8"]

    if not is_blocking:
        async with producing(peer, check, workers=1):
            await ask_twice()
        return
    blocking = rocketline.TransactionProducer(peer.address, group="P", check=check, check_workers=1)
    await in_background(blocking.start)
    try:
        await in_background(lambda: blocking.send_in_transaction(MESSAGE, lambda _: COMMIT))
        await peer.wait_for(END)
        peer.forget()
        await ask_twice()
    finally:
        await in_background(blocking.close)


async def test_check_for_which_the_system_has_no_thread(peer: ScriptedPeer) -> None:
    """Sixty-eight of them, and none was begun any more."""
    async with producing(peer) as _:
        with patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            for _ in range(100):
                await ask(peer)
            ends = await peer.wait_for(END, 100)
        assert {one.command.remark for one in ends} == {"RuntimeError: can't start new thread"}
        await ask(peer)
        assert (await peer.wait_for(END, 101))[-1].ext["commitOrRollback"] == "8"


async def test_coroutine_for_the_work_that_exits_does_not_end_the_client(peer: ScriptedPeer) -> None:
    async def work(transaction: Transaction) -> TransactionState:
        raise SystemExit(3)

    def send() -> list[rocketline.TransactionReceipt]:
        with rocketline.TransactionProducer(peer.address, group="P", check=lambda _: COMMIT) as producer:
            return [producer.send_in_transaction(MESSAGE, work) for _ in range(2)]

    receipts = await in_background(send)
    assert [str(one.error) for one in receipts] == ["SystemExit: 3"] * 2
    assert [one.ext["commitOrRollback"] for one in await peer.wait_for(END, 2)] == ["0", "0"]


async def test_blocking_producer_says_the_same(peer: ScriptedPeer) -> None:
    def work() -> list[TransactionState]:
        producer = rocketline.TransactionProducer(peer.address, group="P", check=lambda _: COMMIT)
        with producer:
            with producer.transaction(MESSAGE) as transaction:
                pass
            with pytest.raises(WrongError), producer.transaction(MESSAGE) as failed:
                raise WrongError
            return [transaction.state or UNKNOWN, failed.state or UNKNOWN]

    assert await in_background(work) == [COMMIT, ROLLBACK]
    assert [one.ext["commitOrRollback"] for one in await peer.wait_for(END, 2)] == ["8", "12"]


async def test_what_cannot_be_a_transaction_is_refused(peer: ScriptedPeer) -> None:
    async with producing(peer) as producer:
        timed = Message.of("T", b"x", {"TIMER_DELAY_SEC": "5"})
        with pytest.raises(InvalidMessageError, match="cannot be delayed"):
            await producer.send_in_transaction(timed, lambda _: COMMIT)
        with pytest.raises(TypeError, match="one Message"):
            await producer.send_in_transaction([MESSAGE], lambda _: COMMIT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check is a function"):
        TransactionProducer(peer.address, group="P", check=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="check_workers=0"):
        TransactionProducer(peer.address, group="P", check=lambda _: COMMIT, check_workers=0)
