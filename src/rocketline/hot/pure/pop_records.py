"""Writes what is noted of pops: the bodies of checkpoints and acknowledgements, as `wire.bodies` would, field by field.

There is one for every pop, and for what is acknowledged of it.
"""

from __future__ import annotations

from json.encoder import encode_basestring as quoted

from rocketline.wire.bodies.pop import AckMsg, PopCheckPoint


def checkpoint_body(point: PopCheckPoint) -> bytes:
    """What notes that messages were popped."""
    differences, times = point.queue_offset_diff, point.re_put_times
    return (
        f'{{"bm":{point.bit_map},{_text("bn", point.broker_name)}{_text("c", point.consumer_group)}'
        f'{_numbers("d", differences)}"it":{point.invisible_time},"n":{point.message_count},"pt":{point.pop_time},'
        f'"q":{point.queue_id},"reviveTime":{point.revive_time},"ro":{point.revive_offset},'
        f'{_text("rp", times)}"so":{point.start_offset},"sp":{"true" if point.suspend else "false"}'
        f"{_last('t', point.topic)}}}"
    ).encode("utf-8", "replace")


def ack_body(ack: AckMsg) -> bytes:
    """What notes that one or several of them were acknowledged."""
    return (
        f'{{"ao":{ack.ack_offset},{_numbers("aol", ack.ack_offset_list)}{_text("bn", ack.broker_name)}'
        f'{_text("c", ack.consumer_group)}"pt":{ack.pop_time},"q":{ack.queue_id},"so":{ack.start_offset}'
        f"{_last('t', ack.topic)}}}"
    ).encode("utf-8", "replace")


def _text(name: str, value: str | None) -> str:
    return f'"{name}":{quoted(value)},' if value is not None else ""


def _last(name: str, value: str | None) -> str:
    return f',"{name}":{quoted(value)}' if value is not None else ""


def _numbers(name: str, values: list[int] | None) -> str:
    return f'"{name}":{values},'.replace(" ", "") if values is not None else ""
