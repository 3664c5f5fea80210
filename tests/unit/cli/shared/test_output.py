"""Tables for people, JSON for machines."""

from __future__ import annotations

import json
from enum import Enum

import pytest

from rocketline.cli.shared.output import Output, duration, shown, size

COLUMNS = ["topic", "lag", "is_ordered", "delay_s", "log_bytes"]
ROWS: list[list[object]] = [["orders", 7, True, 0.25, 2048], ["a", None, False, None, 0]]


class Colour(Enum):
    RED = 1


def test_people_see_aligned_columns_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=False).table(COLUMNS, ROWS)
    assert capsys.readouterr().out == (
        "topic   lag  is ordered  delay      log\n"
        "orders    7  yes         250ms  2.0 KiB\n"
        "a         –  no              –      0 B\n"
    )


def test_people_see_no_control_characters_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever sends a message chooses its id, and with it what the terminal of an administrator did."""
    Output(is_json=False).table(["message_id", "keys"], [["\x1b[2J\x07a\nb", ["k\x9b1"]]])
    assert capsys.readouterr().out == "message id  keys\n\ufffd[2J\ufffda b    k\ufffd1\n"


def test_machines_see_an_object_per_line_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).table(COLUMNS, ROWS)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"topic": "orders", "lag": 7, "is_ordered": True, "delay_s": 0.25, "log_bytes": 2048}
    assert second["lag"] is None


def test_nothing_is_told_to_people_and_not_to_machines(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=False).table(["topic"], [], empty="no topics")
    Output(is_json=True).table(["topic"], [], empty="no topics")
    assert capsys.readouterr() == ("", "no topics\n")


def test_one_thing_is_a_line_for_each_field_or_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"message_id": "é", "keys": ["1", "2"], "colour": Colour.RED, "properties": {"a": "b"}}
    Output(is_json=False).record(values)
    assert capsys.readouterr().out == "message id  é\nkeys        1 2\ncolour      RED\nproperties  a=b\n"
    Output(is_json=True).record(values)
    assert json.loads(capsys.readouterr().out) == {**values, "colour": "RED"}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("x", "", "–"),
        ("x", [], "–"),
        ("x", {}, "–"),
        ("ratio", 0.123456, "0.123"),
        ("put_per_s", 1234.56, "1234.6"),
        ("name_ms", "text stays", "text stays"),
    ],
)
def test_values_are_shown_by_the_unit_of_their_name(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


def test_durations_and_sizes_have_the_units_that_fit() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 3600, 86_399)] == ["0ms", "1m", "1h", "23h 59m"]
    assert [size(count) for count in (0, 1024, 5 * 1024**3)] == ["0 B", "1.0 KiB", "5.0 GiB"]
