"""The settings in force: loaded from all layers, asked for, changed while the server runs, saved."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from rocketline.errors import ConfigError
from rocketline.files import replace_file
from rocketline.settings.declared import MASK, Declared, declared
from rocketline.settings.sources import (
    DEFAULT,
    Flag,
    Given,
    Layer,
    Origin,
    file_content,
    from_environment,
    from_file,
    from_flags,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


class Unknown(NamedTuple):
    """A name that is no setting: it does nothing. `nearest` is the key that was perhaps meant."""

    name: str
    text: str
    origin: Origin
    nearest: str | None

    def __str__(self) -> str:
        hint = f" (did you mean {self.nearest}?)" if self.nearest else ""
        return f"{self.name} in {self.origin}{hint}"


class Row(NamedTuple):
    """One line of `Settings.table`."""

    key: str
    value: str
    origin: Origin
    help: str


class Update(NamedTuple):
    """What became of an update's keys."""

    live: tuple[str, ...]
    after_restart: tuple[str, ...]
    ignored: tuple[str, ...]


_Path: TypeAlias = tuple[str, ...]
"""The names that lead to a setting, section by section."""


@runtime_checkable
class Checked(Protocol):
    """A configuration class with rules that span several settings."""

    def problems(self) -> Iterable[str]:
        """What does not fit together, each with its remedy."""
        ...


class Settings(Generic[C]):
    """A configuration value and where each part of it came from.

    `value` is the one place where a change shows: `update` builds a new value and swaps it in. What is read from it on
    each use follows a change at once; what was taken from it at start keeps until the next start. `version` grows with
    each update.
    """

    def __init__(
        self, value: C, given: Mapping[str, Given], file_texts: Mapping[str, str], unknown: Iterable[Unknown]
    ) -> None:
        self.value = value
        self.version = 0
        self.unknown = tuple(unknown)
        self._known = declared(type(value))
        self._given = dict(given)
        self._file_texts = dict(file_texts)

    def origin(self, key: str) -> Origin:
        """Where the value of Apache's `key` came from."""
        return self._given[key].origin if key in self._given else DEFAULT

    @property
    def without_effect(self) -> list[str]:
        """What was given in vain, each with its origin: names that are no setting, and settings that change nothing."""
        default = type(self.value)()
        idle = (
            f"{key} in {given.origin}"
            for key, given in self._given.items()
            if not (setting := self._known[key]).rules.has_effect
            and setting.value_in(self.value) != setting.value_in(default)
        )
        return [*map(str, self.unknown), *idle]

    def properties(self) -> dict[str, str]:
        """All values by Apache's keys as "get config" lists them: unknown ones of the file too, passwords masked."""
        listed = {key: text for key, text in self._file_texts.items() if key not in self._known}
        for key, setting in self._known.items():
            if not setting.rules.is_own or key in self._given:
                listed[key] = self._shown(setting)
        return listed

    def table(self) -> list[Row]:
        """Every setting with its value, origin and meaning, in the order of the keys."""
        rows = sorted(self._known.items())
        return [Row(key, self._shown(setting), self.origin(key), setting.rules.help) for key, setting in rows]

    def update(self, pairs: Mapping[str, str]) -> Update:
        """Change what `pairs` names, by Apache's keys, and tell what became of each.

        Like Java's: a value that does not parse, an unknown key and one of our own change nothing. A key that the file
        holds without meaning keeps the new text. Protected keys are ignored here; who asks is to be told before.
        Raises `ConfigError`, with nothing changed, if the new values do not fit together.
        """
        values, given, ignored = dict[_Path, object](), dict[str, Given](), list[str]()
        for key, text in pairs.items():
            try:
                setting, new = self._parsed_update(key, text)
                values[setting.path] = new
                given[key] = Given(key, text, Origin(Layer.UPDATE))
            except ValueError:
                ignored.append(key)
        value = _with_values(self.value, values)
        if problems := list(_section_problems(value)):
            raise ConfigError(problems)
        meaningless = self._file_texts.keys() - self._known.keys()
        self._file_texts |= {key: pairs[key] for key in ignored if key in meaningless}
        self._given |= given
        self.value = value
        self.version += 1
        live = tuple(key for key in given if self._known[key].rules.is_live)
        return Update(live, tuple(key for key in given if key not in live), tuple(ignored))

    def save(self, path: Path) -> None:
        """Write the whole set to `path`, whose former content stays beside it as `.bak`. Raises `OSError`.

        What came from a flag, the environment or a second file is left as `path` had it: it was not meant to stay.
        """
        self.saving(path)()

    def saving(self, path: Path) -> Callable[[], None]:
        """What `save` would write now, to be called in any thread."""
        known = {key: text for key in self._known if (text := self._lasting_text(key)) is not None}
        bare = (key for key, setting in self._known.items() if setting.type in (bool, int))
        return partial(_replace_settings, path, file_content(path, self._file_texts | known, bare))

    def _parsed_update(self, key: str, text: str) -> tuple[Declared, object]:
        setting = self._known.get(key)
        if setting is None or setting.rules.is_own or setting.rules.is_protected:
            raise ValueError(key)
        return setting, _supported(self.value, setting, setting.parse_update(text))

    def _lasting_text(self, key: str) -> str | None:
        setting, layer = self._known[key], self.origin(key).layer
        if layer is Layer.UPDATE or (layer is Layer.DEFAULT and not setting.rules.is_own):
            return setting.format(setting.value_in(self.value))
        # In our own spelling: "TRUE" in quotes is good TOML, but it would not be once we write it bare.
        return setting.format(setting.parse(self._file_texts[key])) if key in self._file_texts else None

    def _shown(self, setting: Declared) -> str:
        text = setting.format(setting.value_in(self.value))
        return MASK if text and setting.rules.is_secret else text


def _replace_settings(path: Path, content: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        replace_file(path.with_name(path.name + ".bak"), path.read_bytes(), mode=0o600)
    replace_file(path, content, mode=0o600)


def load(
    cls: type[C],
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[Flag] = (),
    environment_prefix: str = "ROCKETLINE_",
) -> Settings[C]:
    """The settings of `cls` from its defaults, then the file, the environment and flags, each over those before it.

    Raises `ConfigError` with every problem that was found. A name that is no setting is no problem: it is remembered.
    """
    return _Loading(cls).run(file, environ or {}, flags, environment_prefix)


class _Loading(Generic[C]):
    """The state of one `load`."""

    def __init__(self, cls: type[C]) -> None:
        self.value = cls()
        self.known = declared(cls)
        self.keys = {name: setting.key for setting in self.known.values() for name in setting.names}
        self.given: dict[str, Given] = {}
        self.file_texts: dict[str, str] = {}
        self.unknown: list[Unknown] = []
        self.problems: list[str] = []

    def run(self, file: Path | None, environ: Mapping[str, str], flags: Iterable[Flag], prefix: str) -> Settings[C]:
        main = self.read(file) if file else []
        above = [*from_environment(self.known.values(), environ, prefix), *from_flags(flags)]
        for item in main:
            self.file_texts[self.keys.get(item.name, item.name)] = item.text
        for item in (*main, *self.included((*main, *above)), *above):
            self.take(item)
        # A value that does not parse was left at its default: rules that span settings would speak of the wrong value.
        problems = self.problems or list(_section_problems(self.value))
        if problems:
            raise ConfigError(problems)
        return Settings(self.value, self.given, self.file_texts, self.unknown)

    def read(self, file: Path) -> list[Given]:
        try:
            return from_file(file)
        except ConfigError as error:
            self.problems += error.problems
            return []

    def included(self, given: Iterable[Given]) -> Iterator[Given]:
        """What the files hold that settings point to. One that nobody pointed to may be missing."""
        named = {self.keys.get(item.name): item.text.strip() for item in given}
        for key, setting in self.known.items():
            if setting.rules.is_file_to_include:
                path = Path(named.get(key) or str(setting.value_in(self.value)))
                if named.get(key) or path.is_file():
                    yield from self.read(path)

    def take(self, item: Given) -> None:
        setting = self.known.get(self.keys.get(item.name, ""))
        if setting is None:
            self.unknown.append(Unknown(*item, self.nearest(item)))
            return
        try:
            self.value = _with_values(
                self.value, {setting.path: _supported(self.value, setting, setting.parse(item.text))}
            )
            self.given[setting.key] = item
        except ValueError as error:
            shown = MASK if setting.rules.is_secret else item.text
            self.problems.append(f"{item.origin}: {setting.key}={shown}: {error}")

    def nearest(self, item: Given) -> str | None:
        if item.origin.layer is Layer.ENVIRONMENT:
            return None
        folded = {name.lower(): name for name in self.keys}
        found = difflib.get_close_matches(item.name.lower(), folded, n=1, cutoff=0.8)
        return folded[found[0]] if found else None


def _section_problems(config: object) -> Iterator[str]:
    if isinstance(config, Checked):
        yield from config.problems()
    for field in dataclasses.fields(cast("DataclassInstance", config)):
        section = getattr(config, field.name)
        if dataclasses.is_dataclass(section):
            yield from _section_problems(section)


def _supported(config: object, setting: Declared, value: object) -> object:
    """The value, if the setting may have it. A `ValueError` says why not."""
    if setting.rules.only_default and value != setting.value_in(config):
        raise ValueError(setting.rules.only_default)
    return value


def _with_values(config: C, values: Mapping[_Path, object]) -> C:
    """`config` with some settings changed, each section made anew once: an update may name hundreds of them."""
    changed, below = dict[str, object](), dict[str, dict[_Path, object]]()
    for (name, *rest), value in values.items():
        if rest:
            below.setdefault(name, {})[tuple(rest)] = value
        else:
            changed[name] = value
    changed |= {name: _with_values(getattr(config, name), inner) for name, inner in below.items()}
    return cast("C", dataclasses.replace(cast("DataclassInstance", config), **changed)) if changed else config
