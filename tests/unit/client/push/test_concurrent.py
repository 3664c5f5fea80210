from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.push.consume_request import Handler
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.replies import Reply, reply
from rocketline.model.subscription import MessageModel
from support.clients.consuming import RETRY_QUEUE, Bench, offsets_of, received


async def test_each_message_gets_a_call_and_up_to_as_many_run_as_there_are_threads() -> None:
    """C170: 32 messages pulled with a batch size of 1 are 32 calls of one message, up to 20 in parallel."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        gate.wait()

    async with Bench(handle) as bench:
        bench.pull(received(range(32)))
        await bench.until(lambda: len(seen) == 20)
        await bench.settle()
        assert len(seen) == 20
        gate.set()
        await bench.until(lambda: bench.offset == 32)
    assert sorted(seen) == list(range(32))


async def test_a_batch_handler_gets_slices_of_its_size() -> None:
    """C171: with a batch size of 10, 32 messages come as 10, 10, 10 and 2."""
    seen: list[int] = []
    async with Bench(lambda messages: seen.append(len(messages)), consume_batch_max=10) as bench:
        bench.pull(received(range(32)))
        await bench.until(lambda: bench.offset == 32)
    assert sorted(seen) == [2, 10, 10, 10]


@pytest.mark.parametrize("outcome", ["retry", "raise", "null"])
async def test_what_a_handler_fails_at_is_sent_back_and_the_offset_advances(outcome: str) -> None:
    """C172: retry later, an exception and any other value are sent back with level 0."""

    def handle(message: ReceivedMessage) -> object:
        if outcome == "raise":
            raise ValueError("no")
        return ConsumeResult.RETRY_LATER if outcome == "retry" else 42

    async with Bench(handle) as bench:
        bench.pull(received([7]))
        await bench.until(lambda: bench.offset == 8)
        assert bench.send_back.sent == [(7, 0)]
        assert bench.stats.of("orders").consume_failed.value == 1


async def test_messages_after_the_ack_index_are_sent_back() -> None:
    """C173: of four messages and an ack index of 1, the last two are sent back."""

    def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
        context.ack_index = 1

    async with Bench(handle, consume_batch_max=4) as bench:
        bench.pull(received(range(4)))
        await bench.until(lambda: bench.offset == 4)
        assert bench.send_back.sent == [(2, 0), (3, 0)]
        assert bench.stats.of("orders").consume_ok.value == 2


async def test_the_delay_level_of_the_context_goes_with_the_message() -> None:
    """C174: what the handler asks for is asked of the broker."""

    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult:
        context.delay_level = -1
        return ConsumeResult.RETRY_LATER

    async with Bench(handle) as bench:
        bench.pull(received([0]))
        await bench.until(lambda: bool(bench.send_back.sent))
        assert bench.send_back.sent == [(0, -1)]


async def test_what_cannot_be_sent_back_is_consumed_again_after_five_seconds() -> None:
    """C175: until then the offset does not pass it."""
    seen: list[tuple[int, int]] = []

    def handle(message: ReceivedMessage) -> ConsumeResult:
        seen.append((message.queue_offset, message.reconsume_times))
        return ConsumeResult.RETRY_LATER if message.queue_offset == 0 else ConsumeResult.SUCCESS

    async with Bench(handle) as bench:
        bench.send_back.fails = 1
        bench.pull(received([0, 1]))
        await bench.until(lambda: bench.offset == 0 and not bench.send_back.fails)
        await bench.settle()  # now the five seconds have begun
        await bench.advance(4.9)
        assert sorted(seen) == [(0, 0), (1, 0)]
        assert bench.offset == 0
        await bench.advance(0.2)
        await bench.until(lambda: bench.offset == 2)
        assert (0, 1) in seen
        assert bench.send_back.sent == [(0, 0)]


async def test_a_retried_message_shows_the_topic_that_it_was_sent_to() -> None:
    """C176, C56: messages of the retry topic get their own topic back, and that topic's handler."""
    seen: list[tuple[str, int]] = []
    async with Bench(lambda message: seen.append((message.topic, message.reconsume_times))) as bench:
        bench.pull(received([0], queue=RETRY_QUEUE, reconsume_times=2, RETRY_TOPIC="orders"), RETRY_QUEUE)
        await bench.until(lambda: bool(seen))
    assert seen == [("orders", 2)]


async def test_a_retried_message_without_a_handler_is_sent_back() -> None:
    async with Bench(lambda message: None) as bench:
        bench.pull(received([0], queue=RETRY_QUEUE, RETRY_TOPIC="bills"), RETRY_QUEUE)
        await bench.until(lambda: bool(bench.send_back.sent))


async def test_retried_messages_of_several_topics_go_to_their_own_handlers() -> None:
    seen: list[str] = []

    async def handle_bill(message: ReceivedMessage) -> None:
        seen.append(f"bill {message.queue_offset}")

    async with Bench(lambda message: seen.append(f"order {message.queue_offset}")) as bench:
        bench.handlers.put("bills", Handler(handle_bill, is_batch=False))
        orders = received([0, 1], queue=RETRY_QUEUE, RETRY_TOPIC="orders")
        bills = received([2, 3], queue=RETRY_QUEUE, RETRY_TOPIC="bills")
        bench.pull([*orders, *bills], RETRY_QUEUE)
        await bench.until(lambda: bench.offsets.cached(RETRY_QUEUE) == 4)
    assert sorted(seen) == ["bill 2", "bill 3", "order 0", "order 1"]


async def test_a_message_that_takes_too_long_is_sent_back_once() -> None:
    """C178: with level 3; others continue, and the late result sends nothing back."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> ConsumeResult:
        seen.append(message.queue_offset)
        if message.queue_offset == 0:
            gate.wait()
            return ConsumeResult.RETRY_LATER
        return ConsumeResult.SUCCESS

    async with Bench(handle, consume_timeout_s=60.0) as bench:
        owned = {bench.process_queue: None}
        bench.pull(received([0, 1]))
        await bench.until(lambda: 0 in seen and bench.offset == 0)
        await bench.concurrent.clean_expired({received([0])[0].queue: queue for queue in owned})
        assert bench.send_back.sent == []
        await bench.advance(61)
        await bench.concurrent.clean_expired({received([0])[0].queue: queue for queue in owned})
        assert bench.send_back.sent == [(0, 3)]
        bench.pull(received([2]))
        await bench.until(lambda: bench.offset == 3)
        gate.set()
        await bench.settle()
        assert bench.send_back.sent == [(0, 3)]


async def test_the_result_for_a_lost_queue_is_discarded() -> None:
    """C179: no send-back, no offset."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> ConsumeResult:
        seen.append(message.queue_offset)
        gate.wait()
        return ConsumeResult.RETRY_LATER

    async with Bench(handle, consume_threads=1) as bench:
        bench.pull(received([0, 1]))
        await bench.until(lambda: seen == [0])
        bench.process_queue.is_dropped = True
        gate.set()
        await bench.settle()
        assert seen == [0]
        assert bench.send_back.sent == []
        assert bench.offset == -1


async def test_a_handler_cannot_change_what_the_client_works_with() -> None:
    """C180: the sequence it gets cannot be changed."""

    def handle(messages: list[ReceivedMessage]) -> None:
        messages.clear()

    async with Bench(handle, consume_batch_max=2) as bench:
        bench.pull(received([0, 1]))
        await bench.until(lambda: bench.offset == 2)
        assert bench.send_back.sent == [(0, 0), (1, 0)]


async def test_the_offset_stays_below_what_is_unfinished() -> None:
    """C165: 12, 11, 10 finish in this order, and only then does the offset move, to 13."""
    gates = {offset: threading.Event() for offset in (10, 11, 12)}

    def handle(message: ReceivedMessage) -> None:
        gates[message.queue_offset].wait()

    async with Bench(handle) as bench:
        bench.pull(received([10, 11, 12]))
        gates[12].set()
        await bench.until(lambda: bench.process_queue.message_count == 2)
        gates[11].set()
        await bench.until(lambda: bench.process_queue.message_count == 1)
        assert bench.offset == 10
        gates[10].set()
        await bench.until(lambda: bench.offset == 13)


async def test_broadcasting_drops_what_fails() -> None:
    """C193: nothing is sent back, and the offset advances."""
    async with Bench(lambda message: 1 / 0, message_model=MessageModel.BROADCASTING) as bench:
        bench.pull(received([0]))
        await bench.until(lambda: bench.offset == 1)
        assert bench.send_back.sent == []


async def test_coroutines_are_handlers_too() -> None:
    running = 0
    most = 0

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return ConsumeResult.RETRY_LATER if message.queue_offset == 5 else None

    async with Bench(handle, consume_threads=8) as bench:
        bench.pull(received(range(32)))
        await bench.until(lambda: bench.offset == 32)
        assert most == 8
        assert bench.send_back.sent == [(5, 0)]


async def test_whoever_pulls_is_told_that_messages_are_done_with() -> None:
    async with Bench(lambda message: None) as bench:
        bench.pull(received([0]))
        await bench.until(lambda: bench.offset == 1)
        assert bench.progress


async def test_closing_waits_for_handlers_and_takes_their_results_in() -> None:
    """C200: what runs completes, and counts; C201: what has not begun never does."""
    gate, seen = threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        gate.wait()

    async with Bench(handle, consume_threads=1) as bench:
        bench.pull(received([0, 1]))
        await bench.until(lambda: seen == [0])
        async with asyncio.TaskGroup() as group:
            group.create_task(bench.concurrent.close(5))
            await bench.settle()
            gate.set()
        assert bench.offset == 1
        bench.pull(received([2]))
        await bench.settle()
        assert seen == [0]


async def test_closing_gives_up_on_handlers_that_do_not_end(caplog: pytest.LogCaptureFixture) -> None:
    begun, gate = threading.Event(), threading.Event()

    def handle(message: ReceivedMessage) -> None:
        begun.set()
        gate.wait()

    async with Bench(handle) as bench:
        bench.pull(received([0]))
        await bench.until(begun.is_set)
        await bench.concurrent.close(0.01)
        gate.set()
        await bench.settle()
        assert bench.offset == -1
    assert "closed with work under way" in caplog.text


class _Hook:
    def __init__(self) -> None:
        self.calls: list[tuple[str, bool, str, list[int]]] = []

    def before_consume(self, context: ConsumeHookContext) -> None:
        self.calls.append(("before", context.is_success, context.return_type, offsets_of(context.messages)))
        raise RuntimeError("hooks may fail")

    def after_consume(self, context: ConsumeHookContext) -> None:
        self.calls.append(("after", context.is_success, context.return_type, offsets_of(context.messages)))


@pytest.mark.parametrize(
    ("returned", "is_success", "return_type"),
    [(None, True, "SUCCESS"), (ConsumeResult.RETRY_LATER, False, "FAILED"), ("?", False, "RETURNNULL")],
)
async def test_hooks_see_what_a_handler_does(returned: object, is_success: bool, return_type: str) -> None:
    hook = _Hook()
    async with Bench(lambda message: returned, hooks=[hook]) as bench:
        bench.pull(received([3]))
        await bench.until(lambda: bench.offset == 4)
    assert hook.calls == [("before", False, "", [3]), ("after", is_success, return_type, [3])]


def requests(offsets: Sequence[int]) -> list[ReceivedMessage]:
    """Messages that somebody waits for an answer to."""
    return received(offsets, CLUSTER="C", CORRELATION_ID="id", REPLY_TO_CLIENT="me", TTL="3000")


async def test_a_message_counts_as_consumed_when_its_reply_is_sent() -> None:
    """C117: should the process die before, the message comes again, and is answered then."""
    async with Bench(lambda message: reply(message, b"re:" + message.body)) as bench:
        bench.replies.gate.clear()
        bench.pull(requests(range(3)))
        await bench.settle()
        assert bench.offset == -1
        bench.replies.gate.set()
        await bench.until(lambda: bench.offset == 3)
        assert sorted(bench.replies.sent) == [b"re:0", b"re:1", b"re:2"]
        assert bench.send_back.sent == []


async def test_a_batch_handler_replies_to_those_messages_that_it_likes() -> None:
    def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> list[Reply]:
        context.ack_index = 2
        return [reply(message, message.body) for message in messages[:2]]

    async with Bench(handle, consume_batch_max=4) as bench:
        bench.pull(requests(range(4)))
        await bench.until(lambda: bench.offset == 4)
        assert bench.replies.sent == [b"0", b"1"]
        assert bench.send_back.sent == [(3, 0)], "what the handler leaves out of its success comes again"


async def test_a_list_of_something_else_is_a_retry_and_replies_to_no_request_too() -> None:
    """C117."""
    async with Bench(lambda message: ["no reply"] if message.queue_offset else reply(message, b"x")) as bench:
        bench.pull(received(range(2)))
        await bench.until(lambda: bench.offset == 2)
        assert sorted(bench.send_back.sent) == [(0, 0), (1, 0)]
        assert bench.replies.sent == []


async def test_the_log_names_what_a_handler_returned(caplog: pytest.LogCaptureFixture) -> None:
    """False was logged as None, which means success."""
    async with Bench(lambda message: False) as bench:
        bench.pull(received([0]))
        await bench.until(lambda: bench.offset == 1)
    (told,) = [record.getMessage() for record in caplog.records if "messages not consumed" in record.getMessage()]
    assert "returned False, which is no ConsumeResult" in told


async def test_messages_that_a_handler_leaves_out_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Two of four were wanted again, and the log spoke of four that could not be consumed."""

    def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
        context.ack_index = 1

    async with Bench(handle, consume_batch_max=4) as bench:
        bench.pull(received(range(4)))
        await bench.until(lambda: bench.offset == 4)
    (told,) = [record for record in caplog.records if "messages" in record.getMessage()]
    assert told.levelname == "WARNING"
    assert "wants the last 2 of 4 again (ack_index)" in told.getMessage()
