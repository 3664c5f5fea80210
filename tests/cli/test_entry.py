"""The command with and without the packages that it needs."""

from __future__ import annotations

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


def test_version_is_told() -> None:
    assert CliRunner().invoke(rocketline, ["--version"], prog_name="rocketline").output == f"rocketline {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["nameserver", "--help"], ["nameserver", "-h"]])
def test_help_shows_examples(arguments: list[str]) -> None:
    result = CliRunner().invoke(rocketline, arguments)

    assert result.exit_code == 0
    assert "Examples:\n    rocketline " in result.output


def test_unknown_option_is_refused_with_status_2() -> None:
    assert CliRunner().invoke(rocketline, ["nameserver", "--prot", "1"]).exit_code == 2
