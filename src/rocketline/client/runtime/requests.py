"""Requests made of their headers, and answers turned into errors."""

from __future__ import annotations

from functools import cache

from rocketline.errors import response_error
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import REQUEST_HEADERS, Header


def command_of(header: Header | Command, body: bytes = b"") -> Command:
    """The request with this header. Some headers serve several requests: of these make the command yourself.

    >>> command_of(headers.GetRouteInfoRequestHeader(topic="T")).code
    <RequestCode.GET_ROUTEINFO_BY_TOPIC: 105>
    """
    if isinstance(header, Command):
        return header
    return Command(_unique_codes()[type(header)], headers.encode(header), body)


@cache
def _unique_codes() -> dict[type[Header], RequestCode]:
    kinds = list(REQUEST_HEADERS.values())
    return {kind: RequestCode(code) for code, kind in REQUEST_HEADERS.items() if kinds.count(kind) == 1}


def checked(answer: Command, request: Command, address: str) -> Command:
    """`answer`, if its code is success; else the error of its code is raised."""
    if answer.code == ResponseCode.SUCCESS:
        return answer
    try:
        name = RequestCode(request.code).name
    except ValueError:
        name = f"request {request.code}"
    raise response_error(answer.code, answer.remark, request=name, address=address)
