"""Expressions in SQL beside Apache's own filter library: the same outcome for each, whatever it is."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rocketline.errors import ExpressionError
from rocketline.filter import compile_sql
from rocketline.testing.apache import Release
from support.apache.java_programs import run_java
from support.sql_expressions import laid_out, made_expression, made_properties

pytestmark = pytest.mark.interop


def ours(expression: str, data: bytes) -> str:
    try:
        compiled = compile_sql(expression)
    except ExpressionError:
        return "parse-error"
    try:
        found = {True: "match", False: "no-match", None: "unknown"}[compiled.evaluate(data)]
    except ValueError:
        found = "evaluation-error"
    assert compiled.matches(data) is (found == "match"), (expression, data)
    return found


@pytest.mark.parametrize(
    ("seed", "count"), [(228, 6_000), pytest.param(242, 40_000, marks=[pytest.mark.thorough, pytest.mark.timeout(300)])]
)
def test_generated_expressions_are_answered_as_by_apache(
    release: Release, tmp_path: Path, seed: int, count: int
) -> None:
    """S228, S229, S230, S231, S232, S233, S234, S235, S236, S239, for thousands of expressions and messages."""
    random = Random(seed)
    pairs = [(made_expression(random), laid_out(random, made_properties(random))) for _ in range(count)]
    lines = "".join(f"{_packed(expression.encode())}\t{_packed(properties)}\n" for expression, properties in pairs)
    theirs = run_java(release, tmp_path, "EvaluateSql", text=lines, timeout_s=300)
    assert len(theirs) == count
    for (expression, properties), expected in zip(pairs, theirs, strict=True):
        assert ours(expression, properties) == expected, (expression, properties)
    seen = Counter(theirs)
    assert min(seen[word] for word in ("match", "no-match", "unknown", "evaluation-error", "parse-error")) > count // 50


def _packed(data: bytes) -> str:
    return b64encode(data).decode()
