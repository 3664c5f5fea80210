"""Small frames with a known meaning, which the Java codec reads the same way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command
from rocketline.wire.headers import SendMessageRequestHeaderV2, decode, encode
from support.golden import DATA

VECTORS: dict[str, dict[str, Any]] = json.loads((DATA / "vectors.json").read_text())


def command_of(vector: dict[str, Any]) -> Command:
    kind = SerializeType(bytes.fromhex(vector["hex"])[4])
    return Command(**vector["command"], body=vector.get("body", "").encode(), serialize_type=kind)


@pytest.mark.parametrize("name", VECTORS)
def test_frame_when_read_and_written_is_the_vector(name: str) -> None:
    data, command = bytes.fromhex(VECTORS[name]["hex"]), command_of(VECTORS[name])
    assert frame.decode(data) == command
    assert frame.encode(command) == data


def test_signed_send_when_read_by_its_header_has_every_field() -> None:
    command = command_of(VECTORS["K"])
    header = decode(SendMessageRequestHeaderV2, command.ext)
    assert (header.producer_group, header.born_timestamp, header.batch) == ("PG", 1700000000000, False)
    assert (header.properties, header.max_reconsume_times, header.target_broker) == (
        "TAGS\x01TagA\x02",
        None,
        "broker-a",
    )
    credentials = {name: command.ext[name] for name in ("AccessKey", "SecurityToken", "Signature")}
    assert credentials | encode(header) == command.ext
