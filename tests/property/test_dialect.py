"""The dialect for any value and any bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.wire.fastjson import parse, write, write_strict
from rocketline.wire.fastjson.parser import Pairs, parse_standard, parse_tolerantly

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
OBJECT_KEYS = st.dictionaries(TEXT, SCALARS, max_size=2) | st.lists(SCALARS, max_size=2)


def standard_containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    first, others = st.tuples(OBJECT_KEYS, values), st.lists(st.tuples(OBJECT_KEYS | TEXT, values), max_size=2)
    return standard_containers(values) | st.builds(lambda item, items: Pairs([item, *items]), first, others)


VALUES = st.recursive(SCALARS, containers, max_leaves=8)
STANDARD_VALUES = st.recursive(SCALARS, standard_containers, max_leaves=8)
PUNCTUATION = [*"{}[]:,\"'\\\n .@$0", "//", "/*", "*/", "\\u", "d800", "-1", "1.", "e9", "L"]
WORDS = ["a", "true", "null", "NaN", ".a", "[0]", "..", '"$ref"', '{"$ref":"$', '"}', "é", "\ufeff"]
FRAGMENTS = st.sampled_from([*PUNCTUATION, *WORDS])


def read_or_refuse(data: bytes) -> Any:
    try:
        return parse(data)
    except RemoteProtocolError:
        return None


@given(VALUES)
def test_value_when_written_and_parsed_is_the_same(value: Any) -> None:
    assert parse(write(value)) == value


@given(st.dictionaries(st.integers(), SCALARS, max_size=5))
def test_integer_keys_when_written_and_parsed_are_their_texts(value: dict[int, Any]) -> None:
    assert parse(write(value)) == {str(key): entry for key, entry in value.items()}


@given(STANDARD_VALUES)
def test_standard_value_when_written_strictly_is_read_by_any_json_parser(value: Any) -> None:
    assert json.loads(write_strict(value)) == parse(write_strict(value)) == value


@given(STANDARD_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_both_parsers_when_they_read_standard_json_agree(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_tolerantly(text) == parse_standard(text) == value


@given(st.lists(FRAGMENTS, max_size=30).map("".join))
@example("[0,1e5]")
@example('{"a":"\\ud800\\udc00"}')
def test_both_parsers_when_both_can_read_agree(text: str) -> None:
    try:
        standard = parse_standard(text)
    except ValueError:
        return
    assert parse_tolerantly(text) == standard


@given(st.lists(FRAGMENTS, max_size=40).map("".join))
def test_any_text_of_the_dialects_pieces_is_read_or_refused(text: str) -> None:
    read_or_refuse(text.encode())


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


@given(VALUES, st.data())
def test_text_when_cut_or_corrupted_anywhere_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    text = write(value)
    at = data.draw(st.integers(0, len(text) - 1))
    read_or_refuse(text[:at])
    read_or_refuse(text[:at] + bytes([data.draw(st.integers(0, 255))]) + text[at + 1 :])


@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.lists(FRAGMENTS, max_size=6).map("".join))
def test_document_with_any_reference_is_read_or_refused(document: dict[str, Any], path: str) -> None:
    document = {**document, "r": [{"$ref": f"${path}"}, {"$ref": path}]}
    found = parse(write(document))
    assert {key: entry for key, entry in found.items() if key != "r"} == {
        key: entry for key, entry in document.items() if key != "r"
    }
