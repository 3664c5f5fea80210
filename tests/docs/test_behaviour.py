"""The numbered rules of docs/behaviour.md: each is there once and has a status, and tests and rules know each other."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.markdown_pages import ROOT, anchors, name

PAGE: Final = ROOT / "docs" / "behaviour.md"
DIFFERENCES: Final = ROOT / "docs" / "differences.md"
NUMBERS: Final = [*(f"S{number}" for number in range(1, 255)), *(f"C{number}" for number in range(1, 231))]
KEPT, KEPT_OTHERWISE, NOT_YET = "kept", "kept otherwise", "not there yet"

_ROW = re.compile(r'^\| <a id="(?P<anchor>[^"]*)"></a>(?P<number>[^ ]+) \| .+ \| (?P<status>[^|]+) \|$', re.MULTILINE)
_WHERE = re.compile(r"\]\(differences\.md#([^)]+)\)")
_CITATION = re.compile(r"\b[SC]\d{1,3}\b")
_NOQA = re.compile(r"noqa:[A-Z0-9, ]+")


class Rule(NamedTuple):
    """A row of the page. `where` are the headings of differences.md that its status leads to."""

    number: str
    anchor: str
    status: str
    where: list[str]


class Citation(NamedTuple):
    """A rule's number in a docstring or comment. `is_tests`: in the docstring of a test itself."""

    number: str
    place: str
    is_tests: bool


@cache
def rules() -> list[Rule]:
    rows = _ROW.finditer(PAGE.read_text("utf-8"))
    return [
        Rule(row["number"], row["anchor"], row["status"].partition(":")[0], _WHERE.findall(row["status"]))
        for row in rows
    ]


@cache
def citations() -> list[Citation]:
    found: list[Citation] = []
    for file in sorted(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")):
        text = _NOQA.sub("", file.read_text("utf-8"))
        if _CITATION.search(text):
            found += _of_docstrings(file, text)
            found += _of_comments(file, text)
    return found


def _of_docstrings(file: Path, text: str) -> Iterator[Citation]:
    """Of whatever stands there for its own sake: docstrings of modules, classes, functions and attributes."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    of_tests = {id(node.body[0]) for node in functions if node.name.startswith("test_")}
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                place = f"{name(file)}:{node.lineno}"
                for number in _CITATION.findall(docstring):
                    yield Citation(number, place, id(node) in of_tests)


def _of_comments(file: Path, text: str) -> Iterator[Citation]:
    if not any(_CITATION.search(line.partition("#")[2]) for line in text.splitlines()):
        return  # to read tokens takes long
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            for number in _CITATION.findall(token.string):
                yield Citation(number, f"{name(file)}:{token.start[0]}", is_tests=False)


def test_every_rule_is_there_once_and_in_order() -> None:
    assert [rule.number for rule in rules()] == NUMBERS


def test_every_rule_can_be_linked_to() -> None:
    assert [rule for rule in rules() if rule.anchor != rule.number.lower()] == []


def test_every_rule_has_a_status_that_is_explained() -> None:
    assert [rule for rule in rules() if rule.status not in (KEPT, KEPT_OTHERWISE, NOT_YET)] == []


def test_what_is_kept_otherwise_leads_to_a_difference_and_nothing_else_does() -> None:
    assert [rule for rule in rules() if (rule.status == KEPT_OTHERWISE) != (len(rule.where) == 1)] == []


def test_differences_that_rules_lead_to_are_there() -> None:
    headings = anchors(DIFFERENCES)
    assert [rule for rule in rules() if not headings.issuperset(rule.where)] == []


def test_every_number_that_is_cited_is_a_rule() -> None:
    known = {rule.number for rule in rules()}
    assert [citation for citation in citations() if citation.number not in known] == []


@pytest.mark.parametrize("status", [KEPT, KEPT_OTHERWISE])
def test_every_rule_that_is_kept_is_cited_by_a_test(status: str) -> None:
    cited = {citation.number for citation in citations() if citation.is_tests}
    assert [rule.number for rule in rules() if rule.status == status and rule.number not in cited] == []


def test_no_test_cites_a_rule_that_is_not_kept_yet() -> None:
    missing = {rule.number for rule in rules() if rule.status == NOT_YET}
    assert [citation for citation in citations() if citation.is_tests and citation.number in missing] == []
