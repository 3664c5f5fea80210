"""Whether a row is judged the same each time: what a step expects must depend on the row alone.

A step's table and its side table are computed by themselves, and after a crash an hour later. A predicate that asks
for the time, or for a random number, may say no when the one is made and yes when the other is: the row is in neither.
Spark's analysed plan says what a predicate depends on, through all columns that steps before it in the same query
compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import Pipeline, Step
from rocketline.pipelines.steps.expectations import judgements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOCKS: Final = {
    "CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentTimestampNanos", "LocalTimestamp", "LocalTimestampNanos",
    "Now",
}  # fmt: skip
"""Expressions that Catalyst calls deterministic, since they are the same throughout one execution."""
_SUBQUERIES: Final = {
    "Exists", "FunctionTableSubqueryArgumentExpression", "LateralSubquery", "ListQuery", "ScalarSubquery",
}  # fmt: skip
_CONVERSIONS: Final = {"Cast", "ParseToDate", "ParseToTimestamp"}
_TIMES: Final = ("date", "timestamp")
"""How the names of types begin that a word for the current time can become."""
_WORDS_FOR_NOW: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.I)
"""Texts that Spark takes for the current time, where a time is wanted."""
_QUOTE: Final = re.compile("['\"]")


class _Cause(NamedTuple):
    what: str
    column: str = ""
    """The column whose value it makes; empty if it stands in the predicate."""


OWN_QUERY: Final = (
    "what an earlier step computes is the same for ever once it is read from that step's table (own_query = true)"
)


def refuse_nondeterministic(pipeline: Pipeline, step: Step, rows: DataFrame, *, remedy: str = OWN_QUERY) -> None:
    """Raise `ConfigError` if what the step expects of its input, `rows`, may hold once and not the next time.

    `remedy` says what helps if an earlier step computes a column that it asks for.
    """
    names, judged = judgements(rows, step)
    plan = _Plan(judged._jdf.queryExecution().analyzed())
    for name, expression in zip(names, plan.results(), strict=True):
        if cause := plan.cause(expression) or plan.cause_of_rows():
            told = _told(cause, step, remedy)
            raise ConfigError([f"{pipeline.file.name}: steps.{step.name}.expect {name!r}: {told}"])


def _told(cause: _Cause, step: Step, remedy: str) -> str:
    place = f" in column {cause.column}" if cause.column else ""
    hazard = (
        "a row could be in neither the table nor its quarantine"
        if step.quarantine is not None
        else "what is made of the rows, as a further table or a state, might not fit the table"
    )
    return (
        f"{cause.what}{place} may differ each time that a row is looked at, and {hazard}: compare with a column of the "
        f"row, as storeTimestamp; {remedy}"
    )


class _Plan:
    """An analysed plan of Catalyst's: which expressions make its columns, and which decide what rows there are."""

    def __init__(self, plan: Any, makers: dict[int, list[Any]] | None = None) -> None:
        """`makers`: of the columns around a subquery, which may refer to them."""
        self._plan = plan
        self._makers: dict[int, list[Any]] = dict(makers or {})
        """The expressions that make each column, by its id."""
        self._deciders: list[Any] = []
        self._known: dict[int, _Cause | None] = {}
        self._is_sampled = False
        self._read(plan)

    def results(self) -> list[Any]:
        """What makes each column of the whole."""
        return list(_each(self._plan.expressions()))

    def _read(self, node: Any) -> None:
        for expression in _each(node.expressions()):
            if _kind(expression) == "Alias":
                self._makers.setdefault(expression.exprId().id(), []).append(expression.child())
            elif _kind(node) != "Project" or _kind(expression) != "AttributeReference":  # which it hands on
                self._deciders.append(expression)
        self._is_sampled |= _kind(node) == "Sample"
        for child in _each(node.children()):
            if _kind(node) == "Union":  # its columns have the ids of one child's
                for column, origin in zip(_each(node.output()), _each(child.output()), strict=True):
                    self._makers.setdefault(column.exprId().id(), []).append(origin)
            self._read(child)

    def cause_of_rows(self) -> _Cause | None:
        """Why there may be other rows the next time; None if there is no reason."""
        if self._is_sampled:
            return _Cause("a sample of rows")
        return next(filter(None, map(self.cause, self._deciders)), None)

    def cause(self, expression: Any) -> _Cause | None:
        """Why the expression may have another value the next time; None if there is no reason."""
        kind = _kind(expression)
        if kind in ("AttributeReference", "OuterReference"):
            return self._cause_of_column(expression)
        if kind == "Literal":
            return _time_of_parsing(expression)
        found = _word_for_now(expression) if kind in _CONVERSIONS else None
        if kind in _SUBQUERIES:
            found = _Plan(expression.plan(), self._makers)._cause_of_any()
        if found := found or next(filter(None, map(self.cause, _each(expression.children()))), None):
            return found
        return _Cause(_name(expression)) if kind in _CLOCKS or _is_random(expression) else None

    def _cause_of_any(self) -> _Cause | None:
        """Why there may be other rows the next time, or others in their columns."""
        return self.cause_of_rows() or next(filter(None, map(self.cause, _each(self._plan.output()))), None)

    def _cause_of_column(self, column: Any) -> _Cause | None:
        number = column.exprId().id()
        if number not in self._known:
            self._known[number] = None  # a union's column is made of one with the same id
            found = next(filter(None, map(self.cause, self._makers.get(number, []))), None)
            self._known[number] = found and _Cause(found.what, found.column or column.name())
        return self._known[number]


def _is_random(expression: Any) -> bool:
    """Catalyst calls it not deterministic for its own sake, not for what it is made of, which is looked at by itself.

    It calls all table functions of Python so that are not marked otherwise: those count as what they mostly are.
    """
    if expression.deterministic() or _kind(expression) in ("PythonUDTF", *_SUBQUERIES):
        return False
    return all(child.deterministic() for child in _each(expression.children()))


def _time_of_parsing(literal: Any) -> _Cause | None:
    """`timestamp 'now'` is a constant as soon as it is parsed, which happens for each table and batch by itself."""
    origin = literal.origin()
    if not literal.dataType().typeName().startswith(_TIMES) or origin.sqlText().isEmpty():
        return None
    written = origin.sqlText().get()[origin.startIndex().get() : origin.stopIndex().get() + 1]
    return _Cause(written) if _WORDS_FOR_NOW.match(_QUOTE.split(written, 1)[-1]) else None


def _word_for_now(conversion: Any) -> _Cause | None:
    """A text such as 'now' that is made a time."""
    child = conversion.children().apply(0)
    if _kind(child) != "Literal" or child.dataType().typeName() != "string":
        return None
    text = str(child.value())
    is_one = conversion.dataType().typeName().startswith(_TIMES) and _WORDS_FOR_NOW.match(text)
    return _Cause(f"'{text}'") if is_one else None


def _name(expression: Any) -> str:
    # A function of the user's has a name of its own.
    name = expression.name() if _kind(expression) in ("PythonUDF", "ScalaUDF") else expression.prettyName()
    return f"{name}()"


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))
