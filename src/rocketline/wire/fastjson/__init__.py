"""The JSON that Java's fastjson reads and writes: a superset of JSON that RocketMQ's bodies depend on.

Java writes the keys of a map as they are, so a map from broker ids has bare numbers for keys, `{0:"a"}`, and a map
from queues has whole objects, `{{"brokerName":"b","queueId":0,"topic":"T"}:100}`. Releases up to 5.3 also replace an
object that occurs twice by a reference to its first place, `{"$ref":"$.path"}`.

`parse` reads all of that, and what fastjson tolerates besides: comments, single quotes, names without quotes, a comma
too many, numbers like `+1`, `01`, `1.` and `1L`. Most bodies are plain JSON, or would be but for bare integers; the
standard library reads them, and only what it refuses goes to the tolerant parser. Where both can read, both give the
same value.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire.fastjson.parser import Pairs, parse_standard, parse_tolerantly
from rocketline.wire.fastjson.references import resolve

TOLERATED_CHARACTERS_MAX = 4 * 1024 * 1024
"""What Python itself reads for a stranger, at up to a second for a million characters. What we wrote ourselves or asked
for is read whatever its size."""

_INTEGER_KEY = re.compile(r"(?<=[{,\s])(-?\d++)(?=\s*+:)", re.ASCII)
_CONSTANT_TEXTS = {None: "null", True: "true", False: "false"}


def parse(data: bytes, *, tolerated_max: int | None = TOLERATED_CHARACTERS_MAX) -> Any:
    """The value in `data`: None, bool, int, float, str, list, dict or `Pairs`. Raises `RemoteProtocolError`.

    All keys of a dict are text: `{0:1}` and `{"0":1}` are the same. References are replaced by what they refer to.
    What `json` cannot read is read up to `tolerated_max` characters; all of it if that is None.

    >>> parse(b'{0:"a",1:{"k":{"$ref":"$[0]"}}}')
    {'0': 'a', '1': {'k': 'a'}}
    """
    text = _as_text(data)
    try:
        value = _parse_text(text, tolerated_max)
    except RecursionError:
        raise RemoteProtocolError(f"JSON body of {len(data)} bytes is nested too deeply") from None
    if '"$ref"' in text:
        _check_length(text, tolerated_max, "references")
        value = resolve(value, values_max=2 * len(text))
    return value


def parse_quickly(data: bytes, *, tolerated_max: int) -> Any:
    """The same; but beyond so many characters nothing is read except standard JSON, without references."""
    text = _as_text(data)
    if len(text) <= tolerated_max:
        return parse(data)
    try:
        value = parse_standard(text)
    except (ValueError, RecursionError) as error:
        problem = f"JSON body of {len(text)} characters must be standard JSON beyond {tolerated_max}: {error}"
        raise RemoteProtocolError(problem) from None
    if '"$ref"' in text:
        _check_length(text, tolerated_max, "references")
    return value


def _as_text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"JSON body of {len(data)} bytes is no UTF-8 at byte {error.start}") from None


def _parse_text(text: str, tolerated_max: int | None) -> Any:
    try:
        return parse_standard(text)
    except ValueError:
        pass
    try:
        return parse_standard(_with_quoted_integer_keys(text))
    except ValueError:
        _check_length(text, tolerated_max, "objects for keys, or mistakes")
        return parse_tolerantly(text)


def _with_quoted_integer_keys(text: str) -> str:
    """Bare integers as keys are the usual reason why `json` refuses; tables of offsets have a great many, with blanks
    around them in files.

    Should one of these quotes land within a string, it ends that string before a digit, which `json` refuses.
    """
    return '"'.join(_INTEGER_KEY.split(text))  # it gives keys and what is between by turns


def _check_length(text: str, length_max: int | None, content: str) -> None:
    if length_max is not None and len(text) > length_max:
        raise RemoteProtocolError(f"JSON body with {content} has {len(text)} characters; {length_max} are allowed")


def write(value: Any) -> bytes:
    """`value` in the dialect, without blanks: integer keys bare, the keys of `Pairs` as objects, UTF-8 unescaped.

    Half of a surrogate pair becomes a question mark, as in Java. Raises `LocalProtocolError` for what JSON cannot hold.

    >>> write({"addrs": {0: "a", 1: "b"}, "tps": 0.0})
    b'{"addrs":{0:"a",1:"b"},"tps":0.0}'
    """
    try:
        return _text(value).encode("utf-8", "replace")
    except LocalProtocolError:
        raise
    except (RecursionError, ValueError) as error:  # it contains itself, or an integer of more than 4,300 digits
        raise LocalProtocolError(f"value cannot be written: {error}") from None


def write_strict(value: Any) -> bytes:
    """`value` in standard JSON without blanks: every key quoted, map keys in order, UTF-8 unescaped as 5.5.0 has it.

    >>> write_strict({"addrs": {1: "b", 0: "é"}}).decode()
    '{"addrs":{"0":"é","1":"b"}}'
    """
    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)
        return text.encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"value cannot be written as standard JSON: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return _CONSTANT_TEXTS[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join([f'{_key_text(key)}:{_text(entry)}' for key, entry in value.items()])}}}"
    if isinstance(value, Pairs):
        return f"{{{','.join([f'{_text(key)}:{_text(entry)}' for key, entry in value.items])}}}"
    raise LocalProtocolError(f"JSON cannot hold a {type(value).__name__}")


def _key_text(key: Any) -> str:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return _text(key)
    raise LocalProtocolError(f"a key of an object must be text or an integer, not {type(key).__name__}")
