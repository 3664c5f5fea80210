"""The command with and without the packages and the streams that it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rocketline import __version__
from rocketline.cli.commands import rocketline
from rocketline.cli.entry import main


@pytest.mark.parametrize("package", ["click", "rich"])
def test_command_without_its_packages_prints_the_install_line(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rocketline.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as caught:
        main()

    message = (
        f"The rocketline command needs the package {package.title()}. Install it with: pip install 'rocketline[cli]'"
    )
    assert caught.value.code == message


def test_command_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "rocketline", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout.endswith(f"{__version__}\n")


def test_interrupted_command_has_the_status_that_shells_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rocketline.cli.servers.nameserver.nameserver.callback", interrupted)
    result = CliRunner().invoke(rocketline, ["nameserver"])
    assert (result.exit_code, result.stderr) == (130, "rocketline: interrupted\n")


def run_in_shell(redirection: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "rocketline", *arguments]
    return subprocess.run(shell, capture_output=True, text=True, check=False, env={**os.environ, **environ})


@pytest.mark.parametrize("arguments", [["nameserver", "-p"], ["demo", "--no-spark"]])
def test_command_started_with_closed_streams_works(arguments: list[str]) -> None:
    assert run_in_shell("<&- >&- 2>&-", *arguments).returncode == 0


def test_output_that_the_terminal_cannot_show_is_replaced() -> None:
    done = run_in_shell("", "demo", "--no-spark", PYTHONIOENCODING="latin-1", COLUMNS="100")

    assert (done.returncode, done.stderr) == (0, "")
    assert "as producer: ?" in done.stdout


def test_output_that_cannot_be_written_is_one_line_with_status_1() -> None:
    done = run_in_shell(">/dev/full", "nameserver", "-p")

    assert (done.returncode, done.stderr) == (1, "rocketline: no space left on device; free some disk space\n")


def test_output_that_nobody_reads_ends_quietly() -> None:
    done = run_in_shell("| :", "nameserver", "-p")

    assert done.stderr == ""


def test_version_is_told() -> None:
    assert CliRunner().invoke(rocketline, ["--version"], prog_name="rocketline").output == f"rocketline {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["nameserver", "--help"], ["nameserver", "-h"]])
def test_help_shows_examples(arguments: list[str]) -> None:
    result = CliRunner().invoke(rocketline, arguments)

    assert result.exit_code == 0
    assert "Examples:\n    rocketline " in result.output


def test_unknown_option_is_refused_with_status_2() -> None:
    assert CliRunner().invoke(rocketline, ["nameserver", "--prot", "1"]).exit_code == 2
