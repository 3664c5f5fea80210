"""Where values come from: a file, the environment, flags. Each value is given with its origin."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from rocketline.errors import ConfigError
from rocketline.settings.declared import Declared
from rocketline.settings.properties import format_properties, parse_properties


class Layer(IntEnum):
    """Who gave a value; a greater layer wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3
    UPDATE = 4


class Origin(NamedTuple):
    """Where a value was found.

    >>> print(Origin(Layer.FILE, "namesrv.conf:3"))
    file namesrv.conf:3
    """

    layer: Layer
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.layer.name.lower()} {self.detail}".rstrip()


DEFAULT = Origin(Layer.DEFAULT)


class Given(NamedTuple):
    """A name, the text given for it, and who gave it."""

    name: str
    text: str
    origin: Origin


class Flag(NamedTuple):
    """A value from the command line: the option as the user wrote it, Apache's key, the text."""

    option: str
    key: str
    text: str


def from_file(path: Path) -> list[Given]:
    """The pairs of a `.toml` file, or of Apache's property text in a file of any other name. Raises `ConfigError`."""
    try:
        data = path.read_bytes()
        return list(_from_toml(path, data) if path.suffix == ".toml" else _from_properties(path, data))
    except OSError as error:
        raise ConfigError(
            [f"{path}: {(error.strerror or str(error)).lower()}; name a file that can be read"]
        ) from error
    except ConfigError as error:
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path}: this is not TOML: {error}"]) from error


def from_environment(known: Collection[Declared], environ: Mapping[str, str], prefix: str) -> Iterator[Given]:
    """Apache's own variables, then ours over them; a variable with our prefix that is no setting is given as it is."""
    names = {name: setting.key for setting in known for name in setting.rules.environment}
    names |= {prefix + environment_name(setting.key): setting.key for setting in known}
    for name, key in names.items():
        if name in environ:
            yield Given(key, environ[name], Origin(Layer.ENVIRONMENT, name))
    for name in environ:
        if name.startswith(prefix) and name not in names:
            yield Given(name, environ[name], Origin(Layer.ENVIRONMENT, name))


def from_flags(flags: Iterable[Flag]) -> Iterator[Given]:
    for option, key, text in flags:
        yield Given(key, text, Origin(Layer.FLAG, option))


def environment_name(key: str) -> str:
    """Apache's key as the end of a variable's name: upper case, words parted by underscores.

    >>> environment_name("tls.server.keyPath")
    'TLS_SERVER_KEY_PATH'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace(".", "_").upper()


def file_content(path: Path, values: Mapping[str, str], bare_keys: Iterable[str]) -> bytes:
    """`values` as `from_file` will read them from `path`. In TOML, numbers and booleans (`bare_keys`) go unquoted."""
    if path.suffix != ".toml":
        return format_properties(values).encode()
    bare = frozenset(bare_keys)
    lines = [f"{_quoted(key)} = {text if key in bare else _quoted(text)}\n" for key, text in sorted(values.items())]
    return "".join(lines).encode("utf-8", "replace")


def _from_properties(path: Path, data: bytes) -> Iterator[Given]:
    for key, text, line in parse_properties(data):
        yield Given(key, text, Origin(Layer.FILE, f"{path}:{line}"))


def _from_toml(path: Path, data: bytes) -> Iterator[Given]:
    origin = Origin(Layer.FILE, str(path))
    for name, value in _flattened("", tomllib.loads(data.decode())):
        if not isinstance(value, str | int | float):
            raise ConfigError([f"{name}: it must be a text, a number, true or false"])
        yield Given(name, str(value).lower() if isinstance(value, bool) else str(value), origin)


def _flattened(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Nested tables as dotted names, so that `tls.server.mode = …` and `[tls.server]` both give Apache's key."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _quoted(text: str) -> str:
    """A TOML string, good as a key too: JSON's escapes, and the one control character that JSON lets through."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
