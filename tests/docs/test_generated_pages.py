"""The pages that are written by `docs/generate.py` tell what the code knows now."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rocketline.admin import sync as admin_sync
from rocketline.broker.config import BrokerConfig
from rocketline.cli.commands import rocketline
from rocketline.client.consumer.pull_options import PullOptions
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.options import ClientOptions, Tls
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.push.options import PushOptions
from rocketline.client.rebalance.options import ConsumerOptions
from rocketline.nameserver.config import NameServerConfig
from rocketline.pipelines.config_section import Section
from rocketline.pipelines.definition_file import load as load_pipeline
from rocketline.settings.declared import declared
from rocketline.spark.options import store as store_options
from rocketline.spark.options import table as option_table
from support.markdown_pages import ROOT, name
from support.pipelines.files import CHAIN, written

GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate.py"))
GENERATED: dict[Path, str] = GENERATOR["pages"]()
SETTINGS, BROKER_SETTINGS, CLIENT_OPTIONS, SPARK_OPTIONS, COMMANDS = (
    (ROOT / "docs" / "reference" / page).read_text("utf-8")
    for page in ("settings.md", "broker-settings.md", "client-options.md", "spark-options.md", "commands.md")
)


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_generated_page_is_fresh(page: Path) -> None:
    assert page.read_text("utf-8") == GENERATED[page], f"run `.venv/bin/python docs/generate.py`, commit {name(page)}"


@pytest.mark.parametrize("key", declared(NameServerConfig))
def test_every_setting_is_documented(key: str) -> None:
    assert f"\n| `{key}` |" in SETTINGS


def test_every_setting_of_the_broker_is_documented_once() -> None:
    assert [key for key in declared(BrokerConfig) if BROKER_SETTINGS.count(f"\n| `{key}` |") != 1] == []


def test_reference_shows_every_area_of_admin() -> None:
    page = (ROOT / "docs" / "api" / "admin.md").read_text("utf-8")
    areas = [
        area for area in vars(admin_sync).values() if isinstance(area, type) and area.__module__ == admin_sync.__name__
    ]
    shown = {each.strip() for members in re.findall(r"members: \[(.+)\]", page) for each in members.split(",")}
    assert {area.__name__ for area in areas if issubclass(area, admin_sync.BlockingArea)} - {"BlockingArea"} <= shown


def test_every_page_of_a_guide_can_be_reached_from_the_first() -> None:
    """Not only from the list beside it, which the forge does not show."""
    docs = ROOT / "docs"
    reached, waiting = set[Path](), [docs / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\(([\w-]+\.md)[)#]", page.read_text("utf-8"))
            waiting += [docs / link for link in links]
    assert set(docs.glob("*.md")) - reached == set()


@pytest.mark.parametrize(
    "kind", [ClientOptions, Tls, ProducerOptions, ConsumerOptions, PushOptions, LitePullOptions, PullOptions]
)
def test_every_option_of_a_client_is_explained_and_has_its_name_in_java(kind: type) -> None:
    meanings: dict[str, tuple[str, str]] = GENERATOR["option_meanings"](kind)

    assert meanings
    assert [option for option, (meaning, java) in meanings.items() if not meaning or not java] == []
    assert [option for option in meanings if f"\n| `{option}` |" not in CLIENT_OPTIONS] == []


def test_every_option_of_the_spark_connector_is_documented() -> None:
    options = [*option_table.OPTIONS, *store_options.OPTIONS]

    assert [
        option.name for option in options if not option.meaning or f"\n| `{option.name}` |" not in SPARK_OPTIONS
    ] == []


def test_every_key_of_a_pipelines_file_is_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    has = Section.has

    def noted(self: Section, key: str) -> bool:
        asked.add(key)
        return has(self, key)

    monkeypatch.setattr(Section, "has", noted)
    load_pipeline(written(tmp_path, CHAIN + 'topic = "revenue"\n'))
    page = (ROOT / "docs" / "pipelines.md").read_text("utf-8")

    assert len(asked) > 30
    assert [key for key in sorted(asked) if f"`{key}`" not in page and f"`{key}.<name>`" not in page] == []


def _all_commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _all_commands(below, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), list(_all_commands(rocketline, "rocketline")), ids=str)
def test_every_command_and_option_is_documented(path: str, command: click.Command) -> None:
    _, heading, section = COMMANDS.partition(f"\n## {path}\n")
    options = [
        option for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts
    ]

    assert heading
    assert [option for option in options if option not in section.partition("\n## ")[0]] == []
