"""Every example of the documentation does what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from markdown_pages import PAGES, ROOT, Block, blocks, name
from rocketline.broker.config import load_settings as load_broker
from rocketline.cli.commands import rocketline
from rocketline.nameserver.config import load_settings as load_name_server

MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(autouse=True)
def _at_home_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_examples_run_in_order_and_print_what_is_shown(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        # The line numbers of the page, for whoever reads the traceback.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert printed.getvalue() == block.shown, f"{name(page)}:{block.line}"


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Every command line of the documentation that starts `program`: where it stands, and its arguments."""
    for page in PAGES:
        for block in blocks(page, "sh", "console"):
            for number, line in enumerate(block.text.splitlines()):
                words = shlex.split(line.removeprefix("$ "), comments=True)
                while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                    words.pop(0)
                if words[:1] == [program]:
                    yield f"{name(page)}:{block.line + number}", words[1:]


ROCKETLINE = dict(commands("rocketline"))


@pytest.mark.parametrize("place", ROCKETLINE)
def test_rocketline_examples_are_understood(place: str) -> None:
    command, arguments = rocketline, list(ROCKETLINE[place])
    context = click.Context(command, info_name="rocketline")
    if arguments and not arguments[0].startswith("-"):
        _, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        found.make_context(found.name, arguments, parent=context)
    else:
        with pytest.raises(click.exceptions.Exit):  # --help and --version end at once
            command.make_context("rocketline", arguments)


HARMLESS = {place: words for place, words in ROCKETLINE.items() if words == ["demo"] or words[-1:] == ["-p"]}


@pytest.mark.parametrize("place", [place for place, words in HARMLESS.items() if "-c" not in words])
def test_harmless_rocketline_examples_run(place: str) -> None:
    assert CliRunner().invoke(rocketline, HARMLESS[place], catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize(("place", "words"), list(commands("make")))
def test_make_examples_name_targets(place: str, words: list[str]) -> None:
    targets = [word for word in words if "=" not in word]

    assert targets
    assert all(re.search(rf"^{target}:.*##", MAKEFILE, re.MULTILINE) for target in targets)


CONFIGURATIONS = [block for page in PAGES for block in blocks(page, "properties", "toml")]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=lambda block: f"{name(block.page)}:{block.line}")
def test_configuration_examples_load_without_a_complaint(block: Block, tmp_path: Path) -> None:
    file = tmp_path / ("example.toml" if block.language == "toml" else "example.conf")
    file.write_text(block.text)
    load = load_broker if block.text.startswith("# broker.") else load_name_server

    assert load(file).without_effect == []
