"""Java property text: what `java.util.Properties` reads, we read; what we write, it reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import ConfigError
from rocketline.settings import format_properties, parse_properties


def pairs(data: bytes) -> dict[str, str]:
    return {key: value for key, value, _ in parse_properties(data)}


@pytest.mark.parametrize(
    "text",
    [
        "k=v",
        "k = v",
        "k:v",
        "k : v",
        "k v",
        "  k\t\fv",
        "k=v\n",
        "k=v\r\n",
        "k=v\r",
        "#c\n!c\n\n  # c\nk=v",
        "\ufeffk=v",
    ],
)
def test_parse_accepts_every_way_to_write_a_pair(text: str) -> None:
    assert pairs(text.encode()) == {"k": "v"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k", {"k": ""}),
        ("k=", {"k": ""}),
        ("=v", {"": "v"}),
        ("k==v", {"k": "=v"}),
        ("k=v # no comment", {"k": "v # no comment"}),
        ("k=v  ", {"k": "v  "}),
        ("k=a:b=c", {"k": "a:b=c"}),
        ("a\\ b\\=c\\:d=v", {"a b=c:d": "v"}),
        (r"k=\t\n\r\f\\\q\ x", {"k": "\t\n\r\f\\q x"}),
        (r"k=\u00e4\uD83D\uDE80", {"k": "ä🚀"}),
        (r"k=\ud800", {"k": "\ufffd"}),
        ("k=a\\\n   b\\\n\tc", {"k": "abc"}),
        ("k=a\\\\\nb=c", {"k": "a\\", "b": "c"}),
        ("# comment\\\nk=v", {"k": "v"}),
        ("k=a\\\n# b", {"k": "a# b"}),
        ("k=a\\", {"k": "a"}),
        ("\\\n\nk=v", {"k": "v"}),
        ("\\\n#k=v", {}),
        ("\\", {"": ""}),
        ("k=1\nk=2", {"k": "2"}),
        ("k=a\x0bb\u2028c", {"k": "a\x0bb\u2028c"}),
    ],
)
def test_parse_follows_the_rules_of_java(text: str, expected: dict[str, str]) -> None:
    assert pairs(text.encode()) == expected


def test_parse_reads_utf8_and_falls_back_to_latin1() -> None:
    assert pairs("k=ä".encode()) == {"k": "ä"}
    assert pairs("k=ä".encode("iso-8859-1")) == {"k": "ä"}


def test_parse_tells_the_line_where_a_pair_starts() -> None:
    assert [(key, line) for key, _, line in parse_properties(b"\n# c\na=1\\\n  2\n\nb=3")] == [("a", 3), ("b", 6)]


@pytest.mark.parametrize("text", [b"\na=\\u12", b"\na=\\u12g4", b"\na=\\u", b"\n\\uzzzz=1"])
def test_parse_refuses_a_broken_escape_and_names_its_line(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"line 2: \\u must be followed by four hexadecimal digits"):
        parse_properties(text)


def test_parse_refuses_more_than_a_megabyte() -> None:
    assert pairs(b"k=" + b"v" * (1024 * 1024 - 2))
    with pytest.raises(ConfigError, match="1048577 bytes are too many"):
        parse_properties(b"k=" + b"v" * (1024 * 1024 - 1))


def test_format_writes_sorted_lines_without_needless_escapes() -> None:
    text = format_properties({"listenPort": "9876", "configBlackList": "a;b", "kvConfigPath": "/a b/c:d=e#f"})

    assert text == "configBlackList=a;b\nkvConfigPath=/a b/c:d=e#f\nlistenPort=9876\n"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXTS, TEXTS))
def test_parse_reads_what_format_wrote(values: dict[str, str]) -> None:
    text = format_properties(values)

    assert text.isascii()
    assert pairs(text.encode()) == values


@given(st.binary(max_size=200))
def test_parse_of_any_bytes_gives_pairs_or_a_config_error(data: bytes) -> None:
    try:
        found = parse_properties(data)
    except ConfigError:
        return
    assert all(isinstance(part, str) for key, value, _ in found for part in (key, value))
