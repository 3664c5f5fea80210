from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from rocketline.client.consumer.hooks import ConsumeHookContext, ConsumeHooks
from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.push.consume_request import ConsumeRequest, Handler, HandlerCaller
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.push.handler_table import HandlerTable
from rocketline.client.received_message import ReceivedMessage
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from support.clients.consuming import QUEUE, RETRY_QUEUE, received


class Method:
    def handle(self, message: ReceivedMessage) -> None: ...

    def handle_with_context(self, message: ReceivedMessage, context: ConsumeContext) -> None: ...


class Callables:
    async def __call__(self, message: ReceivedMessage, context: ConsumeContext) -> None: ...


async def coroutine(message: ReceivedMessage) -> None: ...


def with_rest(message: ReceivedMessage, *rest: object, key: str = "") -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_context", "is_async"),
    [
        (lambda message: None, False, False),
        (lambda message, context: None, True, False),
        (lambda message, retries=3: None, False, False),
        (with_rest, False, False),
        (Method().handle, False, False),
        (Method().handle_with_context, True, False),
        (functools.partial(Method().handle_with_context, context=ConsumeContext(QUEUE)), False, False),
        (coroutine, False, True),
        (functools.partial(coroutine), False, True),
        (Callables(), True, True),
        ([].append, False, False),
    ],
)
def test_a_handler_is_called_as_it_is_written(
    function: Callable[..., Any], takes_context: bool, is_async: bool
) -> None:
    handler = Handler(function, is_batch=False)
    assert (handler.takes_context, handler.is_async) == (takes_context, is_async)


def test_what_cannot_be_called_is_no_handler() -> None:
    with pytest.raises(TypeError, match="a handler is a function"):
        Handler("handle", is_batch=False)  # type: ignore[arg-type]


def calls(clock: FakeClock, *hooks: Any) -> HandlerCaller:
    return HandlerCaller("g", "", ConsumeHooks(hooks, Throttle(clock)), clock, 900.0)


def part_of(function: Callable[..., Any], clock: FakeClock, *, is_batch: bool = False) -> ConsumeRequest:
    messages = received([0, 1] if is_batch else [0])
    handler = Handler(function, is_batch=is_batch)
    return ConsumeRequest(QUEUE, QUEUE, ProcessQueue(clock.monotonic()), tuple(messages), handler)


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, ConsumeResult.SUCCESS),
        (ConsumeResult.RETRY_LATER, ConsumeResult.RETRY_LATER),
        (True, None),
        ("success", None),
        (0, None),
    ],
)
def test_none_is_success_and_any_other_value_is_javas_null(
    returned: object, result: ConsumeResult | None, clock: FakeClock
) -> None:
    request = part_of(lambda message: returned, clock)
    calls(clock).call(request)
    assert (request.result, request.error) == (result, None)


def test_even_the_end_of_the_thread_is_a_failure(clock: FakeClock) -> None:
    def leave(message: ReceivedMessage) -> None:
        raise SystemExit(1)

    request = part_of(leave, clock)
    calls(clock).call(request)
    assert request.result is None
    assert isinstance(request.error, SystemExit)


def test_a_handler_is_not_called_for_a_dropped_queue(clock: FakeClock) -> None:
    request = part_of(lambda message: 1 / 0, clock)
    request.process_queue.is_dropped = True
    calls(clock).call(request)
    assert request.started_s is None
    assert request.error is None


class _Hook:
    def __init__(self) -> None:
        self.return_types: list[str] = []

    def before_consume(self, context: ConsumeHookContext) -> None: ...

    def after_consume(self, context: ConsumeHookContext) -> None:
        self.return_types.append(context.return_type)
        raise RuntimeError("hooks may fail")


async def test_hooks_learn_that_a_handler_was_slow_or_raised(clock: FakeClock) -> None:
    hook = _Hook()
    slow = part_of(lambda message: clock.advance(901), clock)
    calls(clock, hook).call(slow)
    failing = part_of(lambda message: 1 / 0, clock)
    calls(clock, hook).call(failing)
    await calls(clock, hook).call_async(part_of(coroutine, clock))
    assert hook.return_types == ["TIME_OUT", "EXCEPTION", "SUCCESS"]
    assert slow.result is ConsumeResult.SUCCESS  # slow, and a success all the same


def test_messages_are_cut_into_slices_of_one_handler() -> None:
    handlers = HandlerTable("billing", "", 2)
    one, many = Handler(lambda message: None, is_batch=False), Handler(lambda messages: None, is_batch=True)
    handlers.put("orders", one)
    handlers.put("bills", many)
    process_queue: ProcessQueue[ReceivedMessage] = ProcessQueue(0.0)
    orders = handlers.requests(QUEUE, process_queue, received(range(3)))
    assert [(request.handler, len(request.messages)) for request in orders] == [(one, 1)] * 3
    bills = MessageQueue("bills", "broker-a", 0)
    cut = handlers.requests(bills, process_queue, received(range(3), queue=bills))
    assert [(request.handler, len(request.messages)) for request in cut] == [(many, 2), (many, 1)]
    mixed = received([0], queue=RETRY_QUEUE, RETRY_TOPIC="orders") + received(
        [1], queue=RETRY_QUEUE, RETRY_TOPIC="bills"
    )
    again = handlers.requests(RETRY_QUEUE, process_queue, mixed)
    assert [request.handler for request in again] == [one, many]
    assert [handlers.batch_max(topic) for topic in ("orders", "bills", RETRY_QUEUE.topic)] == [1, 2, 2]


def test_names_with_a_namespace_find_their_handler() -> None:
    handlers = HandlerTable("ns%billing", "ns", 1)
    handler = Handler(lambda message: None, is_batch=False)
    handlers.put("orders", handler)
    process_queue: ProcessQueue[ReceivedMessage] = ProcessQueue(0.0)
    queue = MessageQueue("ns%orders", "broker-a", 0)
    (request,) = handlers.requests(queue, process_queue, received([0], queue=queue))
    assert request.handler is handler
    retry = MessageQueue("%RETRY%ns%billing", "broker-a", 0)
    (request,) = handlers.requests(retry, process_queue, received([0], queue=retry, RETRY_TOPIC="ns%orders"))
    assert (request.handler, request.messages[0].topic) == (handler, "orders")


async def test_cancelled_work_that_a_handler_waited_for_is_a_failure_of_the_handler(clock: FakeClock) -> None:
    async def handle(message: ReceivedMessage) -> None:
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    request = part_of(handle, clock)
    await calls(clock).call_async(request)
    assert isinstance(request.error, asyncio.CancelledError)


async def test_cancelled_task_ends_with_its_handler(clock: FakeClock) -> None:
    async def handle(message: ReceivedMessage) -> None:
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(calls(clock).call_async(part_of(handle, clock)))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
