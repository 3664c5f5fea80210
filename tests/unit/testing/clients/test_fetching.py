"""Building the foreign clients, with stand-ins for their tools: what is made once, and what is named if missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketline.testing.cache import ToolError
from rocketline.testing.clients import ClientProgram, GrpcClient, go_client, java_grpc_client, node_client

Fetch = Callable[[Path], ClientProgram | GrpcClient]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the only one where programs are looked for."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("ROCKETLINE_APACHE_CACHE", str(tmp_path / "cache"))
    return folder


def write_tool(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $@" >> {folder}/calls\n: > made-by-{name}\n')
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("fetch", "missing", "there"),
    [
        (go_client, "go", ()),
        (node_client, "npm", ("node",)),
        (partial(java_grpc_client, proxy="127.0.0.1:1"), "mvn", ()),
        (partial(java_grpc_client, proxy="127.0.0.1:1"), "javac", ("mvn",)),
    ],
)
def test_missing_tool_is_named(tools: Path, tmp_path: Path, fetch: Fetch, missing: str, there: tuple[str]) -> None:
    for name in there:
        write_tool(tools, name)
    with pytest.raises(ToolError, match=f"`{missing}`.*install"):
        fetch(tmp_path)
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_client_is_built_once_beside_its_sources(tools: Path, tmp_path: Path) -> None:
    write_tool(tools, "go")
    program = go_client(tmp_path).command[0]
    assert go_client(tmp_path).command[0] == program
    assert {"main.go", "go.mod", "made-by-go"} <= {path.name for path in Path(program).parent.iterdir()}
    assert (tools / "calls").read_text().count("\n") == 1
