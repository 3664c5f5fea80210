"""Rocketline's own clients with the commands of the foreign ones.

send NAMESERVERS TOPIC KIND:FIRST:COUNT:FAILURES…
consume NAMESERVERS TOPIC GROUP MODE EXPRESSION COUNT SECONDS
watch NAMESERVERS TOPIC GROUP MODE EXPRESSION

Prints one line of JSON; watch prints one for each delivery. A body is a message's number and how often its consumer
shall fail, such as 17/0.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from rocketline import (
    CompressionType,
    ConsumeFromWhere,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageModel,
    Producer,
    PushConsumer,
    ReceivedMessage,
    aio,
    by_sql,
)
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.clock import SystemClock
from rocketline.errors import RocketlineError

_PATIENCE_S: Final = 20.0
"""For an answer. The default of three seconds is not enough for programs that start side by side on a busy machine."""
_MOMENT_S: Final = 1.0
_BATCH: Final = 50
_IN_FLIGHT: Final = 32
_SIZE_MIN: Final = 5000
_COMPRESSIONS: Final = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


def main(arguments: Sequence[str]) -> None:
    command, *rest = arguments
    commands: dict[str, Callable[[Sequence[str]], object]] = {"send": _send, "consume": _consume, "watch": _watch}
    _tell(commands[command](rest))


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


# --- numbered messages


def _message(topic: str, number: int, failures: int, *, delay_level: int = 0) -> Message:
    body = b"%d/%d" % (number, failures)
    if number % 100 == 50:  # beyond 4,096 bytes a producer compresses
        body = body.ljust(_SIZE_MIN)
    return Message(topic, body, tags=("even", "odd")[number % 2], keys=[f"k{number}"], delay_level=delay_level)


def _read(message: ReceivedMessage) -> tuple[int, int]:
    number, _, failures = message.body.partition(b"/")
    return int(number), int(failures)


# --- sending


class _Sent:
    def __init__(self) -> None:
        self.sent = self.failed = 0
        self.problem = ""

    def do(self, count: int, send: Callable[[], object]) -> None:
        try:
            send()
        except RocketlineError as error:
            self.count(count, error)
        else:
            self.count(count, None)

    def count(self, count: int, error: Exception | None) -> None:
        if error is None:
            self.sent += count
        else:
            self.failed += count
            self.problem = str(error)


def _send(arguments: Sequence[str]) -> dict[str, Any]:
    name_servers, topic, *portions = arguments
    sent = _Sent()
    # A send that is repeated after its time is up may be stored twice.
    with Producer(name_servers, group=f"senders-{topic}", send_timeout_s=_PATIENCE_S, retries=0) as producer:
        for portion in portions:
            kind, *three = portion.split(":")
            first, count, failures = map(int, three)
            numbers = range(first, first + count)
            if kind == "async":
                asyncio.run(_send_async(name_servers, topic, numbers, failures, sent))
            elif kind in _COMPRESSIONS:
                compression = _COMPRESSIONS[kind]
                with Producer(
                    name_servers,
                    group=f"{kind}-{topic}",
                    compression=compression,
                    send_timeout_s=_PATIENCE_S,
                    retries=0,
                ) as compressing:
                    _send_portion(compressing, "sync", topic, numbers, failures, sent)
            else:
                _send_portion(producer, kind, topic, numbers, failures, sent)
    return {"sent": sent.sent, "failed": sent.failed, "problem": sent.problem}


def _send_portion(producer: Producer, kind: str, topic: str, numbers: range, failures: int, sent: _Sent) -> None:
    messages = [_message(topic, number, failures, delay_level=int(kind == "delayed")) for number in numbers]
    queues = producer.queues(topic)
    if kind == "batch":
        for start in range(0, len(messages), _BATCH):
            batch = messages[start : start + _BATCH]
            sent.do(len(batch), partial(producer.send, batch))
        return
    for number, message in zip(numbers, messages, strict=True):
        match kind:
            case "sync" | "delayed":
                sent.do(1, partial(producer.send, message))
            case "oneway":
                sent.do(1, partial(producer.send_oneway, message))
            case "ordered":
                sent.do(1, partial(producer.send, message, queue=queues[number % len(queues)]))
            case _:
                raise ValueError(f"no such kind of send: {kind}")


async def _send_async(name_servers: str, topic: str, numbers: range, failures: int, sent: _Sent) -> None:
    """With so many in flight as the other programs have."""
    group = f"senders-{topic}"
    async with aio.Producer(name_servers, group=group, send_timeout_s=_PATIENCE_S, async_retries=0) as producer:
        for start in range(0, len(numbers), _IN_FLIGHT):
            flying = [producer.send_soon(_message(topic, number, failures)) for number in numbers[start:][:_IN_FLIGHT]]
            for result in await asyncio.gather(*flying, return_exceptions=True):
                sent.count(1, result if isinstance(result, Exception) else None)


# --- consuming


def _selector(expression: str) -> MessageSelector | str:
    """Tags, or an expression in SQL if `sql:` stands before it."""
    return by_sql(expression.removeprefix("sql:")) if expression.startswith("sql:") else expression


def _push_consumer(arguments: Sequence[str], take: Callable[[ReceivedMessage], bool]) -> PushConsumer:
    """Of NAMESERVERS TOPIC GROUP MODE EXPRESSION; `take` says whether the message is done."""
    name_servers, topic, group, mode, expression = arguments[:5]
    consumer = PushConsumer(
        name_servers,
        group=group,
        api_timeout_s=_PATIENCE_S,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        reconsume_times_max=1,
        orderly=mode == "orderly",
        message_model=MessageModel.BROADCASTING if mode == "broadcast" else MessageModel.CLUSTERING,
        client_rebalance=mode != "pop",
        instance_name=f"pid{os.getpid()}",
    )
    retry = ConsumeResult.SUSPEND if mode == "orderly" else ConsumeResult.RETRY_LATER
    consumer.subscribe(topic, _selector(expression), lambda message: None if take(message) else retry)
    return consumer


class _Deliveries:
    """What came, and whether it is enough."""

    def __init__(self, count: int, seconds: float) -> None:
        self.all: list[list[int]] = []
        self._count, self._deadline_s = count, time.monotonic() + seconds

    @property
    def is_done(self) -> bool:
        return len(self.all) >= self._count or time.monotonic() > self._deadline_s

    def take(self, message: ReceivedMessage) -> bool:
        number, failures = _read(message)
        lag_ms = message.store_ms - message.born_ms
        self.all.append([number, message.queue.queue_id, message.queue_offset, message.reconsume_times, lag_ms])
        return message.reconsume_times >= failures


def _consume(arguments: Sequence[str]) -> dict[str, Any]:
    deliveries = _Deliveries(int(arguments[5]), float(arguments[6]))
    if arguments[3] == "pull":
        _poll(arguments, deliveries)
    else:
        with _push_consumer(arguments, deliveries.take):
            while not deliveries.is_done:
                time.sleep(0.01)
            time.sleep(_MOMENT_S)
    return {"deliveries": deliveries.all}


def _poll(arguments: Sequence[str], deliveries: _Deliveries) -> None:
    name_servers, topic, group, _, expression = arguments[:5]
    with LitePullConsumer(
        name_servers,
        group=group,
        api_timeout_s=_PATIENCE_S,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ) as consumer:
        consumer.subscribe(topic, _selector(expression))
        is_last = False
        while not is_last:
            is_last = deliveries.is_done
            for message in consumer.poll(_MOMENT_S):
                deliveries.take(message)
        consumer.commit()


def _watch(arguments: Sequence[str]) -> str:
    lock = threading.Lock()

    def take(message: ReceivedMessage) -> bool:
        number, failures = _read(message)
        queue, now_ms = message.queue, SystemClock().wall_ms()
        with lock:
            _tell([number, queue.broker_name, queue.queue_id, message.queue_offset, message.reconsume_times, now_ms])
        return message.reconsume_times >= failures

    with _push_consumer(arguments, take):
        with lock:
            _tell("ready")
        sys.stdin.read()
    return "closed"


if __name__ == "__main__":
    main(sys.argv[1:])
