"""Writes the pages that the code itself knows best: `python docs/generate.py`. A test fails when they are stale."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import click

from rocketline.cli.commands import rocketline
from rocketline.nameserver.config import ENVIRONMENT_PREFIX, NameServerConfig
from rocketline.settings.declared import INT_MAX, Declared, declared
from rocketline.settings.sources import environment_name

REFERENCE = Path(__file__).parent / "reference"
_HELP_WIDTH = 80

_SETTINGS_HEAD = """\
# Settings of the name server

<!-- Written by docs/generate.py. Change the declarations in rocketline.nameserver.config and rocketline.net.config. -->

The keys are Apache's. `rocketline nameserver -p` shows the values in force and where each came from; the
[guide](../name-server.md#settings) tells how files, the environment and options go together.

An update is what `mqadmin updateNamesrvConfig` sends to a running server. The last column says when it counts: at once,
at the next start, or never, because the key is protected or, like those of TLS, not open to that command.
"""

_SECTIONS = {"": "The name server", "network": "Network", "tls": "TLS"}

_NAMES_HEAD = """
## Other names

A variable of the environment is `ROCKETLINE_NAMESERVER_` and the key in upper case. In TOML a setting goes by Apache's
key or by its place.
"""

_COMMANDS_HEAD = """\
# Command line

<!-- Written by docs/generate.py. Change the commands in rocketline.cli. -->

The command comes with `pip install 'rocketline[cli]'`. It ends with status 0, with 1 when something failed, and with 2
when an option or a setting is wrong.
"""


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    return {REFERENCE / "settings.md": settings_page(), REFERENCE / "commands.md": commands_page()}


def settings_page() -> str:
    settings = list(declared(NameServerConfig).values())
    lines = [_SETTINGS_HEAD]
    for section, title in _SECTIONS.items():
        lines += [f"\n## {title}\n", "| setting | default | meaning | update |", "|---|---|---|---|"]
        lines += [_row(setting) for setting in settings if ".".join(setting.path[:-1]) == section]
    lines += [_NAMES_HEAD, "| key | environment | TOML |", "|---|---|---|"]
    lines += [f"| `{s.key}` | {_variables(s)} | `{'.'.join(s.path)}` |" for s in settings]
    return "\n".join(lines) + "\n"


def _row(setting: Declared) -> str:
    meaning = f"{setting.rules.help} {_allowed(setting)}".strip()
    return f"| `{setting.key}` | {_default(setting)} | {meaning} | {_update(setting)} |"


def _allowed(setting: Declared) -> str:
    """What may be set, nothing where that goes without saying."""
    if setting.type is int and (setting.rules.low, setting.rules.high) != (0, INT_MAX):
        return f"At least {setting.rules.low}." if setting.rules.high == INT_MAX else f"At most {setting.rules.high}."
    is_choice = issubclass(setting.type, Enum) and not setting.rules.only_default
    return f"{setting.allowed[0].upper()}{setting.allowed[1:]}." if is_choice else ""


def _default(setting: Declared) -> str:
    value = setting.value_in(NameServerConfig())
    if isinstance(value, Path) and value.is_relative_to(Path.home()):
        value = Path("~") / value.relative_to(Path.home())
    text = setting.format(value)
    return f"`{text}`" if text else "(empty)"


def _update(setting: Declared) -> str:
    if setting.rules.is_protected or setting.rules.is_own or setting.rules.only_default:
        return "never"
    return "at once" if setting.rules.is_live else "next start"


def _variables(setting: Declared) -> str:
    names = (ENVIRONMENT_PREFIX + environment_name(setting.key), *setting.rules.environment)
    return ", ".join(f"`{name}`" for name in names)


def commands_page() -> str:
    parts = [f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in _help_texts(rocketline, "rocketline", None)]
    return _COMMANDS_HEAD + "".join(parts)


def _help_texts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width = context.max_content_width = _HELP_WIDTH
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in sorted(command.commands):
            yield from _help_texts(command.commands[below], below, context)


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
