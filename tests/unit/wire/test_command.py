"""What a command's flag says."""

from __future__ import annotations

import pytest

from rocketline.wire.command import Command, response


@pytest.mark.parametrize(("flag", "is_response", "is_oneway"), [(0, False, False), (1, True, False), (2, False, True)])
def test_flag_tells_responses_and_oneways(flag: int, is_response: bool, is_oneway: bool) -> None:
    command = Command(10, flag=flag)
    assert (command.is_response, command.is_oneway) == (is_response, is_oneway)


def test_response_is_marked_as_one() -> None:
    made = response(17, "No topic", ext={"a": "b"}, body=b"x")
    assert made == Command(17, {"a": "b"}, b"x", flag=1, remark="No topic")


def test_response_when_made_twice_shares_no_fields() -> None:
    first, second = response(0), response(0)
    first.ext["a"] = "b"
    assert second.ext == {}
