"""Where files lie by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.settings.places import at_home, data_folder, home


def test_places_at_home_follow_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert at_home("store/config")() == Path("/home/ada/store/config")


def test_user_without_a_home_is_at_home_where_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)

    assert home() == Path.cwd()


@pytest.mark.parametrize(
    ("platform", "named", "folder"),
    [
        ("linux", None, "/home/ada/.local/share"),
        ("linux", "/data", "/data"),
        ("darwin", None, "/home/ada/Library/Application Support"),
    ],
)
def test_data_folder_is_where_the_system_wants_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, named: str | None, folder: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if named:
        monkeypatch.setenv("XDG_DATA_HOME", named)

    assert data_folder() == Path(folder)
