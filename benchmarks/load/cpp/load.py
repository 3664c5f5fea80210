"""Apache's C++ client under load, through its Python binding, told what to do line by line: see load/__init__.py.

Runs in an environment of its own, which has the binding and lacks Rocketline. The binding has no window of its own for
asynchronous sends, so `async` keeps one here. Its consumer gets one message a call, whatever `batch` says.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import Any

CONSUME_SUCCESS = 0


class Load:
    """One command and what came of it."""

    def __init__(self, binding: Any, name_servers: str) -> None:
        self._binding, self._name_servers = binding, name_servers
        self._messages = self._failures = 0
        self._problem = ""

    def run(self, command: str, *words: str) -> dict[str, Any]:
        seconds = self._send(*words) if command == "send" else self._consume(*words)
        return {
            "messages": self._messages,
            "seconds": seconds,
            "failures": self._failures,
            "problem": self._problem,
        }

    def _send(self, topic: str, how: str, callers: str, seconds: str, body_bytes: str) -> float:
        producer = self._binding.Producer(f"load-{how}-{time.monotonic_ns()}", timeout=20_000)
        producer.set_namesrv_addr(self._name_servers)
        producer.start()
        body = "x" * int(body_bytes)  # it cuts bodies at the first zero
        producer.send_sync(self._message(topic, body))
        start_s = time.perf_counter()
        end_s = start_s + float(seconds)
        if how == "async":
            self._async(producer, topic, body, int(callers), end_s)
        else:
            self._blocking(producer, topic, body, int(callers), end_s)
        took_s = time.perf_counter() - start_s
        producer.shutdown()
        return took_s

    def _message(self, topic: str, body: str) -> Any:
        message = self._binding.Message(topic)
        message.set_body(body)
        return message

    def _blocking(self, producer: Any, topic: str, body: str, callers: int, end_s: float) -> None:
        counts = [0] * callers

        def call(number: int) -> None:
            while time.perf_counter() < end_s:
                try:
                    producer.send_sync(self._message(topic, body))
                    counts[number] += 1
                except Exception as error:  # noqa: BLE001  # whatever the binding raises counts as a failure
                    self._fail(str(error))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._messages = sum(counts)

    def _async(self, producer: Any, topic: str, body: str, window: int, end_s: float) -> None:
        free = threading.Semaphore(window)

        def done(*problem: str) -> None:
            self._messages += not problem
            for text in problem:
                self._fail(text)
            free.release()

        while time.perf_counter() < end_s:
            free.acquire()
            producer.send_async(self._message(topic, body), lambda _: done(), lambda error: done(str(error)))
        for _ in range(window):
            free.acquire()

    def _consume(self, topic: str, group: str, batch: str, count: str, timeout_s: str) -> float:
        wanted, times, all_came = int(count), [0.0, 0.0], threading.Event()

        def take(_: Any, handle: Any) -> int:
            self._binding.RecvMessage(handle)
            now_s = time.perf_counter()
            times[0] = times[0] or now_s
            self._messages += 1
            if self._messages == wanted:
                times[1] = now_s
                all_came.set()
            return CONSUME_SUCCESS

        consumer = self._binding.PushConsumer(group)
        consumer.set_namesrv_addr(self._name_servers)
        consumer.subscribe(topic, lambda message: None)
        consumer._register_callback(take)  # the binding's own wrapper raises where a callback says anything
        consumer.start()
        if not all_came.wait(float(timeout_s)):
            self._fail("not all messages came in time")
            times[1] = time.perf_counter()
        consumer.shutdown()
        return times[1] - times[0]

    def _fail(self, problem: str) -> None:
        self._failures += 1
        self._problem = self._problem or problem


def main() -> None:
    binding = importlib.import_module("rocketmq.client")
    for line in sys.stdin:
        print(json.dumps(Load(binding, sys.argv[1]).run(*line.split())), flush=True)
    os._exit(0)  # the library's threads do not always let it end


if __name__ == "__main__":
    main()
