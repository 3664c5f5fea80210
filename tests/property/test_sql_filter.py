"""Expressions of all kinds: the fast function and the exact one agree, and nothing but our own error is ever raised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import ExpressionError
from rocketline.filter import compile_sql
from rocketline.filter.tokens import KEYWORDS
from rocketline.wire.properties import encode_properties
from support.sql_expressions import expressions, properties


@given(expressions, properties)
def test_the_fast_function_says_what_the_exact_one_says(expression: str, given_properties: dict[str, str]) -> None:
    try:
        compiled = compile_sql(expression)
    except ExpressionError:
        return
    data = encode_properties(given_properties)
    try:
        is_true = compiled.evaluate(data) is True
    except ValueError:
        is_true = False
    assert compiled.matches(data) is is_true


_SIGNS = "a b _$x = <> > >= < <= ( ) , + - 0 5 5L 1.5 .5e3 'x' '' '''' -- /* */ ! é"
_WORDS = st.sampled_from([*sorted(KEYWORDS), *_SIGNS.split(), '"', "\n", "9" * 20])


@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=25).map(" ".join)), st.binary(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str, data: bytes) -> None:
    try:
        compiled = compile_sql(text)
    except ExpressionError as error:
        assert 0 <= error.at <= len(text)  # noqa: PT017  # nothing else may come
        return
    assert compiled.matches(data) in (True, False)
