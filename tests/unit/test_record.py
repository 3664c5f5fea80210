"""A record behaves as the frozen dataclass of the same text."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rocketline.record import record


@record
class Point:
    """A record that can be pickled, because its module has it."""

    x: int
    y: int = 0
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Twin:
    """The same as a dataclass."""

    x: int
    y: int = 0
    labels: list[str] = field(default_factory=list)


CALLS: list[Callable[[type[Any]], Any]] = [
    lambda cls: cls(1),
    lambda cls: cls(1, 2),
    lambda cls: cls(1, 2, ["a"]),
    lambda cls: cls(1, y=3),
    lambda cls: cls(y=3, x=1),
    lambda cls: dataclasses.replace(cls(1), y=4),
    lambda cls: copy.copy(cls(1, 2)),
    lambda cls: copy.deepcopy(cls(1, 2, ["b"])),
    lambda cls: pickle.loads(pickle.dumps(cls(1, 2, ["b"]))),
]
WRONG: list[Callable[[type[Any]], Any]] = [
    lambda cls: cls(),
    lambda cls: cls(1, 2, [], 4),
    lambda cls: cls(1, x=1),
    lambda cls: cls(1, z=1),
    lambda cls: hash(cls(1)),  # there is a list in it
]


@pytest.mark.parametrize("call", CALLS)
def test_record_is_made_as_a_dataclass_is(call: Callable[[type[Any]], Any]) -> None:
    made, twin = call(Point), call(Twin)
    assert dataclasses.astuple(made) == dataclasses.astuple(twin)
    assert repr(made) == repr(twin).replace("Twin", "Point")
    assert made == call(Point)
    assert made != twin


@pytest.mark.parametrize("call", WRONG)
@pytest.mark.parametrize("cls", [Point, Twin])
def test_wrong_call_is_a_type_error(cls: type[Any], call: Callable[[type[Any]], Any]) -> None:
    with pytest.raises(TypeError):
        call(cls)


@pytest.mark.parametrize("cls", [Point, Twin])
def test_record_cannot_be_changed(cls: type[Any]) -> None:
    made = cls(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.x
    assert not hasattr(made, "__dict__")
    assert made.x == 1
    assert made.labels is not cls(1).labels


def test_each_use_of_a_pattern_finds_the_fields_in_their_order() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_hash_and_equality_leave_out_what_is_not_compared_and_the_text_what_is_not_shown() -> None:
    @record
    class Account:
        name: str
        password: str = field(default="", repr=False, compare=False)

    assert Account("a", "secret") == Account("a")
    assert hash(Account("a", "secret")) == hash(Account("a"))
    assert "secret" not in repr(Account("a", "secret"))


def test_records_without_slots_are_the_bases_of_another() -> None:
    @record(kw_only=True, slots=False)
    class Left:
        left: int = 1

    @record(kw_only=True, slots=False)
    class Right:
        right: int = 2

    @record(kw_only=True, slots=False)
    class Both(Left, Right):
        both: int = 3

    made = Both(right=5)
    assert (made.left, made.right, made.both) == (1, 5, 3)
    with pytest.raises(TypeError, match="takes nothing by place"):
        Left(1)  # type: ignore[call-arg]


def test_own_methods_and_post_init_are_kept() -> None:
    @record
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

        def __repr__(self) -> str:
            return "even"

    assert repr(Even(2)) == "even"
    with pytest.raises(ValueError, match="odd"):
        Even(3)
