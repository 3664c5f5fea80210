"""Typed headers against the fields of recorded frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, Header, decode, encode
from support.golden import GoldenFrame, golden_frames

ANY_REQUEST = {"AccessKey", "Signature", "ReqT"}
"""Fields that any request may have; no header class names them."""
STORED = {0, 10, 11, 12, 19, 20, 21}
"""Codes whose answers carry their fields; a refusal may carry a part of them."""


def requests() -> Iterator[tuple[GoldenFrame, Command, type[Header]]]:
    for golden in golden_frames():
        command = frame.decode(golden.data)
        if not command.is_response and command.code in REQUEST_HEADERS:
            yield golden, command, REQUEST_HEADERS[command.code]


def answers() -> Iterator[tuple[GoldenFrame, Command, type[Header] | None]]:
    asked: dict[int, int] = {}
    for golden in golden_frames():
        command = frame.decode(golden.data)
        if not command.is_response:
            asked[golden.exchange] = command.code
        elif golden.exchange in asked:
            yield golden, command, RESPONSE_HEADERS.get(asked[golden.exchange])


def test_request_when_java_wrote_it_is_read_and_written_with_the_same_fields() -> None:
    seen = 0
    for golden, command, cls in requests():
        if not golden.is_probe:
            own = {name: value for name, value in command.ext.items() if name not in ANY_REQUEST}
            assert encode(decode(cls, command.ext)) == own, golden.what
            seen += 1
    assert seen > 60


def test_request_when_anyone_wrote_it_keeps_its_fields_or_names_the_missing_one() -> None:
    for golden, command, cls in requests():
        missing = {field.name for field in cls.reading if field.default is MISSING} - command.ext.keys()
        if not missing:
            own = {name: value for name, value in command.ext.items() if name not in ANY_REQUEST}
            assert encode(decode(cls, command.ext)).items() >= own.items(), golden.what
        else:
            with pytest.raises(RemoteProtocolError, match=f"the field ({'|'.join(missing)}) is missing"):
                decode(cls, command.ext)


def test_request_when_it_has_no_header_class_has_no_fields() -> None:
    known = set(RequestCode) - REQUEST_HEADERS.keys()
    for golden in golden_frames():
        command = frame.decode(golden.data)
        if not command.is_response and command.code in known:
            assert command.ext == {}, golden.what


def test_answer_when_it_succeeds_is_read_and_written_with_the_same_fields() -> None:
    seen = 0
    for golden, command, cls in answers():
        if cls is None:
            assert command.ext == {}, golden.what
        elif command.code in STORED:
            assert encode(decode(cls, command.ext)) == command.ext, golden.what
            seen += bool(command.ext)
    assert seen > 40
