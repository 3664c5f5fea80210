from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.push.consume_request import Handler
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.replies import Reply, reply
from rocketline.model.subscription import MessageModel
from support.clients.consuming import RETRY_QUEUE, Bench, received


async def test_messages_come_in_order_and_one_at_a_time() -> None:
    """C184: strictly increasing offsets, never two calls at once for one queue."""
    seen: list[int] = []
    running = threading.Lock()

    def handle(message: ReceivedMessage) -> None:
        assert running.acquire(blocking=False)
        seen.append(message.queue_offset)
        running.release()

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        for start in range(0, 1000, 50):
            bench.pull(received(range(start, start + 50)))
            await asyncio.sleep(0)
        await bench.until(lambda: bench.offset == 1000)
    assert seen == list(range(1000))


async def test_coroutines_are_called_in_order_too() -> None:
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        seen.append(message.queue_offset)

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received(range(200)))
        await bench.until(lambda: bench.offset == 200)
    assert seen == list(range(200))


@pytest.mark.parametrize("outcome", [ConsumeResult.SUSPEND, ConsumeResult.RETRY_LATER, ValueError("no"), 42])
async def test_a_failed_message_comes_again_after_a_second_and_nothing_before_it(outcome: object) -> None:
    """C185: suspend, a retry, an exception and any other value are the same."""
    seen: list[tuple[int, int]] = []

    def handle(message: ReceivedMessage) -> object:
        seen.append((message.queue_offset, message.reconsume_times))
        if seen == [(0, 0), (1, 0)]:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return None

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received(range(3)))
        await bench.until(lambda: bench.offset == 1)
        await bench.advance(0.9)
        assert seen == [(0, 0), (1, 0)]
        await bench.advance(0.2)
        await bench.until(lambda: bench.offset == 3)
    assert seen == [(0, 0), (1, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(("wished_s", "pause_s"), [(0.005, 0.01), (100.0, 30.0), (2.0, 2.0)])
async def test_the_pause_is_the_handlers_within_bounds(wished_s: float, pause_s: float) -> None:
    """C186: 5 ms become 10 ms, 100 s become 30 s."""
    seen: list[int] = []

    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult | None:
        seen.append(message.queue_offset)
        context.suspend_s = wished_s
        return ConsumeResult.SUSPEND if len(seen) == 1 else None

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0]))
        await bench.until(lambda: len(seen) == 1 and bench.is_pausing)
        bench.lock()
        bench.clock.advance(pause_s * 0.9)
        await bench.settle()
        assert len(seen) == 1
        bench.lock()
        await bench.advance(pause_s * 0.2)
        await bench.until(lambda: bench.offset == 1)


async def test_a_message_that_failed_too_often_goes_to_the_dead_letters() -> None:
    """C187: after 4 deliveries with a maximum of 3; then the next message is delivered."""
    seen: list[int] = []

    def handle(message: ReceivedMessage) -> ConsumeResult | None:
        seen.append(message.queue_offset)
        return ConsumeResult.SUSPEND if message.queue_offset == 0 else None

    async with Bench(handle, orderly=True, reconsume_times_max=3) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        for count in range(1, 5):
            await bench.until(lambda count=count: seen.count(0) == count and bench.is_pausing)  # type: ignore[misc]
            await bench.advance(1)
        await bench.until(lambda: bench.offset == 2)
    assert seen == [0, 0, 0, 0, 1]
    assert bench.send_back.published == [0]


async def test_a_dead_letter_that_cannot_be_sent_is_consumed_again() -> None:
    seen: list[int] = []

    def handle(message: ReceivedMessage) -> ConsumeResult:
        seen.append(message.reconsume_times)
        return ConsumeResult.SUSPEND

    async with Bench(handle, orderly=True, reconsume_times_max=0) as bench:
        bench.send_back.fails = 1
        bench.lock()
        bench.pull(received([0]))
        await bench.until(lambda: not bench.send_back.fails)
        await bench.settle()
        await bench.advance(1)
        await bench.until(lambda: bench.offset == 1)
        assert seen == [0, 1]
        assert bench.send_back.published == [0]


async def test_a_dead_letter_is_sent_once_though_its_slice_is_consumed_again() -> None:
    calls = 0

    def handle(messages: Sequence[ReceivedMessage]) -> ConsumeResult | None:
        nonlocal calls
        calls += 1
        return ConsumeResult.SUSPEND if calls < 3 else None

    async with Bench(handle, orderly=True, reconsume_times_max=5, consume_batch_max=2) as bench:
        bench.lock()
        bench.pull([*received([0], reconsume_times=5), *received([1])])
        for count in (1, 2):
            await bench.until(lambda count=count: calls == count and bench.is_pausing)  # type: ignore[misc]
            await bench.advance(1)
        await bench.until(lambda: bench.offset == 2)
        assert bench.send_back.published == [0]


class Scripted:
    """A handler without auto-commit that returns what it is told, one after the other."""

    def __init__(self, *results: ConsumeResult) -> None:
        self.seen: list[int] = []
        self._results: Iterator[ConsumeResult] = iter(results)

    def __call__(self, message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult:
        context.is_auto_commit = False
        self.seen.append(message.queue_offset)
        return next(self._results)


async def test_without_auto_commit_the_offset_waits_for_commit() -> None:
    """C188: success, success, commit: the offset is committed once, after the third."""
    success, commit = ConsumeResult.SUCCESS, ConsumeResult.COMMIT
    handle = Scripted(success, success, commit)
    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        await bench.until(lambda: handle.seen == [0, 1])
        await bench.settle()
        assert bench.offset == -1
        bench.pull(received([2]))
        await bench.until(lambda: bench.offset == 3)


async def test_without_auto_commit_a_rollback_brings_all_that_was_not_committed() -> None:
    """C189: in order, after the pause."""
    success, commit = ConsumeResult.SUCCESS, ConsumeResult.COMMIT
    handle = Scripted(commit, success, ConsumeResult.ROLLBACK, success, success, commit)
    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received(range(4)))
        await bench.until(lambda: len(handle.seen) == 3 and bench.is_pausing)
        assert bench.offset == 1
        await bench.advance(1)
        await bench.until(lambda: bench.offset == 4)
    assert handle.seen == [0, 1, 2, 1, 2, 3]


async def test_without_auto_commit_a_suspended_message_comes_again_and_keeps_what_was_before() -> None:
    success, suspend, commit = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND, ConsumeResult.COMMIT
    handle = Scripted(success, suspend, commit)
    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        await bench.until(lambda: len(handle.seen) == 2 and bench.is_pausing)
        await bench.advance(1)
        await bench.until(lambda: bench.offset == 2)
    assert handle.seen == [0, 1, 1]


@pytest.mark.parametrize("result", [ConsumeResult.COMMIT, ConsumeResult.ROLLBACK])
async def test_with_auto_commit_commit_and_rollback_are_success(result: ConsumeResult) -> None:
    async with Bench(lambda message: result, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        await bench.until(lambda: bench.offset == 2)


async def test_a_queue_whose_lock_is_missing_waits_until_it_is_locked_again() -> None:
    """C183: it is asked for after 100 ms; refused, after 3 s more."""
    seen: list[int] = []
    async with Bench(lambda message: seen.append(message.queue_offset), orderly=True) as bench:
        bench.locks.grants = False
        bench.pull(received([0]))
        await bench.advance(0.1)
        assert len(bench.locks.asked) == 1
        bench.locks.grants = True
        await bench.advance(3)
        assert seen == []
        await bench.advance(0.1)
        assert len(bench.locks.asked) == 2
        await bench.advance(0.01)
        await bench.until(lambda: bench.offset == 1)


async def test_consumption_stops_before_the_next_message_when_the_lock_is_lost() -> None:
    """C183: also in the middle of what a thread was given at once."""
    seen: list[int] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        if message.queue_offset == 1:
            bench.process_queue.is_locked = False

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received(range(10)))
        await bench.until(lambda: bench.offset == 2)
        await bench.settle()
        assert seen == [0, 1]
        await bench.advance(0.1)
        await bench.advance(0.01)
        await bench.until(lambda: bench.offset == 10)
    assert seen == list(range(10))


async def test_an_old_lock_is_no_lock() -> None:
    async with Bench(lambda message: None, orderly=True) as bench:
        bench.lock()
        bench.clock.advance(30.1)
        bench.pull(received([0]))
        await bench.settle()
        assert bench.offset == -1
        await bench.advance(0.1)
        await bench.advance(0.01)
        await bench.until(lambda: bench.offset == 1)


async def test_broadcasting_needs_no_lock() -> None:
    async with Bench(lambda message: None, orderly=True, message_model=MessageModel.BROADCASTING) as bench:
        bench.pull(received([0]))
        await bench.until(lambda: bench.offset == 1)
        assert bench.locks.asked == []


async def test_a_lost_queue_is_marked_busy_until_its_handler_ends_and_its_result_is_discarded() -> None:
    """C190: whoever would unlock the queue can see that a call is under way."""
    gate, begun = threading.Event(), threading.Event()

    def handle(message: ReceivedMessage) -> None:
        begun.set()
        gate.wait()

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        await bench.until(begun.is_set)
        bench.process_queue.is_dropped = True
        assert not bench.process_queue.idle.is_set()
        gate.set()
        await bench.until(bench.process_queue.idle.is_set)
        assert bench.offset == -1


async def test_a_queue_taken_anew_waits_for_the_handler_of_its_former_life() -> None:
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        gate.wait()

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0]))
        await bench.until(lambda: seen == [0])
        bench.process_queue.is_dropped = True
        bench.process_queue = ProcessQueue(bench.clock.monotonic())
        bench.lock()
        bench.pull(received([0]))
        await bench.settle()
        assert seen == [0]
        gate.set()
        await bench.until(lambda: bench.offset == 1)
    assert seen == [0, 0]


async def test_retried_messages_of_several_topics_keep_their_order() -> None:
    seen: list[str] = []

    async def handle_bill(message: ReceivedMessage) -> None:
        seen.append(f"bill {message.queue_offset}")

    async with Bench(lambda message: seen.append(f"order {message.queue_offset}"), orderly=True) as bench:
        bench.handlers.put("bills", Handler(handle_bill, is_batch=False))
        bench.lock()
        orders = received([0, 2], queue=RETRY_QUEUE, RETRY_TOPIC="orders")
        bills = received([1, 3], queue=RETRY_QUEUE, RETRY_TOPIC="bills")
        mixed = [message for pair in zip(orders, bills, strict=True) for message in pair]
        bench.pull(mixed, RETRY_QUEUE)
        await bench.until(lambda: bench.offsets.cached(RETRY_QUEUE) == 4)
    assert seen == ["order 0", "bill 1", "order 2", "bill 3"]


async def test_closing_waits_for_the_handler_and_begins_no_further_message() -> None:
    """C200, C201."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        gate.wait()

    async with Bench(handle, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0, 1]))
        await bench.until(lambda: seen == [0])
        async with asyncio.TaskGroup() as group:
            group.create_task(bench.orderly.close(5))
            await bench.settle()
            gate.set()
        assert bench.offset == 1
    assert seen == [0]


@pytest.mark.parametrize("is_async", [False, True])
async def test_replies_are_sent_in_order_each_before_the_next_message(is_async: bool) -> None:
    """C117."""
    seen: list[int] = []

    def handle(message: ReceivedMessage) -> Reply | None:
        seen.append(message.queue_offset)
        return reply(message, message.body) if message.queue_offset % 3 else None

    async def handle_async(message: ReceivedMessage) -> Reply | None:
        return handle(message)

    asked = received(range(9), CLUSTER="C", CORRELATION_ID="id", REPLY_TO_CLIENT="me", TTL="3000")
    async with Bench(handle_async if is_async else handle, orderly=True) as bench:
        bench.lock()
        bench.replies.gate.clear()
        bench.pull(asked)
        await bench.until(lambda: seen == [0, 1])
        await bench.settle()
        assert (seen, bench.offset) == ([0, 1], 1)
        bench.replies.gate.set()
        await bench.until(lambda: bench.offset == 9)
    assert seen == list(range(9))
    assert bench.replies.sent == [b"1", b"2", b"4", b"5", b"7", b"8"]


async def test_the_log_names_what_a_handler_returned(caplog: pytest.LogCaptureFixture) -> None:
    """False was logged as None, which means success."""
    async with Bench(lambda message: False, orderly=True) as bench:
        bench.lock()
        bench.pull(received([0]))
        await bench.until(lambda: "messages not consumed" in caplog.text)
    assert "returned False, which is no ConsumeResult" in caplog.text
    assert "its queue waits" in caplog.text
