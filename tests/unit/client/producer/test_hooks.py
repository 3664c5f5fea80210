from __future__ import annotations

import pytest

from rocketline.client.producer.hooks import MessageKind, SendContext, SendHooks, SendMode, hooked
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue


class Hook:
    def __init__(self, name: str, seen: list[str], error: Exception | None = None) -> None:
        self._name, self._seen, self._error = name, seen, error

    def before_send(self, context: SendContext) -> None:
        self._note("before")

    def after_send(self, context: SendContext) -> None:
        self._note(f"after {type(context.error).__name__}")

    def check_forbidden(self, context: SendContext) -> None:
        self._note("check")

    def _note(self, when: str) -> None:
        self._seen.append(f"{self._name} {when}")
        if self._error is not None:
            raise self._error


def context(message: Message | None = None) -> SendContext:
    messages = (message or Message("T", b"x"),)
    return SendContext("P", messages, MessageQueue("T", "b", 0), "b:1", SendMode.SYNC, "id", "", unit_mode=False)


def test_hooks_have_their_turns_and_see_the_outcome() -> None:
    seen: list[str] = []
    hooks = SendHooks([Hook("1", seen), Hook("2", seen, RuntimeError())], [Hook("f", seen)])

    def attempt() -> None:
        with hooks.around(context()):
            seen.append("attempt")
            raise KeyError

    with pytest.raises(KeyError):
        attempt()
    assert seen == ["f check", "1 before", "2 before", "attempt", "1 after KeyError", "2 after KeyError"]


def test_forbidden_attempt_is_not_made_and_not_shown() -> None:
    seen: list[str] = []
    hooks = SendHooks([Hook("1", seen)], [Hook("f", seen, PermissionError())])
    with pytest.raises(PermissionError), hooks.around(context()):
        seen.append("attempt")
    assert seen == ["f check"]


def test_kind_of_a_message_is_known_by_its_delay() -> None:
    assert context().kind is MessageKind.NORMAL
    assert context(Message("T", b"x", delay_level=1)).kind is MessageKind.DELAY
    assert (bool(SendHooks()), bool(SendHooks([Hook("1", [])]))) == (False, True)


def test_message_hooks_follow_each_other_and_one_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Marks:
        def __init__(self, mark: str) -> None:
            self._mark = mark

        def prepare_message(self, message: Message) -> Message:
            if not self._mark:
                raise KeyError("no mark")
            return Message.of(message.topic, message.body + self._mark.encode(), message.properties, message.flag)

    given = Message("T", b"x")
    assert hooked([Marks("1"), Marks(""), Marks("2")], given).body == b"x12"
    assert given.body == b"x"
    assert "message hook failed" in caplog.text
