"""What expressions mean: Apache's own cases, the rules by their numbers, and the odd ones that its sources hold."""

from __future__ import annotations

import time

import pytest

from rocketline.errors import ExpressionError
from rocketline.filter import EXPRESSION_MAX, code, compile_sql
from rocketline.wire.properties import encode_properties
from support.golden import read_lines

CASES = read_lines("sql92-5.5.0.jsonl")


def outcome(expression: str, properties: dict[str, str]) -> str:
    """In the words of the recorded cases."""
    try:
        compiled = compile_sql(expression)
    except ExpressionError:
        return "parse-error"
    data = encode_properties(properties)
    try:
        found = {True: "match", False: "no-match", None: "unknown"}[compiled.evaluate(data)]
    except ValueError:
        found = "evaluation-error"
    assert compiled.matches(data) is (found == "match"), "both functions say the same"
    assert compiled.matches(data.removesuffix(b"\x02")) is (found == "match"), "some Java releases leave it out"
    return found


def is_match(expression: str, **properties: str) -> bool:
    return outcome(expression, properties) == "match"


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_recorded_expression_has_the_recorded_outcome(case: dict[str, object]) -> None:
    """All of them were measured on Apache's own library."""
    written, properties = case["expression"], case["properties"]
    expression = written if isinstance(written, str) else "".join(text * times for text, times in written)  # type: ignore[attr-defined]
    if properties is None and case["is"] == "parses":
        compile_sql(expression)
    else:
        assert outcome(expression, properties or {}) == case["is"]  # type: ignore[arg-type]


def test_numbers_are_compared_with_properties_that_are_such() -> None:
    """S228, S229."""
    assert is_match("a > 5", a="6")
    assert not is_match("a > 5", a="5")
    assert not is_match("a > 5", a="x")
    assert not is_match("a > 5")
    assert is_match("a = 5", a="5")
    assert not is_match("a = 5", a="5.0")
    assert is_match("a = 5.0", a="5")
    assert is_match("a = 5.0", a="5.0")


def test_what_is_missing_is_unknown() -> None:
    """S230, S231."""
    assert not is_match("a <> 'x'")
    assert is_match("a IS NULL")
    assert not is_match("NOT (a = 'x')")
    assert is_match("NOT (a = 'x')", a="y")


def test_bounds_belong_to_what_is_between_them() -> None:
    """S232."""
    for value in ("1", "2", "3"):
        assert is_match("a BETWEEN 1 AND 3", a=value)
        assert not is_match("a NOT BETWEEN 1 AND 3", a=value)
    for value in ("0", "4"):
        assert not is_match("a BETWEEN 1 AND 3", a=value)
        assert is_match("a NOT BETWEEN 1 AND 3", a=value)


def test_in_has_strings() -> None:
    """S233."""
    assert is_match("a IN ('x','y')", a="x")
    assert not is_match("a IN ('x','y')", a="z")
    assert outcome("a IN (1,2)", {}) == "parse-error"


def test_what_fails_fails_all_of_it_unless_it_is_not_looked_at() -> None:
    """S234."""
    assert not is_match("a > 5 OR b = 'x'", a="abc", b="x")
    assert is_match("b = 'x' OR a > 5", a="abc", b="x")
    # The left side is unknown, so the right one is looked at, and fails; a third could not mend that.
    assert outcome("(b = 'x' AND a > 5) OR c = 'y'", {"a": "abc", "c": "y"}) == "evaluation-error"
    assert outcome("NOT (b = 'x' OR a > 5) OR c = 'y'", {"a": "abc", "c": "y"}) == "evaluation-error"
    assert is_match("(b = 'x' AND a > 5) OR c = 'y'", a="abc", b="z", c="y")


def test_parts_of_texts() -> None:
    """S235, S236."""
    assert is_match("a CONTAINS 'bc'", a="abcd")
    assert not is_match("a NOT CONTAINS 'bc'")
    assert is_match("NOT (a CONTAINS 'bc')")
    assert is_match("a STARTSWITH 'ab' AND a ENDSWITH 'cd'", a="abcd")


@pytest.mark.parametrize("expression", ["a != 5", "a == 5", "a > 'x'", "a > 0.0", "NOT a > 5", "5", "", "   "])
def test_what_apache_cannot_read_is_refused(expression: str) -> None:
    """S237."""
    with pytest.raises(ExpressionError):
        compile_sql(expression)


def test_what_stands_behind_a_whole_expression_is_ignored_and_told() -> None:
    """S238."""
    compiled = compile_sql("a > 5 garbage '")
    assert compiled.matches(b"a\x016\x02")
    assert compiled.ignored == "garbage '"
    assert not compile_sql("a > 5 -- no more\n").ignored


def test_true_and_false() -> None:
    """S239."""
    assert is_match("flag = TRUE", flag="true")
    assert is_match("flag = TRUE", flag="TRUE")
    assert not is_match("flag = TRUE", flag="1")
    assert is_match("flag = FALSE", flag="1")


def test_system_properties_are_properties() -> None:
    """S240."""
    assert is_match("TAGS = 't1'", TAGS="t1")


def test_keywords_have_any_case_and_names_their_own() -> None:
    """S241."""
    assert is_match("a is not null and b > 1", a="x", b="2")
    assert not is_match("A is not null", a="x")


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        ("5 = a", {}, "no-match"),  # the left side is known, so this is no riddle to Java
        ("'x' <> a", {}, "match"),
        ("a = b", {}, "match"),
        ("a = b", {"a": "1"}, "no-match"),
        ("a = b", {"b": "1"}, "unknown"),
        ("TRUE = a", {"a": "true"}, "evaluation-error"),
        ("TRUE = a", {}, "no-match"),
        ("a > -a", {"a": "1"}, "unknown"),
        ("-a = -b", {"a": "1"}, "match"),
        ("-(a > 5) IS NULL", {"a": "x"}, "evaluation-error"),
        ("(a = 1) = (b = 2)", {"a": "1", "b": "2"}, "match"),
        ("(a = 1) = (b = 2)", {"b": "2"}, "unknown"),
        ("(a = 1) = 'true'", {"a": "1"}, "evaluation-error"),
        ("'true' = (a = 1)", {"a": "1"}, "match"),
        ("(a = 1) = 1", {"a": "1"}, "no-match"),
        ("(a = 1) IS NULL", {}, "match"),
        ("a", {"a": "true"}, "no-match"),
        ("a", {}, "unknown"),
        ("NOT a", {"a": "x"}, "match"),
        ("TRUE", {}, "match"),
        ("NULL OR TRUE", {}, "match"),
        ("a = 5", {"a": "+5"}, "match"),
        ("a = 5", {"a": " 5"}, "evaluation-error"),
        ("a = 5", {"a": "5_0"}, "evaluation-error"),
        ("a = 5", {"a": "٥"}, "match"),
        ("a = 5", {"a": "0" * 5000 + "5"}, "match"),
        ("a > 5", {"a": "2147483648"}, "evaluation-error"),
        ("a > 2147483648", {"a": "2147483649"}, "match"),
        ("a > -2147483649", {"a": "-1"}, "match"),
        ("a > 5.5", {"a": "NaN"}, "match"),
        ("a > 5.5", {"a": "Infinity"}, "match"),
        ("a > 5.5", {"a": "inf"}, "evaluation-error"),
        ("a > 5.5", {"a": " 6f "}, "match"),
        ("a > 5.5", {"a": "0x1p3"}, "match"),
        ("a > b", {"a": "NaN", "b": "Infinity"}, "match"),
        ("a > b", {"a": "0.0", "b": "-0.0"}, "match"),
        ("9007199254740993 = 9007199254740992.0", {}, "match"),
        ("'5' = 5", {}, "match"),
        ("'x' = 5", {}, "evaluation-error"),
        ("5 BETWEEN 1 AND 10", {}, "match"),
        ("a BETWEEN -1 AND -5", {"a": "-3"}, "no-match"),
        ("a = ''", {"a": "x"}, "no-match"),
        ("a = 'ü\u2028'", {"a": "ü\u2028"}, "match"),
        ("a STARTSWITH 'grü'", {"a": "grün"}, "match"),
        ("a > 05", {"a": "1"}, "match"),
        ("a LIKE 'x'", {"a": "x"}, "no-match"),
        ("a = 5L", {"a": "5"}, "match"),
        ("a /* b */ = -- c\n 5", {"a": "5"}, "match"),
        ("a = --5", {"a": "5"}, "match"),
        ("$a_1 = 1.", {"$a_1": "1"}, "match"),
    ],
)
def test_the_odd_ones(expression: str, properties: dict[str, str], expected: str) -> None:
    assert outcome(expression, properties) == expected


@pytest.mark.parametrize("name", ["__class__", "p", "M", "v0", "X0", "t", "earlier", "lambda", "_", "$", "None"])
@pytest.mark.parametrize(
    "text", ["'", "\\", '"', "\\'", "\n", "{0}", "')] or exit() #", "b'x'", "\u2028", "\x00", "\\x02", "😀", "%s"]
)
def test_nothing_of_an_expression_is_code(name: str, text: str) -> None:
    """Names and texts that would mean something to Python are names and texts."""
    written = "'" + text.replace("'", "''") + "'"
    for expression in (
        f"{name} = {written}",
        f"{name} = {written} AND v0 IS NULL OR NOT ({name} <> {written})",
        f"{name} IN ({written}, 'y')",
        f"{name} CONTAINS {written} AND {name} STARTSWITH {written} AND {name} ENDSWITH {written}",
        f"{written} = {name}",
        f"({name} = {written}) = TRUE",
    ):
        assert outcome(expression, {name: text}) == "match", expression
        assert outcome(expression, {name: "other"}) != "match", expression


@pytest.mark.parametrize(
    "expression", ["a NOT b", "a IS b", "a IS NOT b", "a = NULL", "a > TRUE", "TRUE = 'x'", "a IN ()"]
)
def test_what_else_cannot_be_read(expression: str) -> None:
    assert outcome(expression, {}) == "parse-error"


def test_the_last_value_of_a_name_counts_unless_it_is_empty() -> None:
    """As Java reads properties."""
    matches = compile_sql("a = 'x'").matches
    assert matches(b"a\x01y\x02a\x01x\x02")
    assert not matches(b"a\x01x\x02a\x01y\x02")
    assert matches(b"a\x01x\x02a\x01\x02")
    assert not matches(b"ba\x01x\x02\x02a\x02")
    assert compile_sql("a IS NULL").matches(b"a\x01\x02a\x01\x02")
    assert not compile_sql("a <> 'x'").matches(b"a\x01x\x02")


def test_bytes_that_are_no_text_are_what_java_makes_of_them() -> None:
    data = b"a\x01\xff\x02b\x01\xfe\x02"
    assert compile_sql("a = '\ufffd' AND a = b").matches(data)
    assert not compile_sql("a = 'x'").matches(data)


def test_an_error_says_where_and_why() -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_sql("a > 5\n  AND b != 'x'")
    error = raised.value
    assert (error.line, error.column, error.at) == (2, 9, 14)
    assert str(error) == (
        "line 2, column 9, near \"!= 'x'\": '!' begins nothing that is known here; unequal is written <>"
    )
    with pytest.raises(ExpressionError, match=r"column 5, where it ends: it ends where a property"):
        compile_sql("a > ")


@pytest.mark.parametrize(
    "expression",
    [
        "(" * EXPRESSION_MAX,
        "NOT " * (EXPRESSION_MAX // 4),
        "-" * EXPRESSION_MAX,
        "+ " * (EXPRESSION_MAX // 2),
        "--" * (EXPRESSION_MAX // 2),
        "a" + "=a" * 16_000,
        "a " + "IS NULL " * 3_000,
        "a AND " * 5_000 + "a",
        "a > 1" + " OR a > 1" * 3_000,
        "'" * EXPRESSION_MAX,
        "/*" * 16_000,
        "1" * EXPRESSION_MAX,
        "1" * (EXPRESSION_MAX - 1) + ".",
        "a = " + "(" * 50 + "b" + ")" * 49,
        "x" * (EXPRESSION_MAX + 1),
        "a = '\ud800'",
        "-(" * 12 + "-a BETWEEN 1 AND 2" + ") BETWEEN 1 AND 2" * 12,
    ],
    ids=lambda text: text[:10].encode("ascii", "replace").decode(),
)
def test_a_monster_is_refused_soon(expression: str) -> None:
    """Nobody else at the broker waits for it."""
    begin = time.process_time()
    with pytest.raises(ExpressionError):
        compile_sql(expression)
    assert time.process_time() - begin < 0.1


_MONSTERS = {
    "digits, and a letter": b"a\x01" + b"5" * 32_000 + b"x",
    "hexadecimal digits, and a letter": b"a\x010x" + b"5" * 32_000 + b"x",
    "behind a point": b"a\x010x." + b"0" * 32_000 + b"p-3x",
    "an exponent": b"a\x01.5e" + b"5" * 32_000,
    "digits of another script": b"a\x01" + "٥".encode() * 16_000,
    "their zeros": b"a\x01" + "٠".encode() * 16_000 + b"5",
    "zeros": b"a\x01" + b"0" * 32_000,
    "blanks": b"a\x01" + b" " * 32_000 + b"5",
    "no UTF-8": b"a\x01" + b"\xff" * 32_000,
    "named often, and empty": b"a\x01\x02" * 10_000,
    "other names in between": b"a\x01\x02b\x01\x02" * 5_000,
}


@pytest.mark.parametrize("properties", _MONSTERS.values(), ids=_MONSTERS)
@pytest.mark.parametrize("expression", ["a > 5", "a > 5L", "a > 5.0", "a > b", "a = b", "a = 5", "a CONTAINS 'x'"])
def test_a_monstrous_property_is_looked_at_soon(expression: str, properties: bytes) -> None:
    """Whoever may send a message holds nobody up with it: what it costs is counted in bytes."""
    compiled = compile_sql(expression)
    compiled.matches(b"")
    begin = time.process_time()
    for _ in range(5):
        compiled.matches(properties)
    work = 5 * len(properties) * compiled.effort
    assert time.process_time() - begin < work * 2e-7, "many times what it takes"


def test_of_thousands_of_values_the_last_that_says_something_counts() -> None:
    matches = compile_sql("a = '7' AND b IS NULL AND c = '1'").matches
    for empties in (1, 2, 3, 7, 100, 1001):
        data = b"c\x011\x02" + b"a\x016\x02a\x017\x02" + b"a\x01\x02" * empties + b"b\x01\x02" * empties
        assert matches(data)
        assert matches(data + b"a\x01")
        assert not matches(data + b"a\x018\x02" + b"a\x01\x02" * empties)
        assert not matches(b"a\x01\x02" * empties + b"c\x011\x02")


def test_what_is_nested_as_deep_as_may_be_becomes_a_function() -> None:
    for wrap in ("({}) = (b = 2)", "NOT ({})", "(({}) AND b > 1) OR c > 1", "NOT (c > 1 OR (d = 'x' AND ({})))"):
        deepest = expression = "a = 1"
        while outcome(expression, {"a": "1"}) != "parse-error":
            deepest, expression = expression, wrap.format(expression)
        assert deepest.count("(") > 10


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("p > 1.5", "1" * 30_000 + "x"),
        ("p > 1.5", "0x" + "1" * 30_000),
        (" OR ".join(f"p > {number}" for number in range(256)), "\u0660" * 15_000),
        (" OR ".join(["p CONTAINS '" + "a" * 49 + "b" + "a" * 49 + "'"] * 250), "a" * 29_000),
    ],
    ids=["digits", "hex", "Arabic digits", "parts"],
)
def test_a_monster_of_a_property_is_looked_at_soon(expression: str, value: str) -> None:
    """One message with 30,000 digits and a letter once kept everybody waiting for 24 s."""
    wanted, properties = compile_sql(expression), encode_properties({"p": value})
    wanted.matches(b"")
    begin = time.process_time()
    wanted.matches(properties)
    assert time.process_time() - begin < 0.1


def test_a_property_that_is_empty_8000_times_is_looked_for_once() -> None:
    """However often an expression names it."""
    wanted = compile_sql(" OR ".join(f"(a IS NULL AND p > {number})" for number in range(100)))
    before = code._earlier.cache_info()
    assert not wanted.matches(b"p\x01\x02" * 8_000)
    after = code._earlier.cache_info()
    assert after.misses - before.misses == 1
    assert after.hits - before.hits == 99


def test_long_parts_of_texts_count_as_more_work() -> None:
    """Where all of a text nearly is what CONTAINS looks for, that takes as long as many comparisons."""
    assert compile_sql("a = 'x' AND b > 5").effort == 2
    assert compile_sql(f"p CONTAINS '{'a' * 80}' OR b = 5").effort == 12
