"""Rocketline's clients under load, told what to do line by line: `python -m benchmarks.load.own NAMESERVERS`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from rocketline.client.aio.producer import Producer as AsyncProducer
from rocketline.client.aio.push_consumer import PushConsumer as AsyncPushConsumer
from rocketline.client.producer.options import ProducerKeywords
from rocketline.client.producer.receipts import SendStatus
from rocketline.client.push.options import PushKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.push_consumer import PushConsumer
from rocketline.client.sync.simple_consumer import SimpleConsumer
from rocketline.errors import RocketlineError
from rocketline.model.message import Message
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.net import loop

_FIRST: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_WORKERS: Final = 8
_OPTIONS: ProducerKeywords = {"send_timeout_s": 20.0, "trace": "ROCKETLINE_TRACED" in os.environ}


class Load:
    """One command and what came of it."""

    def __init__(self, name_servers: str) -> None:
        self._name_servers = name_servers
        self._messages = self._failures = 0
        self._problem = ""

    def run(self, command: str, *words: str) -> dict[str, Any]:
        match command:
            case "send":
                seconds = self._send(*words)
            case "consume":
                seconds = self._consume(*words)
            case "pop":
                seconds = self._consume(*words, pops=True)
            case "simple":
                seconds = self._receive(*words)
            case _:
                seconds = loop.run(self._consume_on_loop(*words))
        return {
            "messages": self._messages,
            "seconds": seconds,
            "failures": self._failures,
            "problem": self._problem,
        }

    def _send(self, topic: str, how: str, callers: str, seconds: str, body_bytes: str) -> float:
        body = bytes(int(body_bytes))
        if how == "sync":
            return self._blocking(topic, body, int(callers), float(seconds))
        return loop.run(self._asynchronous(topic, body, how, int(callers), float(seconds)))

    def _fail(self, error: Exception) -> None:
        self._failures += 1
        self._problem = self._problem or repr(error)

    # --- threads

    def _blocking(self, topic: str, body: bytes, callers: int, seconds: float) -> float:
        counts = [0] * callers

        def call(number: int, producer: Producer, end_s: float) -> None:
            while time.perf_counter() < end_s:
                try:
                    counts[number] += producer.send(Message(topic, body)).status is SendStatus.SEND_OK
                except RocketlineError as error:
                    self._fail(error)

        with Producer(self._name_servers, group="load-sync", **_OPTIONS) as producer:
            producer.send(Message(topic, body))
            start_s = time.perf_counter()
            threads = [
                threading.Thread(target=call, args=(number, producer, start_s + seconds)) for number in range(callers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took_s = time.perf_counter() - start_s
        self._messages = sum(counts)
        return took_s

    # --- asyncio

    async def _asynchronous(self, topic: str, body: bytes, how: str, callers: int, seconds: float) -> float:
        async with AsyncProducer(self._name_servers, group=f"load-{how}", **_OPTIONS) as producer:
            await producer.send(Message(topic, body))
            start_s = time.perf_counter()
            if how == "async":
                await self._in_flight(producer, topic, body, callers, start_s + seconds)
            else:
                async with asyncio.TaskGroup() as group:
                    for _ in range(callers):
                        group.create_task(self._call(producer, topic, body, start_s + seconds))
            return time.perf_counter() - start_s

    async def _call(self, producer: AsyncProducer, topic: str, body: bytes, end_s: float) -> None:
        while time.perf_counter() < end_s:
            try:
                receipt = await producer.send(Message(topic, body))
            except RocketlineError as error:
                self._fail(error)
            else:
                self._messages += receipt.status is SendStatus.SEND_OK

    async def _in_flight(self, producer: AsyncProducer, topic: str, body: bytes, window: int, end_s: float) -> None:
        """Keep `window` messages on their way: each answer makes room for the next message."""
        finished = asyncio.Event()
        open_count = 0

        def done(receipt: asyncio.Future[Any]) -> None:
            nonlocal open_count
            error = receipt.exception()
            if error is None:
                self._messages += receipt.result().status is SendStatus.SEND_OK
            else:
                assert isinstance(error, Exception)
                self._fail(error)
            open_count -= 1
            if time.perf_counter() < end_s:
                send()
            elif not open_count:
                finished.set()

        def send() -> None:
            nonlocal open_count
            open_count += 1
            producer.send_soon(Message(topic, body)).add_done_callback(done)

        for _ in range(window):
            send()
        await finished.wait()

    # --- consuming

    def _consume(self, topic: str, group: str, batch: str, count: str, timeout_s: str, *, pops: bool = False) -> float:
        wanted, all_came = int(count), threading.Event()
        taken, times = itertools.count(1), [0.0, 0.0]

        def note(number: int) -> None:
            if number >= wanted and not all_came.is_set():
                times[1] = time.perf_counter()
                all_came.set()

        def take(message: ReceivedMessage) -> None:
            times[0] = times[0] or time.perf_counter()
            number = next(taken)
            if number >= wanted:
                note(number)

        lock, total = threading.Lock(), 0

        def take_batch(messages: Sequence[ReceivedMessage]) -> None:
            nonlocal total
            times[0] = times[0] or time.perf_counter()
            with lock:
                total += len(messages)
            note(total)

        batch_max = int(batch)
        options: PushKeywords = {"consume_batch_max": batch_max}
        if pops:
            options["client_rebalance"], options["consume_from"] = False, _FIRST
        with PushConsumer(self._name_servers, group=group, **options) as consumer:
            consumer.subscribe(topic, "*", take_batch if batch_max > 1 else take)
            if not all_came.wait(float(timeout_s)):
                times[1] = time.perf_counter()
                self._fail(TimeoutError("not all messages came in time"))
        self._messages = total if batch_max > 1 else next(taken) - 1
        return times[1] - times[0]

    def _receive(self, topic: str, group: str, batch: str, count: str, timeout_s: str) -> float:
        """Threads that receive, and acknowledge what they have got."""
        lock, wanted, times = threading.Lock(), int(count), [0.0, 0.0]
        due_s = time.perf_counter() + float(timeout_s)

        def work(consumer: SimpleConsumer) -> None:
            while self._messages < wanted and time.perf_counter() < due_s:
                try:
                    messages = consumer.receive(int(batch), wait_s=1)
                    consumer.ack(messages)
                except RocketlineError as error:
                    self._fail(error)
                    return
                with lock:
                    times[0] = times[0] or time.perf_counter()
                    self._messages += len(messages)

        with SimpleConsumer(self._name_servers, group=group, consume_from=_FIRST) as consumer:
            consumer.subscribe(topic)
            threads = [threading.Thread(target=work, args=(consumer,)) for _ in range(_WORKERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            times[1] = time.perf_counter()
        if self._messages < wanted:
            self._fail(TimeoutError("not all messages came in time"))
        return times[1] - times[0]

    async def _consume_on_loop(self, topic: str, group: str, batch: str, count: str, timeout_s: str) -> float:
        wanted, all_came = int(count), asyncio.Event()
        start_s = end_s = 0.0

        async def take(message: ReceivedMessage) -> None:
            await take_batch((message,))

        async def take_batch(messages: Sequence[ReceivedMessage]) -> None:
            nonlocal start_s, end_s
            start_s = start_s or time.perf_counter()
            self._messages += len(messages)
            if self._messages >= wanted and not end_s:
                end_s = time.perf_counter()
                all_came.set()

        batch_max = int(batch)
        async with AsyncPushConsumer(self._name_servers, group=group, consume_batch_max=batch_max) as consumer:
            consumer.subscribe(topic, "*", take_batch if batch_max > 1 else take)
            try:
                await asyncio.wait_for(all_came.wait(), float(timeout_s))
            except TimeoutError:
                end_s = time.perf_counter()
                self._fail(TimeoutError("not all messages came in time"))
        return end_s - start_s


def main() -> None:
    """Do what the lines say."""
    for line in sys.stdin:
        print(json.dumps(Load(sys.argv[1]).run(*line.split())), flush=True)


if __name__ == "__main__":
    main()
