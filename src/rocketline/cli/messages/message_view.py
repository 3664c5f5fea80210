"""A message for people, and for machines."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import click

from rocketline.cli.shared.output import Output, local_time

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage

COLUMNS = ["message_id", "topic", "broker", "queue", "queue_offset", "tags", "keys", "stored_ms", "body"]
_BODY_SHOWN = 60


def body_text(body: bytes, length_max: int | None = None) -> str:
    """The text of a body, or what it is if it is none.

    >>> body_text(b"a teapot"), body_text(bytes([255, 0, 1])), body_text(b"a long story", 6)
    ('a teapot', '<3 bytes>', 'a lon…')
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"<{len(body)} bytes>"
    if not (text.isprintable() or length_max is None):
        text = "".join(letter if letter.isprintable() else "·" for letter in text)
    return text if length_max is None or len(text) <= length_max else text[: length_max - 1] + "…"


def row(message: ReceivedMessage) -> list[object]:
    """One line of a table; its columns are `COLUMNS`."""
    queue = message.queue
    return [
        message.message_id,
        message.topic,
        queue.broker_name or None,
        queue.queue_id,
        message.queue_offset,
        message.tags,
        list(message.keys),
        message.store_ms,
        body_text(message.body, _BODY_SHOWN),
    ]


class MessageLines:
    """Messages one after the other, as they come: a line each, JSON, or nothing but the bodies."""

    def __init__(self, *, is_json: bool, is_body: bool) -> None:
        self._is_body, self._output = is_body, Output(is_json=is_json)

    def show(self, message: ReceivedMessage) -> None:
        if self._is_body:
            sys.stdout.buffer.write(message.body + b"\n")
        elif self._output.is_json:
            self._output.record(record(message))
        else:
            click.echo(line(message))
        sys.stdout.flush()


def line(message: ReceivedMessage) -> str:
    """When, where, what: for people who watch."""
    queue = message.queue
    place = f"{queue.broker_name}:{queue.queue_id}:{message.queue_offset}"
    marks = " ".join([*([f"[{message.tags}]"] if message.tags else []), *(f"#{key}" for key in message.keys)])
    return "  ".join(part for part in (local_time(message.store_ms), place, marks, body_text(message.body)) if part)


def record(message: ReceivedMessage) -> dict[str, object]:
    """All of it. A body that is no text is given as base64, under another name."""
    body = message.body
    try:
        content: dict[str, object] = {"body": body.decode()}
    except UnicodeDecodeError:
        content = {"body_base64": base64.b64encode(body).decode()}
    queue = message.queue
    return {
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "topic": message.topic,
        "broker": queue.broker_name or None,
        "queue": queue.queue_id,
        "queue_offset": message.queue_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "stored_ms": message.store_ms,
        "store_host": str(message.store_host),
        **content,
    }
