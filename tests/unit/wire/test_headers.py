"""Typed headers: how fields are read, written and refused; that none is missing."""

from __future__ import annotations

import dataclasses

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.headers import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    BoundaryType,
    BrokerHeartbeatRequestHeader,
    ConsumeMessageDirectlyResultRequestHeader,
    GetMaxOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    Header,
    PullMessageRequestHeader,
    QueryConsumerOffsetResponseHeader,
    RegisterBrokerRequestHeader,
    RpcRequestHeader,
    SearchOffsetRequestHeader,
    SendMessageRequestHeader,
    TopicRequestHeader,
    UnregisterClientRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
    decode,
    encode,
    send_header_v1,
    send_header_v2,
)
from support.golden import read_lines

BROKER = {"brokerName": "a", "brokerAddr": "127.0.0.1:10911", "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
SHARED = {"ns", "nsd", "bname", "oway", "lo"}
TYPES = {
    "String": "str", "int": "Int32", "Integer": "Int32", "long": "int", "Long": "int",
    "boolean": "bool", "Boolean": "bool", "BoundaryType": "BoundaryType",
}  # fmt: skip


def all_headers() -> dict[str, type[Header]]:
    """Every class that the package shows, by its name in lower case: Java writes KV and DB, we Kv and Db."""
    values = (getattr(headers, name) for name in headers.__all__)
    return {value.__name__.lower(): value for value in values if isinstance(value, type) and issubclass(value, Header)}


def fields_of(cls: type[Header]) -> dict[str, dataclasses.Field[object]]:
    """By their names on the wire, without those that many requests share."""
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    by_name = {writing.name: field for writing, field in zip(cls.writing, fields, strict=True)}
    return {name: field for name, field in by_name.items() if name not in SHARED}


def test_decode_when_fields_are_there_reads_each_by_its_type() -> None:
    header = decode(RegisterBrokerRequestHeader, {**BROKER, "enableActingMaster": "True", "bodyCrc32": "-5"})
    assert (header.broker_id, header.enable_acting_master, header.body_crc32) == (0, True, -5)
    assert (header.ha_server_addr, header.heartbeat_timeout_millis, header.compressed) == ("", None, False)


@pytest.mark.parametrize("missing", BROKER)
def test_decode_when_a_required_field_is_missing_names_header_and_field(missing: str) -> None:
    """S5: the text becomes the remark of the answer with code 1."""
    ext = {name: value for name, value in BROKER.items() if name != missing}
    with pytest.raises(RemoteProtocolError) as error:
        decode(RegisterBrokerRequestHeader, ext)
    assert str(error.value) == f"RegisterBrokerRequestHeader: the field {missing} is missing"


@pytest.mark.parametrize(
    "text", ["", "x", " 1", "1 ", "1_0", "1.0", "0x1", "--1", "+", "٣", "９", str(2**63), "9" * 5000]
)
def test_decode_when_a_number_cannot_be_read_names_the_text(text: str) -> None:
    with pytest.raises(RemoteProtocolError) as error:
        decode(RegisterBrokerRequestHeader, {**BROKER, "brokerId": text})
    shown = repr(text if len(text) <= 80 else text[:80] + "…")
    expected = f"RegisterBrokerRequestHeader: the field brokerId is {shown}, not a whole number of 64 bits"
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("text", "number"), [("007", 7), ("+7", 7), ("-1", -1), (str(2**63 - 1), 2**63 - 1), ("-0", 0)]
)
def test_decode_when_java_would_read_the_number_reads_it(text: str, number: int) -> None:
    assert decode(QueryConsumerOffsetResponseHeader, {"offset": text}).offset == number


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_number_when_it_needs_more_than_32_bits_is_refused_both_ways(number: int) -> None:
    with pytest.raises(RemoteProtocolError, match=r"wipeTopicCount is .* not a whole number of 32 bits"):
        decode(WipeWritePermOfBrokerResponseHeader, {"wipeTopicCount": str(number)})
    with pytest.raises(LocalProtocolError, match=r"wipeTopicCount is .* not a whole number of 32 bits"):
        encode(WipeWritePermOfBrokerResponseHeader(wipe_topic_count=number))


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("tRuE", True), ("false", False), ("1", False), ("", False)]
)
def test_decode_when_field_is_a_boolean_only_true_is_true(text: str, value: bool) -> None:
    """A C++ batch says "batch": "1", which Apache reads as false."""
    assert (
        decode(GetRouteInfoRequestHeader, {"topic": "T", "acceptStandardJsonOnly": text}).accept_standard_json_only
        is value
    )


@pytest.mark.parametrize(
    ("text", "value"), [("upper", "UPPER"), ("UPPER", "UPPER"), ("lower", "LOWER"), ("x", "LOWER")]
)
def test_decode_when_field_is_a_boundary_anything_but_upper_is_lower(text: str, value: str) -> None:
    ext = {"topic": "T", "queueId": "0", "timestamp": "5", "boundaryType": text}
    header = decode(SearchOffsetRequestHeader, ext)
    assert header.boundary_type is BoundaryType(value)
    assert encode(header)["boundaryType"] == value


def test_decode_when_fields_are_unknown_or_differ_in_case_ignores_them() -> None:
    header = decode(GetRouteInfoRequestHeader, {"topic": "T", "Topic": "U", "__new": "x", "AccessKey": "k"})
    assert encode(header) == {"topic": "T"}


def test_encode_when_fields_have_defaults_writes_them_and_leaves_none_out() -> None:
    assert encode(GetMaxOffsetRequestHeader(topic="T", queue_id=0)) == {
        "topic": "T",
        "queueId": "0",
        "committed": "true",
    }


def test_encode_when_wire_name_is_irregular_uses_it() -> None:
    assert encode(UnregisterClientRequestHeader(client_id="c")) == {"clientID": "c"}
    assert "proxyFrowardClientId" in {field.name for field in PullMessageRequestHeader.writing}
    assert "heartbeatTimeoutMills" in {field.name for field in BrokerHeartbeatRequestHeader.writing}


def test_encode_when_request_names_its_broker_twice_keeps_both() -> None:
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group="g", broker_name="own", target_broker="b", namespace="n", is_namespaced=True, is_logical=False
    )
    expected = {"consumerGroup": "g", "brokerName": "own", "bname": "b", "ns": "n", "nsd": "true", "lo": "false"}
    assert encode(header) == expected
    assert decode(ConsumeMessageDirectlyResultRequestHeader, expected) == header


def test_header_when_changed_refuses() -> None:
    header = decode(GetRouteInfoRequestHeader, {"topic": "T"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        header.topic = "U"  # type: ignore[misc]


def test_send_header_when_turned_short_and_long_again_is_the_same() -> None:
    v1 = SendMessageRequestHeader(
        producer_group="PG", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=2, sys_flag=0,
        born_timestamp=1700000000000, flag=0, properties="TAGS\x01a", batch=False, target_broker="broker-a",
    )  # fmt: skip
    short = encode(send_header_v2(v1))
    expected = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000", "h": "0"}
    assert short == expected | {"i": "TAGS\x01a", "m": "false", "n": "broker-a"}
    assert send_header_v1(send_header_v2(v1)) == v1


def test_fields_when_compared_with_javas_classes_agree() -> None:
    """The two pages (21, 201) may be asked for without fields, and old brokers answer them without a total."""
    lenient = {
        ("GetAllTopicConfigRequestHeader", "topicSeq"),
        ("GetAllSubscriptionGroupRequestHeader", "groupSeq"),
        ("GetAllSubscriptionGroupResponseHeader", "totalGroupNum"),
    }
    ours = all_headers()
    for java in read_lines("header-fields-5.5.0.jsonl"):
        fields = fields_of(ours[java["class"].lower()])
        for name, declared in java["fields"].items():
            field, where = fields[name], (java["class"], name)
            has_default = "default" in declared or declared["type"][0].islower()
            is_required = declared["required"] and "default" not in declared and where not in lenient
            assert str(field.type).removesuffix(" | None") == TYPES[declared["type"]], where
            assert (field.default is dataclasses.MISSING) == is_required, where
            assert str(field.type).endswith(" | None") == (not is_required and not has_default), where


def test_fields_when_java_has_no_such_field_are_the_known_ones() -> None:
    """What Java adds to the map by hand, beside its header classes."""
    ours = all_headers()
    extra = {
        name
        for java in read_lines("header-fields-5.5.0.jsonl")
        for name in fields_of(ours[java["class"].lower()]).keys() - java["fields"].keys()
    }
    assert extra == {"__ZONE_NAME", "__ZONE_MODE", "_UNIQUE_KEY_QUERY", "MSG_REGION", "TRACE_ON"}


def test_base_class_is_the_one_that_java_has() -> None:
    ours = all_headers()
    for java in read_lines("header-fields-5.5.0.jsonl"):
        cls = ours[java["class"].lower()]
        is_short_send = java["class"] == "SendMessageRequestHeaderV2"
        assert issubclass(cls, TopicRequestHeader) == (java["extends"].startswith("Topic") and not is_short_send), cls
        assert issubclass(cls, RpcRequestHeader) == (java["extends"] != "Object" and not is_short_send), cls


def test_names_on_the_wire_are_unique_in_every_header() -> None:
    for cls in all_headers().values():
        names = [field.name for field in cls.writing]
        assert len(names) == len(set(names)), cls


def test_tables_hold_every_header_and_only_known_codes() -> None:
    listed = {*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}
    assert set(all_headers().values()) - listed == {Header, RpcRequestHeader, TopicRequestHeader}
    assert all(isinstance(code, RequestCode) for code in (*REQUEST_HEADERS, *RESPONSE_HEADERS))
