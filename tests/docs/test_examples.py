"""Every example of the documentation does what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import click
import pytest
from click.testing import CliRunner

from rocketline.broker.config import load_settings as load_broker
from rocketline.cli.commands import rocketline
from rocketline.nameserver.config import load_settings as load_name_server
from rocketline.pipelines.definition_file import load as load_pipeline
from rocketline.testing import Server
from support.markdown_pages import PAGES, ROOT, Block, blocks, name
from support.spark.sessions import TEST_TIMEOUT_S, spark

__all__ = ["spark"]

DOCUMENTED = "127.0.0.1:9876"
"""Where the pages have their server. The tests put another one in its place."""
UNTIL_INTERRUPTED = "# until Ctrl-C"
PATIENCE_S = 30
CLIENT_COMMANDS = {
    "topic",
    "group",
    "message",
    "cluster",
    "send",
    "tail",
    "consume",
    "pipeline",
    "store",
    "timer",
    "transaction",
}
FILE_NAME = re.compile(r"# (\w+\.(?:py|toml))\n")
"""The first line of a block that is a file, which the examples after it use."""
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(autouse=True)
def _at_home_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


PYTHON_PAGES = [page for page in PAGES if blocks(page, "python")]
SPARK_PAGES = [page for page in PYTHON_PAGES if "spark_session(" in page.read_text("utf-8")]
LONG = pytest.mark.interop
"""Runs of pipelines take their time."""


@pytest.mark.parametrize("page", [page for page in PYTHON_PAGES if page not in SPARK_PAGES], ids=name)
def test_python_examples_run_in_order_and_print_what_is_shown(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, monkeypatch)


@pytest.mark.spark
@pytest.mark.timeout(TEST_TIMEOUT_S)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=LONG if page.stem == "pipelines" else ()) for page in SPARK_PAGES], ids=name
)
def test_examples_with_spark_do_as_well(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, monkeypatch)


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what stands on the page, from top to bottom, against a server of its own."""
    with server_of(page, monkeypatch) as address:
        namespace: dict[str, object] = {"__name__": "__main__"}
        for block in blocks(page, "python", "toml", "sh"):
            shown, text = block.shown.replace(DOCUMENTED, address), block.text.replace(DOCUMENTED, address)
            if file := FILE_NAME.match(text):
                Path(file[1]).write_text(text)
            elif block.language == "python":
                # The line numbers of the page, for whoever reads the traceback.
                code = compile("\n" * (block.line - 1) + text, str(page), "exec", dont_inherit=True)
                assert output(code, namespace, block, shown) == shown, f"{name(page)}:{block.line}"
            elif block.language == "sh":
                run_client_commands(block)


@contextlib.contextmanager
def server_of(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server for pages that have one at `DOCUMENTED`; there is none for the others."""
    if not any(DOCUMENTED in block.text for block in blocks(page, "python")):
        yield DOCUMENTED
        return
    with Server() as server:
        monkeypatch.setenv("NAMESRV_ADDR", server.address)
        yield server.address


def output(code: CodeType, namespace: dict[str, object], block: Block, shown: str) -> str:
    """What the example prints. One that goes on until Ctrl-C gets that once it has printed what is shown."""
    if UNTIL_INTERRUPTED not in block.text:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        return printed.getvalue()
    awaited = Awaited(shown)
    reader = threading.Thread(target=awaited.interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with contextlib.redirect_stdout(awaited), contextlib.suppress(KeyboardInterrupt):
            reader.start()
            try:
                exec(code, namespace)
            finally:  # an example that failed still gets its Ctrl-C here, and not in the middle of the next test
                reader.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return awaited.getvalue()


class Awaited(io.StringIO):
    """Collects what is printed, and knows what should be."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self._shown, self._is_complete = shown, threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if len(self.getvalue()) >= len(self._shown):
            self._is_complete.set()
        return written

    def interrupt(self) -> None:
        self._is_complete.wait(PATIENCE_S)
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        signal.pthread_kill(main_thread, signal.SIGINT)  # only this wakes it where it waits


def run_client_commands(block: Block) -> None:
    """Those that talk to a server and end by themselves."""
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        is_client = words[:1] == ["rocketline"] and words[1] in CLIENT_COMMANDS
        if is_client and not {"--follow", "--help", "--master"} & {*words} and "until Ctrl-C" not in line:
            result = CliRunner().invoke(rocketline, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, f"{name(block.page)}:{block.line}: {line}\n{result.output}"


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


HARMLESS = {place: words for place, words in ROCKETLINE.items() if words[-1:] == ["-p"]}


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
    if "[sources." in block.text:
        assert load_pipeline(file).steps
        return
    load = load_broker if block.text.startswith("# broker.") else load_name_server

    assert load(file).without_effect == []
