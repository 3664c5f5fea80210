"""Writes the pages that the code itself knows best: `python docs/generate.py`. A test fails when they are stale."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from rocketline.broker.config import BrokerConfig
from rocketline.broker.config.consumption import ClientsConfig, ConsumptionConfig, OffsetsConfig
from rocketline.broker.config.flow_control import FlowControlConfig, StatsConfig
from rocketline.broker.config.identity import IdentityConfig, RegistrationConfig
from rocketline.broker.config.pop import PopConfig
from rocketline.broker.config.topics import MessagesConfig, TopicsConfig
from rocketline.broker.config.transactions import TransactionsConfig
from rocketline.cli.commands import rocketline
from rocketline.client.consumer.pull_options import PullOptions
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.options import ClientOptions, Tls
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.push.options import PushOptions
from rocketline.client.rebalance.options import ConsumerOptions
from rocketline.nameserver.config import ENVIRONMENT_PREFIX, NameServerConfig
from rocketline.settings.declared import INT_MAX, Declared, declared
from rocketline.settings.sources import environment_name
from rocketline.spark.options import store as store_options
from rocketline.spark.options import table as option_table
from rocketline.spark.options.table import BATCH, SINK, STREAM, Option

REFERENCE = Path(__file__).parent / "reference"
_HELP_WIDTH = 80

_NAME_SERVER_HEAD = """\
# Settings of the name server

<!-- Written by docs/generate.py. Change the declarations in rocketline.nameserver.config and rocketline.net.config. -->

The keys are Apache's. `rocketline nameserver -p` shows the values in force and where each came from; the
[guide](../name-server.md#settings) tells how files, the environment and options go together.

An update is what `mqadmin updateNamesrvConfig` sends to a running server. The last column says when it counts: at once,
at the next start, or never, because the key is protected or, like those of TLS, not open to that command.
"""

_BROKER_HEAD = """\
# Settings of the broker

<!-- Written by docs/generate.py. Change the declarations in rocketline.broker.config and rocketline.store.config. -->

Every key that Apache's broker knows is known here, so that its `broker.conf` loads as it is. `rocketline broker -p`
shows the values in force and where each came from. Each layer goes over those before it: the defaults, the file (`-c`,
Apache's property text or TOML), the environment, the options.

A variable of the environment is `ROCKETLINE_BROKER_` and the key in upper case with its words parted by underscores, as
in `ROCKETLINE_BROKER_BROKER_CLUSTER_NAME`. In TOML a setting goes by Apache's key.

An update is what `mqadmin updateBrokerConfig` sends to a running broker. The last column says when it counts: at once,
at the next start, or never.
"""

_STOPS_HEAD = """
## Settings that stop the start

Rocketline has not what these are about, and to go on without it would cost safety, data or copies of it. Any other
value than the default ends the start with a line that names the key.

| setting | default | why |
|---|---|---|"""

_IDLE_HEAD = """
## Settings without effect

Read and listed, so that files and tools written for Apache's broker work. A value other than the default is named in
one line of the log.

| setting | default | why |
|---|---|---|"""

_COLUMNS = ["| setting | default | meaning | update |", "|---|---|---|---|"]
_NAME_SERVER_SECTIONS = {"": "The name server", "network": "Network", "tls": "TLS"}
_BROKER_SECTIONS = {"store": "The store", "network": "Network", "tls": "TLS"}
_BROKER_CONCERNS = {
    "Identity": IdentityConfig,
    "Name servers": RegistrationConfig,
    "Topics and groups": TopicsConfig,
    "Messages": MessagesConfig,
    "Transactions": TransactionsConfig,
    "Consumption": ConsumptionConfig,
    "POP": PopConfig,
    "Offsets": OffsetsConfig,
    "Clients": ClientsConfig,
    "Flow control": FlowControlConfig,
    "Statistics": StatsConfig,
}

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

_OPTIONS_HEAD = """\
# Options of clients

<!-- Written by docs/generate.py. Change the docstrings of the option classes in rocketline.client. -->

Every option is a keyword of a constructor: `Producer("127.0.0.1:9876", group="shop", retries=5)`. The defaults are
those of Java's client, unless [Differences](../differences.md#clients-for-python) says otherwise; the last column has
Java's name.

A name that ends in `_s` is a number of seconds, `_ms` a time in milliseconds since 1970, `_bytes` and `_mib` a size,
`_max` a bound. A keyword that does not exist is a `TypeError` that names the nearest one; values that cannot be are a
`ConfigError` that lists all of them.
"""

_OPTION_COLUMNS = ["| option | default | meaning | Java |", "|---|---|---|---|"]
_OPTION_SECTIONS: dict[str, tuple[type, str]] = {
    "All clients": (
        ClientOptions,
        "The name servers come first, without a keyword; without any, `NAMESRV_ADDR` names them.",
    ),
    "TLS": (Tls, "What `tls=Tls(…)` takes; see [TLS](../clients.md#tls)."),
    "Producer": (ProducerOptions, "And those of all clients."),
    "Push and lite pull consumer": (ConsumerOptions, "And those of all clients."),
    "Push consumer": (PushOptions, "And those of both consumers."),
    "Lite pull consumer": (LitePullOptions, "And those of both consumers."),
    "Pull consumer": (PullOptions, "And those of all clients."),
}


_SPARK_HEAD = """\
# Options of the Spark connector

<!-- Written by docs/generate.py. Change the tables in rocketline.spark.options.table and .store_options. -->

What `spark.read.format("rocketmq").option(name, value)` and its kin take; [Topics in Spark](../spark.md) is the guide.
Spark does not tell capitals from small letters in the names of options.
"""

_SPARK_COLUMNS = ["| option | default | for | meaning |", "|---|---|---|---|"]
_SPARK_USES = {STREAM: "streams", BATCH: "batches", SINK: "writing"}
_SPARK_SECTIONS: dict[str, tuple[str, Iterable[Option]]] = {
    "Messages": (
        'Of `format("rocketmq")`.',
        [option for option in option_table.OPTIONS if not option.key.startswith(option_table.CLIENT_PREFIX)],
    ),
    "Clients": (
        'Of `format("rocketmq")`: who we are, and how connections are made. The names are Java\'s, behind `rocketmq.`.',
        [option for option in option_table.OPTIONS if option.key.startswith(option_table.CLIENT_PREFIX)],
    ),
    "Stores": ('Of `format("rocketmq-store")`, which only reads batches.', store_options.OPTIONS),
}


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    return {
        REFERENCE / "settings.md": name_server_page(),
        REFERENCE / "broker-settings.md": broker_page(),
        REFERENCE / "client-options.md": options_page(),
        REFERENCE / "spark-options.md": spark_page(),
        REFERENCE / "commands.md": commands_page(),
    }


def name_server_page() -> str:
    config, settings = NameServerConfig(), list(declared(NameServerConfig).values())
    lines = [_NAME_SERVER_HEAD]
    for section, title in _NAME_SERVER_SECTIONS.items():
        lines += _section(title, config, (s for s in settings if ".".join(s.path[:-1]) == section))
    lines += [_NAMES_HEAD, "| key | environment | TOML |", "|---|---|---|"]
    lines += [f"| `{s.key}` | {_variables(s)} | `{'.'.join(s.path)}` |" for s in settings]
    return "\n".join(lines) + "\n"


def broker_page() -> str:
    config, settings = BrokerConfig(), list(declared(BrokerConfig).values())
    stopping = [setting for setting in settings if setting.rules.only_default]
    idle = [setting for setting in settings if not setting.rules.has_effect and not setting.rules.only_default]
    used = [setting for setting in settings if setting not in stopping and setting not in idle]
    lines = [_BROKER_HEAD]
    for title, concern in _BROKER_CONCERNS.items():
        lines += _section(title, config, (s for s in used if s.path[0] in concern.__annotations__))
    for section, title in _BROKER_SECTIONS.items():
        lines += _section(title, config, (s for s in used if s.path[0] == section))
    lines += [_STOPS_HEAD, *(_reason(s, config, _sentence(s.rules.only_default)) for s in stopping)]
    lines += [_IDLE_HEAD, *(_reason(s, config, s.rules.help) for s in idle)]
    return "\n".join(lines) + "\n"


def _section(title: str, config: object, settings: Iterable[Declared]) -> list[str]:
    return [f"\n## {title}\n", *_COLUMNS, *(_row(setting, config) for setting in settings)]


def _row(setting: Declared, config: object) -> str:
    meaning = f"{setting.rules.help} {_allowed(setting)}".strip()
    return f"| `{setting.key}` | {_default(setting, config)} | {meaning} | {_update(setting)} |"


def _reason(setting: Declared, config: object, why: str) -> str:
    return f"| `{setting.key}` | {_default(setting, config)} | {why} |"


def _allowed(setting: Declared) -> str:
    """What may be set, nothing where that goes without saying."""
    if setting.type is int and setting.rules.high < INT_MAX:
        return f"At most {setting.rules.high}."
    if setting.type is int and setting.rules.low:
        return f"At least {setting.rules.low}."
    is_choice = issubclass(setting.type, Enum) and not setting.rules.only_default
    return _sentence(setting.allowed) if is_choice else ""


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _default(setting: Declared, config: object) -> str:
    if setting.rules.shown_default:
        return setting.rules.shown_default
    value = setting.value_in(config)
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


def options_page() -> str:
    lines = [_OPTIONS_HEAD]
    for title, (kind, text) in _OPTION_SECTIONS.items():
        meanings = option_meanings(kind)
        own = [field for field in fields(kind) if field.name in meanings]
        lines += [f"\n## {title}\n", text, "", *_OPTION_COLUMNS]
        lines += [_option_row(field, *meanings[field.name]) for field in own]
    return "\n".join(lines) + "\n"


def option_meanings(kind: type) -> dict[str, tuple[str, str]]:
    """What the docstrings below a class's own fields say: the meaning, and Java's name for it."""
    (declared_class,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared_class, ast.ClassDef)
    found = {}
    for field, below in pairwise([*declared_class.body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(words))):
                    meaning, _, java = " ".join(words.split()).partition("Java: ")
                    found[field.target.id] = meaning.strip(), java.removesuffix(".")
                case _:
                    found[field.target.id] = "", ""
    return found


def _option_row(field: Field[Any], meaning: str, java: str) -> str:
    java = re.sub(r"^(?!the )[\w.*]+(, [\w.]+$)?", lambda name: f"`{name[0]}`", java)
    text = f"{meaning} {_option_bounds(field)}".strip().replace("||", "\\|\\|")
    return f"| `{field.name}` | {_option_default(field)} | {text} | {java} |"


def _option_default(field: Field[Any]) -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if isinstance(value, Enum):
        return f"`{value.name}`"
    if isinstance(value, frozenset):
        return ", ".join(str(code) for code in sorted(value))
    if value in ((), ""):
        return "(none)"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value!r}`"


def _option_bounds(field: Field[Any]) -> str:
    low, above, high = (field.metadata.get(bound) for bound in ("low", "above", "high"))
    if high is not None:
        return f"{low} to {high}."
    return f"At least {low}." if low and low > 0 else "" if above is None else f"Above {above}."


def spark_page() -> str:
    lines = [_SPARK_HEAD]
    for title, (text, options) in _SPARK_SECTIONS.items():
        lines += [f"\n## {title}\n", text, "", *_SPARK_COLUMNS, *(_spark_row(option) for option in options)]
    return "\n".join(lines) + "\n"


def _spark_row(option: Option) -> str:
    uses = ", ".join(words for letter, words in _SPARK_USES.items() if letter in option.uses)
    default = f"`{option.default}`" if option.default else "(none)"
    return f"| `{option.name}` | {default} | {uses} | {option.meaning} |".replace("||", "\\|\\|")


def commands_page() -> str:
    parts = [f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in _help_texts(rocketline, "rocketline", None)]
    return _COMMANDS_HEAD + "".join(parts)


def _help_texts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width = context.max_content_width = _HELP_WIDTH
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in sorted(command.list_commands(context)):
            found = command.get_command(context, below)
            assert found is not None
            yield from _help_texts(found, below, context)


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
