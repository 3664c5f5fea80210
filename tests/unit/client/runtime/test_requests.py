from __future__ import annotations

import pytest

from rocketline.client.runtime.requests import checked, command_of
from rocketline.errors import NoPermissionError, ResponseError
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import GetMaxOffsetRequestHeader, SendMessageRequestHeader


def test_header_of_one_request_names_its_code() -> None:
    command = command_of(GetMaxOffsetRequestHeader(topic="T", queue_id=1), b"body")
    assert (command.code, command.body) == (RequestCode.GET_MAX_OFFSET, b"body")
    assert (command.ext["topic"], command.ext["queueId"]) == ("T", "1")


def test_command_stays_itself() -> None:
    command = Command(34)
    assert command_of(command) is command


def test_header_of_several_requests_does_not() -> None:
    with pytest.raises(KeyError, match="SendMessageRequestHeader"):
        command_of(object.__new__(SendMessageRequestHeader))


def test_answer_without_success_is_an_error_that_names_request_and_address() -> None:
    assert checked(response(0, "a remark is no failure"), Command(34), "b:1").code == 0
    with pytest.raises(NoPermissionError, match=r"SEND_MESSAGE_V2 at b:1: code 16: no"):
        checked(response(16, "no"), Command(RequestCode.SEND_MESSAGE_V2), "b:1")
    with pytest.raises(ResponseError, match=r"request 4711 at b:1: code 3: no remark"):
        checked(response(3), Command(4711), "b:1")
