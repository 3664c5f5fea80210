"""References: where they lead, and how far."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire.fastjson import parse
from rocketline.wire.fastjson.parser import Pairs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('{"b":{"$ref":"$.c"},"c":{"y":2}}', {"b": {"y": 2}, "c": {"y": 2}}),
        ('[{"x":1},{"$ref":"$[0]"}]', [{"x": 1}, {"x": 1}]),
        (
            '{"m":{0:{"x":1},1:{"$ref":"$.m[0]"},"2":{"$ref":"$.m.0"}}}',
            {"m": {"0": {"x": 1}, "1": {"x": 1}, "2": {"x": 1}}},
        ),
        ('{"m":{"0":{"x":1},"r":{"$ref":"$.m[0]"}}}', {"m": {"0": {"x": 1}, "r": {"x": 1}}}),
        (r'{"first b-a":[[1]],"r":{"$ref":"$.first\\ b\\-a[0]"}}', {"first b-a": [[1]], "r": [1]}),
        (r'{"a.b":[1],"r":{"$ref":"$[\"a.b\"]"},"s":{"$ref":"$[\'a.b\']"}}', {"a.b": [1], "r": [1], "s": [1]}),
        ('{"a":[1],"r":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": [1], "r": [1], "b": [1]}),
        ('{"a":{"q":1},"m":{{"$ref":"$.a"}:3}}', {"a": {"q": 1}, "m": Pairs([({"q": 1}, 3)])}),
        ('{"a":"k","m":{{"$ref":"$.a"}:3}}', {"a": "k", "m": {"k": 3}}),
        ('{"a":null,"r":{"$ref":"$.a"}}', {"a": None, "r": None}),
    ],
)
def test_reference_when_parsed_becomes_its_target(text: str, value: Any) -> None:
    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    "path",
    [
        "$",
        "@",
        "..",
        "$.a",
        "$.nope",
        "$.nope.x",
        "$.list[9]",
        "$.list[-1]",
        "$.list.x",
        "$.text.x",
        "$..",
        "$[x]",
        "$x",
    ],
)
def test_reference_to_nothing_or_to_what_is_around_it_becomes_null(path: str) -> None:
    text = json.dumps({"list": [1], "text": "t", "a": [{"$ref": path}]})
    assert parse(text.encode()) == {"list": [1], "text": "t", "a": [None]}


def test_key_that_refers_to_nothing_loses_its_entry() -> None:
    """Java 5.3 writes such keys when clients share queues; Java itself cannot find them either."""
    text = r'{"t":{"c-1":{{"q":0}:5},"c-2":{{"$ref":"$.t.c\\-1.null"}:5}}}'
    assert parse(text.encode()) == {"t": {"c-1": Pairs([({"q": 0}, 5)]), "c-2": {}}}


@pytest.mark.parametrize("text", ['{"a":{"$ref":"$.b","k":1}}', '{"a":{"$ref":3}}', '{"a":{"$ref":"b"}}', '{"$ref":5}'])
def test_object_that_only_looks_like_a_reference_when_parsed_stays(text: str) -> None:
    assert parse(text.encode()) == json.loads(text)


def test_references_in_a_circle_when_parsed_become_null() -> None:
    assert parse(b'{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}') == {"a": None, "b": None}
    assert parse(b'{"a":[{"$ref":"$.b"}],"b":[{"$ref":"$.a"}]}') == {"a": [[None]], "b": [[None]]}


def test_references_that_multiply_when_parsed_are_refused() -> None:
    """Ten times ten times ten …: a few hundred bytes that mean 10**40 values."""
    levels = {f"a{level}": [{"$ref": f"$.a{level + 1}"}] * 10 for level in range(40)}
    with pytest.raises(RemoteProtocolError, match="references in a JSON body lead to more than"):
        parse(json.dumps({**levels, "a40": 1}).encode())


def test_many_references_to_one_great_value_when_parsed_are_refused() -> None:
    document = {"great": [0] * 10_000, "refs": [{"$ref": "$.great"}] * 10_000}
    with pytest.raises(RemoteProtocolError, match="references in a JSON body lead to more than"):
        parse(json.dumps(document).encode())


def test_references_in_a_long_chain_when_parsed_are_refused() -> None:
    chain = {f"a{link}": [{"$ref": f"$.a{link + 1}"}] for link in range(2_000)}
    with pytest.raises(RemoteProtocolError, match="references in a JSON body lead deeper than"):
        parse(json.dumps(chain).encode())


def test_many_references_by_way_of_a_long_path_when_parsed_are_refused() -> None:
    """Each of the short ones would have the long one followed anew."""
    document = [[], {"$ref": "$" + "[0]" * 1000}, *[{"$ref": "$[1]"}] * 10_000]
    with pytest.raises(RemoteProtocolError, match="references in a JSON body lead to more than"):
        parse(json.dumps(document).encode())
