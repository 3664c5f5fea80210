"""The dialect: what is read, what is written, and what is refused with its place."""

from __future__ import annotations

import unittest.mock
from typing import Any

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import fastjson
from rocketline.wire.fastjson import TOLERATED_CHARACTERS_MAX, parse, write, write_strict
from rocketline.wire.fastjson.parser import DEPTH_MAX, Pairs, parse_tolerantly

QUEUE = {"brokerName": "b", "queueId": 0, "topic": "T"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        (
            "{-1:2,9223372036854775807:3,9223372036854775808:4}",
            {"-1": 2, "9223372036854775807": 3, "9223372036854775808": 4},
        ),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:100}', Pairs([(QUEUE, 100)])),
        ('{ {"brokerName" : "b", "queueId":0,"topic":"T"} : 100 , "x" : 1 }', Pairs([(QUEUE, 100), ("x", 1)])),
        ("{{0:1}:{{}:2}}", Pairs([({"0": 1}, Pairs([({}, 2)]))])),
        ("{[1]:2}", Pairs([([1], 2)])),
        ("{'a':'it\\'s'}", {"a": "it's"}),
        ("{a:1,_b$2:2,null:3,true:4,1.5:5}", {"a": 1, "_b$2": 2, "null": 3, "true": 4, "1.5": 5}),
        ("[1,2,]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ('/* a */{"a"://b\n1/**/}', {"a": 1}),
        ("[+1,01,1.,.5,1L,1.5e3,-0.0,2D]", [1, 1, 1.0, 0.5, 1, 1500.0, -0.0, 2]),
        ("[NaN,Infinity,-Infinity,undefined]", [None, None, None, None]),
        ('{"a":12345678901234567890123}', {"a": 12345678901234567890123}),
        ("{0:12345678901234567890123}", {"0": 12345678901234567890123}),
        (r'{0:"\x41\'\/\v\0\7\b\f\n\r\t\"\\"}', {"0": "A'/\v\0\7\b\f\n\r\t\"\\"}),
        (r'{0:"\u00e9\ud83d\ude00 \ud800"}', {"0": "é😀 \ud800"}),
        ('{0:"raw\ttab"}', {"0": "raw\ttab"}),
        ('\ufeff{"a":1}', {"a": 1}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{0:1,"0":2}', {"0": 2}),
        ('{1:"a,1:b",{}:"{2:c"}', Pairs([("1", "a,1:b"), ({}, "{2:c")])),
        ('{1:"a,1:b","x":"{2:c"}', {"1": "a,1:b", "x": "{2:c"}),
        ("7", 7),
    ],
)
def test_text_that_fastjson_reads_when_parsed_means_the_same(text: str, value: Any) -> None:
    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "JSON body at character 0: expected a value, found the end"),
        ("  ", "JSON body at character 2: expected a value, found the end"),
        ("{0:1", "JSON body at character 4: expected a comma or }, found the end"),
        ("[0", "JSON body at character 2: expected a comma or ], found the end"),
        ("{0 1}", "JSON body at character 3: expected a colon after the key, found '1}'"),
        ("{,}", "JSON body at character 1: expected a key, found ',}'"),
        ("{0:}", "JSON body at character 3: expected a value, found '}'"),
        ('{"a":1 "b":2}', "JSON body at character 7: expected a comma or }"),
        ("{0:TRUE}", "JSON body at character 3: expected a value, found 'TRUE}'"),
        ("{0:1} x", "JSON body at character 6: expected the end, found 'x'"),
        ('{0:"', "JSON body at character 3: text without an end"),
        ("{0:'\"", "JSON body at character 3: text without an end"),
        (r'{0:"\q"}', "JSON body at character 3: text with an escape that does not exist"),
        (r'{0:"\u12g4"}', "JSON body at character 3: text with an escape that does not exist"),
        ("{0:1/*}", "JSON body at character 4: expected a comma or }"),
        ("{0:0x1F}", "JSON body at character 4: expected a comma or }"),
        ("{0:--1}", "JSON body at character 3: expected a value"),
    ],
)
def test_broken_text_when_parsed_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse(text.encode())
    assert str(caught.value).startswith(problem)


def test_bytes_that_are_no_utf8_when_parsed_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="JSON body of 3 bytes is no UTF-8 at byte 1"):
        parse(b'"\xff"')


@pytest.mark.parametrize("opening", ["[", "{0:", '{"a":', "{{", "[[{0:"])
def test_deep_nesting_when_parsed_is_refused(opening: str) -> None:
    with pytest.raises(RemoteProtocolError, match=r"nested (too deeply|deeper than 100 levels)"):
        parse((opening * (1_000_000 // len(opening))).encode())


def test_nesting_up_to_the_limit_when_parsed_is_read() -> None:
    depth = DEPTH_MAX - 1
    value = parse_tolerantly("[" * depth + "{0:1}" + "]" * depth)
    for _ in range(depth):
        (value,) = value
    assert value == {"0": 1}


@pytest.mark.parametrize(("start", "unit"), [('{0:"', "a"), ("{0:'", r"\n"), ("{0:1", "/*"), ("{0:1", " ")])
def test_a_megabyte_without_an_end_when_parsed_is_refused(start: str, unit: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse((start + unit * (1_000_000 // len(unit))).encode())


@pytest.mark.parametrize("text", ["{{}:1,%s}", '{"a":{"$ref":"$.b"},%s}'])
def test_long_text_that_only_python_can_read_when_parsed_is_refused(text: str) -> None:
    entries = '"a":1,' * (TOLERATED_CHARACTERS_MAX // 6)
    with pytest.raises(RemoteProtocolError, match="4194304 are allowed"):
        parse((text % (entries + '"a":1')).encode())


@pytest.mark.parametrize("text", ["{{}:1,%s}", '{"a":{"$ref":"$.b"},"b":{},%s}'])
def test_long_text_that_only_python_can_read_when_it_is_no_strangers_is_read(text: str) -> None:
    assert parse((text % ('"c":1,' * 40)).encode(), tolerated_max=None)
    with pytest.raises(RemoteProtocolError, match="characters; 200 are allowed"):
        parse((text % ('"c":1,' * 40)).encode(), tolerated_max=200)


@pytest.mark.parametrize("form", ["{{{0}}}", "{{\n\t{0}\n}}", '{{"a":{{\n\t\t{0}\n\t}}}}', "[{{ {0} }}]"])
@pytest.mark.parametrize("between", [",", ",\n\t\t", " ,\r\n "])
def test_long_table_with_integer_keys_when_parsed_is_left_to_json(form: str, between: str) -> None:
    """Files have each entry on a line of its own; with Python's own parser this took a second for a megabyte."""
    text = form.format(between.join(f"{key}:1" for key in range(-500, 500)))
    with unittest.mock.patch.object(fastjson, "parse_tolerantly") as parse_tolerantly:
        assert str(parse(text.encode(), tolerated_max=0)).count(": 1") == 1000
    parse_tolerantly.assert_not_called()


@pytest.mark.parametrize("text", ["[{}]", "{{0:{}}}"])
def test_number_of_a_hundred_thousand_digits_when_parsed_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="a number of 100000 digits"):
        parse(text.format("1" * 100_000).encode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "a", 1: "b"}, '{0:"a",1:"b"}'),
        ({"0": 1}, '{"0":1}'),
        (Pairs([(QUEUE, 100)]), '{{"brokerName":"b","queueId":0,"topic":"T"}:100}'),
        ({"tps": 0.0, "x": [1.5, 1e300]}, '{"tps":0.0,"x":[1.5,1e+300]}'),
        ([None, True, False, 2**63 - 1], "[null,true,false,9223372036854775807]"),
        ([float("nan"), float("inf")], "[null,null]"),
        ('é\u2028\x01"\\/\n', '"é\u2028\\u0001\\"\\\\/\\n"'),
        ("\ud800", '"?"'),
        ({}, "{}"),
    ],
)
def test_value_when_written_is_javas_text(value: Any, text: str) -> None:
    assert write(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1.5: 1}, "a key of an object must be text or an integer, not float"),
        ({True: 1}, "a key of an object must be text or an integer, not bool"),
        ([object()], "JSON cannot hold a object"),
        ([10**5000], "value cannot be written: Exceeds the limit"),
    ],
)
def test_value_that_json_cannot_hold_when_written_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=problem):
        write(value)


def test_value_that_contains_itself_when_written_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    for written in (write, write_strict):
        with pytest.raises(LocalProtocolError):
            written(value)


def test_value_when_written_strictly_is_plain_sorted_json() -> None:
    assert write_strict({"b": {10: "é", 2: None}, "a": [1.0]}) == '{"a":[1.0],"b":{"2":null,"10":"é"}}'.encode()


@pytest.mark.parametrize("value", [Pairs([(QUEUE, 1)]), float("nan"), {1: 1, "a": 2}])
def test_value_without_a_standard_form_when_written_strictly_is_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written as standard JSON"):
        write_strict(value)
