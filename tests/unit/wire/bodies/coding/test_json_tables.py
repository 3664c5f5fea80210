from __future__ import annotations

import json

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire.bodies.coding.json_tables import (
    ENTRY_CHARACTERS_MAX,
    Entry,
    NotStandardError,
    entries,
    quoted_integer_keys,
)


def test_entries_are_what_json_reads_however_many_there_are() -> None:
    table = {f"k{number}": {"n": number, "t": 'a "ü" \\ {,}:', "l": [1, -2.5, None, True]} for number in range(5000)}
    text = json.dumps({"a": 1, "t": table, "z": "end"}, indent=1)
    assert len(text) > 4 * ENTRY_CHARACTERS_MAX
    read = list(entries(text, {"t": {}}))
    assert {entry.key: entry.value for entry in read if entry.path == ("t",)} == table
    assert [entry[:3] for entry in read if not entry.path] == [((), "a", 1), ((), "z", "end")]
    assert [entry.end for entry in read] == sorted(entry.end for entry in read)
    assert text[read[-1].end - 5 : read[-1].end] == '"end"'


def test_tables_that_are_no_objects_are_values() -> None:
    assert list(entries('{"t":null,"u":[]}', {"t": {}, "u": {}})) == [
        Entry((), "t", None, 9),
        Entry((), "u", [], 16),
    ]
    assert list(entries(" { } ", {})) == []


@pytest.mark.parametrize(
    "text",
    ["", "1", "[]", "{", '{"a"}', '{"a":}', '{"a":1', '{"a":1,}', "{'a':1}", "{1:2}", '{"a":1}x', '{"a":{1:2}}', '{"'],
)
def test_what_json_refuses_is_refused(text: str) -> None:
    with pytest.raises(NotStandardError):
        list(entries(text, {"t": {}}))


@pytest.mark.parametrize("value", ['"' + "x" * ENTRY_CHARACTERS_MAX + '"', "1" * (ENTRY_CHARACTERS_MAX + 1)])
def test_entry_that_would_take_long_is_refused(value: str) -> None:
    with pytest.raises((NotStandardError, RemoteProtocolError)):
        list(entries(f'{{"a":{value},"b":{value}}}', {}))


def test_key_that_would_take_long_is_refused() -> None:
    with pytest.raises((NotStandardError, RemoteProtocolError)):
        list(entries('{"' + "k" * (16 * ENTRY_CHARACTERS_MAX) + '":1}', {}))


def test_nesting_beyond_all_bounds_is_refused() -> None:
    with pytest.raises((NotStandardError, RemoteProtocolError)):
        list(entries('{"a":' + "[" * 30_000 + "]" * 30_000 + "}", {}))


def test_bare_integer_keys_get_quotes_wherever_the_text_is_cut() -> None:
    table = {number: {-1: "x", 7: "y" * (number % 50)} for number in range(20_000)}
    bare = "{" + ",".join(f'{key}:{{-1:"x",7:"{value[7]}"}}' for key, value in table.items()) + "}"
    assert len(bare) > 4 * ENTRY_CHARACTERS_MAX
    pieces = list(quoted_integer_keys(bare))
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == json.loads(json.dumps(table))
