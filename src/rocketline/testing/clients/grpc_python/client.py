"""`client.py ENDPOINT AWAIT_SECONDS`: Apache's gRPC client for Python (`rocketmq-python-client` on PyPI).

Does what the lines of its standard input say, one after the other, each with a line of JSON for an answer.
`rocketline.testing.clients.grpc` tells which calls there are. Runs in an environment of its own, which has the client
and lacks Rocketline.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

PATIENCE_S = 20

Call = dict[str, Any]


class ApacheClients:
    """Producers and consumers, each made at its first use."""

    def __init__(self, library: Any, endpoint: str, await_s: int) -> None:
        self._library, self._await_s = library, await_s
        self._configuration = library.ClientConfiguration(endpoint, library.Credentials(), request_timeout=PATIENCE_S)
        self._producers: dict[str, Any] = {}
        self._consumers: dict[tuple[str, str], Any] = {}
        self._deliveries: dict[str, list[Call]] = {}
        self._held: dict[str, tuple[Any, Any]] = {}

    def answer(self, call: Call) -> Call:
        try:
            return {"answer": getattr(self, "_" + call.pop("call"))(**call)}
        except Exception as failure:  # noqa: BLE001  # whoever called is told
            return {"error": f"{type(failure).__name__}: {failure}"}

    def _send(self, topic: str, **message: Any) -> Call:
        return self._receipt(self._producer(topic).send(self._message(topic, **message)))

    def _transact(self, topic: str, end: str, **message: Any) -> Call:
        transaction = self._producer(topic).begin_transaction()
        receipt = self._producer(topic).send(self._message(topic, **message), transaction)
        if end in ("commit", "rollback"):
            getattr(transaction, end)()
        return self._receipt(receipt)

    def _recall(self, topic: str, handle: str) -> str:
        return str(self._producer(topic).recall_message(topic, handle))

    @staticmethod
    def _receipt(receipt: Any) -> Call:
        return {"id": receipt.message_id, "recall": receipt.recall_handle or ""}

    def _message(
        self,
        topic: str,
        body: str,
        tag: str | None = None,
        key: str | None = None,
        message_group: str | None = None,
        due_s: int | None = None,
        properties: dict[str, str] | None = None,
    ) -> Any:
        message = self._library.Message()
        message.topic, message.body = topic, body.encode()
        if tag is not None:
            message.tag = tag
        if key is not None:
            message.keys = key
        if message_group is not None:
            message.message_group = message_group
        if due_s is not None:
            message.delivery_timestamp = due_s
        for name, value in (properties or {}).items():
            message.add_property(name, value)
        return message

    def _producer(self, topic: str) -> Any:
        if topic not in self._producers:
            producer = self._library.Producer(self._configuration, (topic,), checker=self._checker())
            producer.startup()
            self._producers[topic] = producer
        return self._producers[topic]

    def _checker(self) -> Any:
        resolutions = self._library.TransactionResolution

        class Checker(self._library.TransactionChecker):  # type: ignore[misc, name-defined]
            def check(self, message: Any) -> Any:
                last = message.body.rpartition(b"/")[2]
                return {b"commit": resolutions.COMMIT, b"rollback": resolutions.ROLLBACK}.get(last)

        return Checker()

    def _receive(self, topic: str, group: str, tags: str, count: int, invisible_s: int) -> list[Call]:
        consumer = self._consumer(topic, group, tags)
        received = []
        for message in consumer.receive(count, invisible_s):
            self._held[f"{message.message_id}/{message.delivery_attempt}"] = (consumer, message)
            received.append(told(message))
        return received

    def _consumer(self, topic: str, group: str, tags: str) -> Any:
        if (topic, group) not in self._consumers:
            subscription = {topic: self._library.FilterExpression(tags)}
            consumer = self._library.SimpleConsumer(self._configuration, group, subscription, self._await_s)
            consumer.startup()
            # It does not wait for its settings, and the proxy turns a receive away that comes before them.
            assert consumer._init_settings_event.wait(PATIENCE_S), "no settings came"
            self._consumers[topic, group] = consumer
        return self._consumers[topic, group]

    def _ack(self, held: str) -> str:
        consumer, message = self._held[held]
        consumer.ack(message)
        return ""

    def _change(self, held: str, invisible_s: int) -> str:
        consumer, message = self._held[held]
        consumer.change_invisible_duration(message, invisible_s)
        return ""

    def _push(self, topic: str, group: str, tags: str) -> str:
        result, deliveries = self._library.ConsumeResult, self._deliveries.setdefault(topic, [])

        class Listener(self._library.MessageListener):  # type: ignore[misc, name-defined]
            def consume(self, message: Any) -> Any:
                deliveries.append(told(message))
                return result.FAILURE if fails(message, deliveries) else result.SUCCESS

        subscription = {topic: self._library.FilterExpression(tags)}
        self._library.PushConsumer(self._configuration, group, Listener(), subscription).startup()
        return ""

    def _pushed(self, topic: str) -> list[Call]:
        return self._deliveries[topic][:]


def told(message: Any) -> Call:
    return {
        "id": message.message_id,
        "body": message.body.decode(),
        "attempt": message.delivery_attempt,
        "tag": message.tag or "",
        "keys": sorted(message.keys),
        "message_group": message.message_group or "",
        "properties": message.properties,
        "time_ms": time.time_ns() // 1_000_000,
    }


def fails(message: Any, deliveries: list[Call]) -> bool:
    """A body such as 17/2 asks to fail at its first two deliveries, to this client or, if it knows, to others."""
    body = message.body.decode()
    times = len([one for one in deliveries if one["body"] == body])
    return max(times, int(message.delivery_attempt)) <= int(body.rpartition("/")[2])


def main(endpoint: str, await_s: str) -> None:
    client = ApacheClients(importlib.import_module("rocketmq"), endpoint, int(await_s))
    for line in sys.stdin:
        print(json.dumps(client.answer(json.loads(line))), flush=True)  # noqa: T201
    os._exit(0)  # a push consumer would wait for the end of its long poll


if __name__ == "__main__":
    main(*sys.argv[1:])
