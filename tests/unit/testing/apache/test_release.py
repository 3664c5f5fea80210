"""`fetch` with stand-ins for java, javac and mvn: what is made once, what a failure leaves behind, what is named."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rocketline.testing.apache import ToolError, fetch

TOOLS = {
    "java": """echo 'openjdk version "17.0.1"' >&2""",
    "javac": """while [ "$1" != -d ]; do shift; done; : > "$2/Made.class" """,
    "mvn": """for word; do case $word in -DoutputDirectory=*) : > "${word#*=}/rocketmq.jar";; esac; done""",
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-ins, the only ones to be found; each notes its name in `calls` when it runs."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name, script in TOOLS.items():
        write_tool(folder, name, script)
    return folder


def write_tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {name} >> {folder}/calls\n{script}\n")
    path.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def test_fetch_downloads_and_compiles_once(tools: Path, tmp_path: Path) -> None:
    first, second = fetch("5.5.0", cache=tmp_path / "cache"), fetch("5.5.0", cache=tmp_path / "cache")
    assert first == second
    assert (first.jars / "rocketmq.jar").exists()
    assert sorted(path.name for path in first.classes.iterdir()) == ["Made.class", "rmq.logback-test.xml"]
    assert calls(tools) == ["java", "mvn", "javac", "java"]


def test_fetch_by_several_at_once_downloads_once(tools: Path, tmp_path: Path) -> None:
    callers = [threading.Thread(target=fetch, kwargs={"cache": tmp_path / "cache"}) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert calls(tools).count("mvn") == 1


def test_fetch_that_fails_halfway_leaves_nothing_that_looks_complete(tools: Path, tmp_path: Path) -> None:
    write_tool(tools, "mvn", TOOLS["mvn"] + "\necho no such host; exit 1")
    with pytest.raises(ToolError, match="no such host"):
        fetch(cache=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["apache-5.5.0-jars.lock"]
    write_tool(tools, "mvn", TOOLS["mvn"])
    assert (fetch(cache=tmp_path / "cache").jars / "rocketmq.jar").exists()


@pytest.mark.parametrize(("tool", "remedy"), [("java", "a JDK"), ("javac", "a JDK"), ("mvn", "Maven")])
def test_fetch_without_a_tool_names_it(tools: Path, tmp_path: Path, tool: str, remedy: str) -> None:
    (tools / tool).unlink()
    with pytest.raises(ToolError, match=f"`{tool}`.*install {remedy}"):
        fetch(cache=tmp_path / "cache")


def test_fetch_with_an_old_java_names_its_version(tools: Path, tmp_path: Path) -> None:
    write_tool(tools, "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(ToolError, match=r"17 or newer.*11\.0\.2"):
        fetch(cache=tmp_path / "cache")


def test_cache_folder_is_named_by_the_environment(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETLINE_APACHE_CACHE", str(tmp_path / "named"))
    assert fetch().jars.parent == tmp_path / "named"
    monkeypatch.delenv("ROCKETLINE_APACHE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetch().jars.parent == tmp_path / "xdg" / "rocketline"
