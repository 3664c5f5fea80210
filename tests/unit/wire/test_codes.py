"""Numbers on the wire, against those in recorded frames."""

from __future__ import annotations

import re

import pytest

from rocketline.wire.codes import LANGUAGE_CODES, LANGUAGES, V4_9_4, RequestCode, ResponseCode, release_number
from support.golden import golden_frames


def test_request_code_when_recorded_with_a_name_has_that_name() -> None:
    named = {
        (int(match[1]), match[2])
        for golden in golden_frames()
        if (match := re.match(r"(?:(?:reply|answer) -?\d+ to )?(\d+) ([A-Z][A-Z0-9_]+)\b", golden.what))
    }
    assert len(named) > 80
    assert {(code, RequestCode(code).name) for code, _ in named} == named


def test_response_code_when_recorded_is_known() -> None:
    seen = {int(match[1]) for golden in golden_frames() if (match := re.match(r"reply (\d+)", golden.what))}
    assert seen <= {code.value for code in ResponseCode}
    assert len(seen) > 10


@pytest.mark.parametrize(
    ("release", "number"),
    [((4, 0, 0), 213), ((4, 5, 2), 317), ((4, 9, 3), 399), ((5, 0, 0), 413), ((5, 3, 3), 479), ((5, 5, 0), 513)],
)
def test_release_number_follows_the_list_of_releases(release: tuple[int, int, int], number: int) -> None:
    assert release_number(*release) == number


def test_languages_are_numbered_as_in_binary_headers() -> None:
    assert (LANGUAGES[9], LANGUAGE_CODES["PYTHON"], len(LANGUAGES), V4_9_4) == ("GO", 3, 14, 401)
