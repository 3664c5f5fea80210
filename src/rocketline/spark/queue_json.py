"""A number for each queue, as users and checkpoints write it: topic, broker, queue, number.

{"orders": {"broker-a": {"0": 1200, "1": 1187}}}

Options that give offsets or times for each queue, and the offsets of a stream, all have this form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rocketline.model.queue import MessageQueue

QueueTable = dict[str, dict[str, dict[str, int]]]
"""As it is written in JSON."""
_QUEUE_ID_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


def table_of(numbers: Mapping[MessageQueue, int]) -> QueueTable:
    """The written form, always in the same order: Spark compares offsets by their text.

    >>> table_of({MessageQueue("t", "b", 10): 5, MessageQueue("t", "b", 9): 4})
    {'t': {'b': {'9': 4, '10': 5}}}
    """
    table: QueueTable = {}
    for queue in sorted(numbers):
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = numbers[queue]
    return table


def numbers_of(table: object) -> dict[MessageQueue, int]:
    """The reverse of `table_of`. Raises `ValueError` that says where it is wrong.

    >>> numbers_of({"t": {"b": {"0": "5"}}})
    Traceback (most recent call last):
    ValueError: queue 0 of broker 'b', topic 't': '5' is no whole number
    """
    numbers: dict[MessageQueue, int] = {}
    for topic, brokers in _object(table, "the whole").items():
        for broker, queues in _object(brokers, f"topic {topic!r}").items():
            for queue_text, number in _object(queues, f"broker {broker!r}, topic {topic!r}").items():
                queue = MessageQueue(topic, broker, _queue_id(queue_text, topic, broker))
                if isinstance(number, bool) or not isinstance(number, int) or not -_LONG_MAX <= number <= _LONG_MAX:
                    where = f"queue {queue_text} of broker {broker!r}, topic {topic!r}"
                    raise ValueError(f"{where}: {number!r} is no whole number")
                numbers[queue] = number
    return numbers


def parse_numbers(text: str) -> dict[MessageQueue, int]:
    """What a user wrote. Raises `ValueError` that says where it is wrong, or that it names no queue."""
    numbers = numbers_of(_json(text))
    if not numbers:
        raise ValueError("it names no queue")
    return numbers


def parse_assignment(text: str) -> tuple[MessageQueue, ...]:
    """Queues, as `{"orders": {"broker-a": [0, 1]}}`, each once and in order. Raises `ValueError`.

    >>> [queue.queue_id for queue in parse_assignment('{"t": {"b": [1, 0]}}')]
    [0, 1]
    """
    queues: set[MessageQueue] = set()
    for topic, brokers in _object(_json(text), "the whole").items():
        for broker, queue_ids in _object(brokers, f"topic {topic!r}").items():
            if not isinstance(queue_ids, list):
                raise ValueError(f"broker {broker!r}, topic {topic!r}: a list of queues is wanted, as [0, 1]")
            queues |= {MessageQueue(topic, broker, _queue_id(queue_id, topic, broker)) for queue_id in queue_ids}
    if not queues:
        raise ValueError("it names no queue")
    return tuple(sorted(queues))


def shown(queue: MessageQueue) -> str:
    """How messages name a queue."""
    return f"queue {queue.queue_id} of topic {queue.topic!r} on broker {queue.broker_name!r}"


def _queue_id(given: object, topic: str, broker: str) -> int:
    text = str(given)
    is_number = text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
    if isinstance(given, bool) or not is_number or int(text) > _QUEUE_ID_MAX:
        raise ValueError(f"broker {broker!r}, topic {topic!r}: {given!r} is no number of a queue")
    return int(text)


def _json(text: str) -> object:
    try:
        found: object = json.loads(text, object_pairs_hook=_without_doubles)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON lets the last of several win, and whoever wrote the first would never hear of it."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there more than once")
    return found


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: an object is wanted, as {{…}}, not {value!r}")
    return value
