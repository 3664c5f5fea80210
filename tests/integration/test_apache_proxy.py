"""How Apache's proxy is started, with a Python program in the place of its JVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rocketline.testing.apache import ApacheProxy, Release
from rocketline.testing.server_process import ServerFailedError, accepts_connections

PROGRAM = """#!{python}
import json, pathlib, socket, sys
config = pathlib.Path(sys.argv[sys.argv.index("-pc") + 1])
starts = config.with_name("starts")
starts.write_text((starts.read_text() if starts.exists() else "") + "|")
if len(starts.read_text()) < {good_start}:
    sys.exit("create system broadcast topic failed")
server = socket.create_server(("127.0.0.1", json.loads(config.read_text())["grpcServerPort"]))
sys.stdin.read()
"""


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return Release("5.5.0", tmp_path, tmp_path)


def java(folder: Path, monkeypatch: pytest.MonkeyPatch, *, good_start: int) -> None:
    """Only the start of this number does not end at once."""
    program = folder / "tools" / "java"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, good_start=good_start))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_proxy_that_ends_at_its_start_is_started_again(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, monkeypatch, good_start=3)
    names, settings = ("127.0.0.1:1", "127.0.0.1:2"), {"transactionHeartbeatPeriodSecond": 1}
    with ApacheProxy(release, tmp_path / "home", name_servers=names, settings=settings) as proxy:
        assert accepts_connections(proxy.port)
        assert proxy.log().count("create system broadcast topic failed") == 2
    assert not proxy.is_running
    config = json.loads((tmp_path / "home" / "rmq-proxy.json").read_text())
    assert (config["namesrvAddr"], config["proxyMode"]) == ("127.0.0.1:1;127.0.0.1:2", "CLUSTER")
    assert config["transactionHeartbeatPeriodSecond"] == 1


def test_proxy_that_keeps_ending_is_given_up(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, good_start=99)
    proxy = ApacheProxy(release, tmp_path / "home", name_servers=["127.0.0.1:1"])
    with pytest.raises(ServerFailedError, match=r"Apache's proxy .* ended with code 1"):
        proxy.__enter__()
    assert (tmp_path / "home" / "starts").read_text() == "||||"
