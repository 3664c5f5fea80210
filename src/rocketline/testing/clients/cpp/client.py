"""Sends and consumes numbered messages with Apache's C++ client, through its Python binding (`rocketmq` on PyPI):

    send NAMESERVERS TOPIC KIND:FIRST:COUNT:FAILURES…
    consume NAMESERVERS TOPIC GROUP MODE EXPRESSION COUNT SECONDS

Prints one line of JSON. A message's body is its number and how often its consumer shall fail, such as 17/0. Runs in an
environment of its own, which has the binding and lacks Rocketline.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

MOMENT_S = 1
ROUTE_ATTEMPTS = 5
IN_FLIGHT = 32
CONSUME_SUCCESS, RECONSUME_LATER = 0, 1


class Sender:
    """Sends portions of numbers and counts what became of them."""

    def __init__(self, binding: Any, name_servers: str, topic: str) -> None:
        self._binding, self._topic = binding, topic
        self._producer = binding.Producer(f"senders-{topic}", timeout=10_000)
        self._producer.set_namesrv_addr(name_servers)
        self._sent = 0
        self._problems: list[str] = []

    def run(self, *portions: str) -> dict[str, Any]:
        self._producer.start()
        for portion in portions:
            kind, *numbers = portion.split(":")
            first, count, failures = map(int, numbers)
            messages = [self._message(kind, number, failures) for number in range(first, first + count)]
            self._async(messages) if kind == "async" else self._each(kind, messages, first)
        self._producer.shutdown()
        return {"sent": self._sent, "failed": len(self._problems), "problem": "".join(self._problems[:1])}

    def _message(self, kind: str, number: int, failures: int) -> Any:
        message = self._binding.Message(self._topic)
        body = f"{number}/{failures}"
        message.set_body(body.ljust(5000) if number % 100 == 50 else body)  # beyond 4,096 bytes a producer compresses
        message.set_tags("odd" if number % 2 else "even")
        message.set_keys(f"k{number}")
        if kind == "delayed":
            message.set_delay_time_level(1)
        return message

    def _each(self, kind: str, messages: list[Any], first: int) -> None:
        for number, message in enumerate(messages, first):
            if kind == "oneway":
                self._routed(self._producer.send_oneway, message)
            elif kind == "ordered":
                self._routed(self._producer.send_orderly, message, number % 16)
            else:
                self._routed(self._producer.send_sync, message)
            self._sent += 1

    def _routed(self, send: Any, *arguments: Any) -> None:
        """Send; once more if the library had no route yet: it gives up when two of its threads ask at the same time.

        Such a message has not left the client, so it cannot come twice.
        """
        for _ in range(ROUTE_ATTEMPTS - 1):
            try:
                send(*arguments)
            except Exception as error:  # the binding's classes are known to its own environment only
                if "No route info" not in str(error):
                    raise
                threading.Event().wait(MOMENT_S)
            else:
                return
        send(*arguments)

    def _async(self, messages: list[Any]) -> None:
        free = threading.Semaphore(IN_FLIGHT)

        def note(*problem: str) -> None:
            self._problems += problem
            self._sent += not problem
            free.release()

        for message in messages:
            free.acquire()
            self._routed(self._producer.send_async, message, lambda _: note(), lambda problem: note(str(problem)))
        for _ in range(IN_FLIGHT):
            free.acquire()


class Receiver:
    """Takes deliveries, and fails where a message wants it."""

    def __init__(self, binding: Any, count: int) -> None:
        self._binding, self._count = binding, count
        self._deliveries: list[list[int]] = []
        self._complete = threading.Event()

    def run(
        self, name_servers: str, topic: str, group: str, mode: str, expression: str, timeout_s: float
    ) -> dict[str, Any]:
        consumer = self._binding.PushConsumer(group, orderly=mode == "orderly")
        consumer.set_namesrv_addr(name_servers)
        consumer.subscribe(topic, lambda message: None, expression)
        # The binding's own wrapper loses what its callback says: it raises, and the library takes that for success.
        consumer._register_callback(lambda _, handle: self._take(self._binding.RecvMessage(handle)))
        consumer.start()
        self._complete.wait(timeout_s)
        threading.Event().wait(MOMENT_S)
        consumer.shutdown()
        return {"deliveries": self._deliveries}

    def _take(self, message: Any) -> int:
        number, failures = map(int, message.body.split(b"/"))
        lag_ms = message.store_timestamp - message.born_timestamp
        times = message.reconsume_times
        self._deliveries.append([number, message.queue_id, message.queue_offset, times, lag_ms])
        if len(self._deliveries) >= self._count:
            self._complete.set()
        return RECONSUME_LATER if times < failures else CONSUME_SUCCESS


def main() -> None:
    binding = importlib.import_module("rocketmq.client")
    command, name_servers, topic, *rest = sys.argv[1:]
    if command == "send":
        result = Sender(binding, name_servers, topic).run(*rest)
    else:
        group, mode, expression, count, seconds = rest
        result = Receiver(binding, int(count)).run(name_servers, topic, group, mode, expression, float(seconds))
    sys.stdout.write(f"{json.dumps(result)}\n")
    sys.stdout.flush()
    os._exit(0)  # the library's threads make an ordinary end crash now and then


if __name__ == "__main__":
    main()
