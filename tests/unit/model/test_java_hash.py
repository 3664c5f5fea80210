"""Vector N: hashes of tags, and what else Java's `String.hashCode` says."""

from __future__ import annotations

import pytest

from rocketline.model.java_hash import java_string_hash, tags_code


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("P1794775829#T#TagB", 1132058111),
        ("polygenelubricants", -2147483648),
        ("é", 233),
        ("😀", 1772899),
        ("\ud83d", 0xD83D),
    ],
)
def test_hash_of_text_is_that_of_java(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


def test_tags_code_when_there_is_no_tag_is_zero() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919
