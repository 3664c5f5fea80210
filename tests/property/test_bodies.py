"""Every body class: written and read it is the same, and no bytes do worse than be refused."""

from __future__ import annotations

import zlib
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.model.route import TopicRouteData
from rocketline.wire import bodies, fastjson
from rocketline.wire.bodies import (
    RegisterBrokerBody,
    decode,
    decode_in_steps,
    decode_register_body,
    encode,
    encode_in_parts,
    encode_register_body,
    encode_route,
)
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.fastjson.parser import Pairs
from support.long_steps import outcome

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=8),
}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that the type allows."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is Annotated:
        return st.integers(-(2 ** (arguments[1] - 1)), 2 ** (arguments[1] - 1) - 1)
    if type(None) in arguments:
        return st.one_of(*[st.none() if argument is type(None) else values(argument) for argument in arguments])
    if origin is list:
        return st.lists(values(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    hints = get_type_hints(hint, include_extras=True)
    return st.builds(hint, **{field.name: values(hints[field.name]) for field in fields(hint)})


def body_classes() -> list[type]:
    modules = [import_module(f"{bodies.__name__}.{module.name}") for module in iter_modules(bodies.__path__)]
    models = [
        import_module(f"rocketline.model.{name}")
        for name in ("group_config", "heartbeat", "queue", "route", "static_topic", "subscription", "topic_config")
    ]
    classes = {cls for module in modules + models for cls in vars(module).values() if isinstance(cls, type)}
    return sorted((cls for cls in classes - {Pairs} if is_dataclass(cls)), key=lambda cls: cls.__name__)


CLASSES = body_classes()
ANY_CLASS = st.sampled_from(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_body_when_written_and_read_is_the_same(cls: type, data: st.DataObject) -> None:
    body = data.draw(values(cls))
    assert decode(cls, encode(body)) == body
    assert b"".join(encode_in_parts(body)) == encode(body)
    assert outcome(decode_in_steps(cls, encode(body), tolerated_max=2**20)) == body


@given(values(TopicRouteData), st.booleans())
def test_route_when_written_in_either_form_and_read_is_the_same(route: TopicRouteData, strict: bool) -> None:
    assert decode(TopicRouteData, encode_route(route, strict=strict)) == route


@given(ANY_CLASS, st.data())
def test_body_when_cut_or_corrupted_anywhere_is_read_or_refused(cls: type, data: st.DataObject) -> None:
    text = encode(data.draw(values(cls)))
    at = data.draw(st.integers(0, len(text) - 1))
    for broken in (text[:at], text[:at] + data.draw(st.binary(max_size=3)) + text[at + 1 :]):
        try:
            decode(cls, broken)
        except RemoteProtocolError:
            continue


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(ANY_CLASS, st.data())
def test_body_with_any_values_in_its_fields_is_read_or_refused(cls: type, data: st.DataObject) -> None:
    value = fastjson.parse(encode(data.draw(values(cls))))
    keys = data.draw(st.lists(st.sampled_from(sorted(value)), max_size=3)) if value else []
    try:
        decode(cls, fastjson.write({**value, **{key: data.draw(JSON_VALUES) for key in keys}}))
    except RemoteProtocolError as error:
        problem = str(error)
    else:
        problem = cls.__name__
    assert problem.startswith(cls.__name__)


@given(values(RegisterBrokerBody), st.booleans(), st.sampled_from([36, 37, 409, 413, 513]), st.data())
def test_registration_when_cut_or_corrupted_anywhere_is_read_or_refused(
    body: RegisterBrokerBody, compressed: bool, version: int, data: st.DataObject
) -> None:
    compressed = compressed and all(
        " " not in f"{topic.topic_name}{topic.attributes}" for topic in _topics(body).topic_config_table.values()
    )
    encoded = encode_register_body(body, compressed=compressed, version=version)
    plain = zlib.decompress(encoded) if compressed and version > 36 else encoded
    at = data.draw(st.integers(0, len(plain) - 1))
    for broken in (plain[:at], plain[:at] + data.draw(st.binary(max_size=5)) + plain[at + 1 :]):
        try:
            decode_register_body(
                zlib.compress(broken) if compressed else broken, compressed=compressed, version=version
            )
        except RemoteProtocolError:
            continue


def _topics(body: RegisterBrokerBody) -> TopicConfigTable:
    return body.topic_config_serialize_wrapper


@given(st.binary(max_size=60), st.booleans(), st.integers(0, 700))
def test_registration_of_any_bytes_is_read_or_refused(data: bytes, compressed: bool, version: int) -> None:
    for given_bytes in (data, zlib.compress(data)):
        try:
            decode_register_body(given_bytes, compressed=compressed, version=version)
        except RemoteProtocolError:
            continue
