"""Trace records: the very bytes of Java's, and what any release of Java's or Go's client has written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.trace.records import (
    DELAYED,
    HALF,
    TraceKind,
    TraceRecord,
    decode_records,
    encode_begun,
    encode_consumed,
    encode_ended,
    encode_recalled,
    encode_sent,
)

PUB = "Pub|5|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true;"
BEFORE = "SubBefore|6|R|billing|CALL|ID|1|42;"
AFTER = "SubAfter|CALL|ID|12|false|42|4|18|billing;"
END = "EndTransaction|8|R|shop|orders|ID|null|null|b:1|2|TX|COMMIT_MESSAGE|true;"
RECALL = "Recall|9|R|shop|orders|ID|true;"
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1).filter(
    lambda text: text.strip() and text != "null"
)
INT, TIME_MS = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**42)


def wire(text: str) -> bytes:
    """Records written with visible marks."""
    return text.replace("|", "\x01").replace(";", "\x02").encode()


def only(text: str) -> TraceRecord:
    (record,), broken = decode_records(wire(text))
    assert broken == 0
    return record


def test_records_are_written_as_javas() -> None:
    """C124, C126, C131: the columns, the marks, and `null` where there is nothing."""
    sent = encode_sent(5, "R", "shop", "orders", "ID", "new", "42", "b:1", 7, 3, 0, "OFFSET", is_ok=True)
    assert sent.encode() == wire(PUB)
    assert sent.count("\x01") == 13
    assert encode_begun(6, "R", "billing", "CALL", "ID", 1, "42").encode() == wire(BEFORE)
    assert encode_consumed(18, "billing", "CALL", "ID", 12, False, "42", 4).encode() == wire(AFTER)
    ended = encode_ended(8, "R", "shop", "orders", "ID", "null", "null", "b:1", "TX", "COMMIT_MESSAGE", is_check=True)
    assert ended.encode() == wire(END)
    assert encode_recalled(9, "R", "shop", "orders", "ID", is_ok=True).encode() == wire(RECALL)


def test_records_of_all_kinds_are_read_from_one_message() -> None:
    records, broken = decode_records(wire(PUB + BEFORE + AFTER + END + RECALL))
    assert ([record.kind for record in records], broken) == (list(TraceKind), 0)
    sent, begun, consumed, ended, recalled = records
    assert (sent.offset_message_id, sent.address, sent.body_bytes, sent.cost_ms, sent.is_ok) == (
        "OFFSET", "b:1", 7, 3, True,
    )  # fmt: skip
    assert (begun.request_id, begun.retries, begun.keys) == ("CALL", 1, "42")
    assert (consumed.request_id, consumed.return_type, consumed.time_ms, consumed.group) == (
        "CALL", "FAILED", 18, "billing",
    )  # fmt: skip
    assert (ended.state, ended.transaction_id, ended.is_check, ended.tags) == ("COMMIT_MESSAGE", "TX", True, "")
    assert (recalled.topic, recalled.is_ok) == ("orders", True)


@pytest.mark.parametrize(
    ("text", "offset_id", "is_ok", "host"),
    [
        ("Pub|5|R|shop|orders|ID|new|42|b:1|7|3|0|false;", "", False, ""),
        ("Pub|5|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true;", "OFFSET", True, ""),
        ("Pub|5|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true|10.0.0.1;", "OFFSET", True, "10.0.0.1"),
        ("Pub|5|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true|10.0.0.1|more;", "OFFSET", True, "10.0.0.1"),
    ],
)
def test_sends_are_read_as_old_and_new_releases_wrote_them(text: str, offset_id: str, is_ok: bool, host: str) -> None:
    record = only(text)
    assert (record.offset_message_id, record.is_ok, record.client_host) == (offset_id, is_ok, host)


@pytest.mark.parametrize(
    ("text", "return_type", "time_ms", "group"),
    [
        ("SubAfter|CALL|ID|12|true|null;", "SUCCESS", None, ""),
        ("SubAfter|CALL|ID|12|false;", "FAILED", None, ""),
        ("SubAfter|CALL|ID|12|false|42|2;", "EXCEPTION", None, ""),
        ("SubAfter|CALL|ID|12|false|42|1|18;", "TIME_OUT", 18, ""),
        ("SubAfter|CALL|ID|12|false|42|3|18|billing;", "RETURNNULL", 18, "billing"),
        ("SubAfter|CALL|ID|-1|false|42|77|18|billing;", "77", 18, "billing"),
    ],
)
def test_ends_of_calls_are_read_as_old_and_new_releases_wrote_them(
    text: str, return_type: str, time_ms: int | None, group: str
) -> None:
    record = only(text)
    assert (record.return_type, record.time_ms, record.group) == (return_type, time_ms, group)


def test_go_names_its_host_behind_the_keys() -> None:
    record = only("SubBefore|6|R|billing|CALL|ID|0|null|10.0.0.1;")
    assert (record.keys, record.client_host) == ("", "10.0.0.1")


@pytest.mark.parametrize(
    "text",
    [
        "Pub;",
        "Pub|soon|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true;",
        "Pub|5|R|shop|orders|null|new|42|b:1|7|3|0|OFFSET|true;",
        "Pub|-5|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true;",
        "Pub|99999999999999999|R|shop|orders|ID|new|42|b:1|7|3|0|OFFSET|true;",
        "Pub|5|R|shop|orders|ID|new|42|b:1|7|9999999999|0|OFFSET|true;",
        "SubBefore|6|R|billing|CALL|ID;",
        "SubAfter|CALL|ID;",
        "EndTransaction|8|R;",
        "Recall|9|R|shop|orders|;",
        "Nothing|that|is|known;",
        "\x00;",
    ],
)
def test_broken_record_is_counted_and_passed_over(text: str) -> None:
    records, broken = decode_records(wire(BEFORE + text + AFTER))
    assert ([record.kind for record in records], broken) == ([TraceKind.BEGUN, TraceKind.CONSUMED], 1)


def test_what_is_no_text_is_broken_and_nothing_is_nothing() -> None:
    assert decode_records(b"\xff\xfe") == ([], 1)
    assert decode_records(b"") == decode_records(wire(";;\n;")) == ([], 0)


@given(TEXT, TEXT, TEXT, TEXT, TIME_MS, INT)
def test_what_is_written_is_read(region: str, group: str, message_id: str, keys: str, time_ms: int, cost: int) -> None:
    sent = encode_sent(
        time_ms, region, group, "T", message_id, "null", keys, "b:1", 1, cost, HALF | DELAYED, "O", is_ok=False
    )
    (record,), broken = decode_records(sent.encode())
    assert (record.region, record.group, record.message_id, record.keys) == (region, group, message_id, keys)
    assert (record.time_ms, record.cost_ms, record.tags, record.is_ok, broken) == (time_ms, cost, "", False, 0)


@given(st.lists(st.sampled_from([PUB, BEFORE, AFTER, END, RECALL])), st.integers(0), st.binary(max_size=4))
def test_a_cut_anywhere_breaks_one_record_at_most_for_each_piece(texts: list[str], cut: int, noise: bytes) -> None:
    body = wire("".join(texts))
    at = cut % (len(body) + 1)
    records, broken = decode_records(body[:at] + noise + body[at:])
    assert broken <= 1 + noise.count(b"\x02") * 2
    assert len(records) + broken >= len(texts) - 1
