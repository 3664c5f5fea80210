"""What the codec makes of any dataclass, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.offsets import CorrectionOffsets


class Colour(Enum):
    RED = "r"
    GREEN = "g"


@dataclass(frozen=True, slots=True)
class Inner:
    name: str


@dataclass(frozen=True, slots=True)
class Everything:
    some_text: str = ""
    some_long: int = 0
    some_int: Int32 = 0
    some_double: float = 0.0
    is_set: bool = False
    odd_name: str | None = field(default=None, metadata={"java": "oddNAME", "also": ("older",)})
    colour: Colour = Colour.RED
    any_colour: Colour | None = None
    raw: bytes = b""
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    by_id: dict[int, str] = field(default_factory=dict)
    by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    by_name: dict[str, list[int]] = field(default_factory=dict)


def read(text: str) -> Everything:
    return decode(Everything, text.encode())


def test_body_without_fields_when_read_has_every_default() -> None:
    assert read("{}") == Everything()


def test_unknown_keys_and_nulls_when_read_are_skipped() -> None:
    assert read('{"new":{"deep":[1]},"someLong":null,7:1,"inners":[null],"byName":{"a":null}}') == Everything(inners=[])


def test_body_when_written_has_alphabetical_keys_and_no_nulls() -> None:
    body = Everything("t", by_id={10: "b", 2: "a"}, by_queue={MessageQueue("T", "b", 1): 5}, raw=b"\x09\x02")
    assert encode(body) == (
        b'{"byId":{2:"a",10:"b"},"byName":{},"byQueue":{{"brokerName":"b","queueId":1,"topic":"T"}:5},'
        b'"colour":"RED","inners":[],"isSet":false,"raw":"CQI=","someDouble":0.0,"someInt":0,"someLong":0,'
        b'"someText":"t"}'
    )
    assert read(encode(body).decode()) == body


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ('{"someLong":"12"}', Everything(some_long=12)),
        ('{"someLong":12.0}', Everything(some_long=12)),
        ('{"someLong":9223372036854775807}', Everything(some_long=2**63 - 1)),
        ('{"someInt":"-2147483648"}', Everything(some_int=-(2**31))),
        ('{"someText":12}', Everything("12")),
        ('{"someText":true}', Everything("true")),
        ('{"someDouble":"1.5"}', Everything(some_double=1.5)),
        ('{"someDouble":3}', Everything(some_double=3.0)),
        ('{"someDouble":NaN}', Everything()),
        ('{"isSet":"TRUE"}', Everything(is_set=True)),
        ('{"isSet":1}', Everything(is_set=True)),
        ('{"older":"x"}', Everything(odd_name="x")),
        ('{"oddNAME":"x"}', Everything(odd_name="x")),
        ('{"colour":"green"}', Everything(colour=Colour.GREEN)),
        ('{"colour":1}', Everything(colour=Colour.GREEN)),
        ('{"anyColour":"VIOLET"}', Everything()),
        ('{"byId":{"0":"a",1:"b"}}', Everything(by_id={0: "a", 1: "b"})),
        ('{"byName":{0:[1]}}', Everything(by_name={"0": [1]})),
        (
            r'{"byQueue":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":1}}',
            Everything(by_queue={MessageQueue("T", "b", 0): 1}),
        ),
        (
            '{"byQueue":{{"brokerName":"b","queueId":"0","topic":"T"}:"1"}}',
            Everything(by_queue={MessageQueue("T", "b", 0): 1}),
        ),
        ('{"inner":{"name":"a"},"inners":[{"$ref":"$.inner"}]}', Everything(inner=Inner("a"), inners=[Inner("a")])),
    ],
)
def test_value_in_another_form_when_read_means_the_same(text: str, body: Everything) -> None:
    assert read(text) == body


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"someLong":"x"}', "Everything.someLong: expected an integer of 64 bits, found 'x'"),
        ('{"someLong":true}', "Everything.someLong: expected an integer of 64 bits, found True"),
        ('{"someLong":1.5}', "Everything.someLong: expected an integer of 64 bits, found 1.5"),
        ('{"someLong":9223372036854775808}', "Everything.someLong: expected an integer of 64 bits"),
        ('{"someInt":2147483648}', "Everything.someInt: expected an integer of 32 bits, found 2147483648"),
        ('{"someLong":"1_000"}', "Everything.someLong: expected an integer of 64 bits, found '1_000'"),
        ('{"someDouble":"nan"}', "Everything.someDouble: expected a number, found 'nan'"),
        ('{"someDouble":"fast"}', "Everything.someDouble: expected a number, found 'fast'"),
        (f'{{"someDouble":1{"0" * 400}}}', "Everything.someDouble: expected a number, found 1000"),
        ('{"isSet":"maybe"}', "Everything.isSet: expected true or false, found 'maybe'"),
        ('{"someText":{}}', "Everything.someText: expected text, found an object"),
        ('{"colour":"VIOLET"}', "Everything.colour: expected one of RED, GREEN, found 'VIOLET'"),
        ('{"colour":2}', "Everything.colour: expected one of RED, GREEN, found 2"),
        ('{"raw":"?"}', "Everything.raw: expected Base64, found '?'"),
        ('{"raw":5}', "Everything.raw: expected Base64, found 5"),
        ('{"raw":"é"}', "Everything.raw: expected Base64, found 'é'"),
        ('{"inner":[]}', "Everything.inner: expected an object, found a list"),
        ('{"inner":{}}', "Everything.inner: Inner lacks name"),
        ('{"inners":[{"name":[]}]}', "Everything.inners: Inner.name: expected text, found a list"),
        ('{"inners":5}', "Everything.inners: expected a list, found 5"),
        ('{"byId":{"a":"b"}}', "Everything.byId: expected an integer of 64 bits, found 'a'"),
        ('{"byId":[]}', "Everything.byId: expected an object, found a list"),
        ('{"byName":{{"a":1}:[]}}', "Everything.byName: expected text, found an object"),
        ('{"byQueue":{"T":1}}', "Everything.byQueue: JSON body at character 0: expected a value"),
        ("[]", "expected an object, found a list"),
        ("", "JSON body at character 0: expected a value, found the end"),
    ],
)
def test_wrong_value_when_read_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read(text)
    assert str(caught.value).startswith(f"Everything of {len(text.encode())} bytes cannot be read: {problem}")


def test_list_of_bodies_when_read_and_written_is_the_same_text() -> None:
    text = b'[{"name":"a"},{"name":"b"}]'
    inners = decode(list[Inner], text)
    assert inners == [Inner("a"), Inner("b")]
    assert encode(inners) == text


def test_list_of_bodies_when_it_is_none_is_refused_with_its_class() -> None:
    with pytest.raises(RemoteProtocolError, match="list of Inner of 2 bytes cannot be read: expected a list"):
        decode(list[Inner], b"{}")


@pytest.mark.parametrize("key", ["5", '"5"', '"+5"', '"05"', "-5"])
def test_map_of_integers_is_read_at_once_or_one_by_one(key: str) -> None:
    found = decode(CorrectionOffsets, f'{{"correctionOffsets":{{1:9223372036854775807,{key}:2}}}}'.encode())
    assert found.correction_offsets == {1: 2**63 - 1, -5 if key == "-5" else 5: 2}


@pytest.mark.parametrize(
    "entry", ["2147483648:1", "1:9223372036854775808", "1:-9223372036854775809", '"":1', f'"{"1" * 5000}":1', "1:[]"]
)
def test_map_of_integers_when_one_is_none_is_refused(entry: str) -> None:
    with pytest.raises(RemoteProtocolError, match="correctionOffsets: expected an integer of"):
        decode(CorrectionOffsets, f'{{"correctionOffsets":{{7:7,{entry}}}}}'.encode())
