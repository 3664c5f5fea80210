from __future__ import annotations

import json

import pytest

from rocketline.wire import frame
from rocketline.wire.acl import Credentials, is_signed_with, sign, signature, signed_content
from rocketline.wire.codes import V4_9_3, V4_9_4
from rocketline.wire.command import Command
from support.golden import DATA

ROCKETMQ2 = Credentials("rocketmq2", "12345678")


def vector_k() -> Command:
    return frame.decode(bytes.fromhex(json.loads((DATA / "vectors.json").read_text())["K"]["hex"]))


def test_request_when_signed_has_the_signature_java_computes() -> None:
    """Vector J."""
    command = Command(14, {"topic": "TopicTest", "queueId": "0"})
    sign(command, ROCKETMQ2)
    assert signed_content(command) == b"rocketmq20TopicTest"
    assert command.ext["Signature"] == "WcNHAIxSTdP81yH0rSPg25keg+g="
    assert is_signed_with(command, "12345678")


def test_signed_send_is_recognised_and_signed_alike() -> None:
    """Vector K: with a security token and a body."""
    command = vector_k()
    assert signed_content(command).startswith(b"rocketmq2tokPGTopicTestTBW1024201700000000000")
    assert signed_content(command).endswith(b"broker-ahello")
    assert is_signed_with(command, "12345678")
    unsigned = vector_k()
    for name in ("AccessKey", "SecurityToken", "Signature"):
        del unsigned.ext[name]
    sign(unsigned, Credentials("rocketmq2", "12345678", "tok"))
    assert unsigned.ext == command.ext


def test_signed_request_that_was_changed_is_not_recognised() -> None:
    assert not is_signed_with(vector_k(), "12345679")
    changed = vector_k()
    changed.body = b"hellp"
    assert not is_signed_with(changed, "12345678")
    changed = vector_k()
    changed.ext["added"] = "later"
    assert not is_signed_with(changed, "12345678")


@pytest.mark.parametrize("claimed", [None, "", "é", "\ud800", "J3NlEQxJtWjSD3gm2eTS+zJvpWM"])
def test_signature_that_is_missing_or_odd_is_not_recognised(claimed: str | None) -> None:
    command = vector_k()
    del command.ext["Signature"]
    if claimed is not None:
        command.ext["Signature"] = claimed
    assert not is_signed_with(command, "12345678")


@pytest.mark.parametrize(("version", "content"), [(V4_9_3, b"k"), (V4_9_4, b"truek")])
def test_mark_of_a_unique_key_query_counts_from_4_9_4_on(version: int, content: bytes) -> None:
    command = Command(12, {"key": "k", "_UNIQUE_KEY_QUERY": "true", "Signature": "s"}, version=version)
    assert signed_content(command) == content


def test_names_are_sorted_as_java_sorts_text() -> None:
    """Capitals before small letters, and what needs two UTF-16 units before U+E000."""
    command = Command(1, {"b": "4", "a": "3", "B": "1", "_": "2", "\ue000": "6", "😀": "5"})
    assert signed_content(command) == b"123456"


def test_text_with_half_a_surrogate_pair_is_signed_with_a_question_mark() -> None:
    assert signed_content(Command(1, {"a": "x\ud800"})) == b"x?"
    assert signature(b"", "\ud800") == signature(b"", "?")


def test_credentials_when_printed_keep_their_secrets() -> None:
    assert repr(Credentials("me", "secret", "token")) == "Credentials(access_key='me')"
