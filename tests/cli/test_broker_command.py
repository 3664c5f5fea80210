"""`rocketline broker`: its settings shown, its failures told in a line, its life in the foreground."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rocketline.broker.config import load_settings
from rocketline.cli.commands import rocketline
from rocketline.settings.properties import format_properties
from rocketline.store.filesystem import DiskFileSystem
from rocketline.testing.exchange import ask
from rocketline.testing.server_process import free_port
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.server_commands import running


def invoke(*arguments: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(rocketline, ["broker", *arguments])


def written(folder: Path, **settings: str) -> str:
    """A `broker.conf` for a broker on loopback with a store of small files."""
    own = {
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(free_port()),
        "storePathRootDir": str(folder / "store"),
        "mappedFileSizeCommitLog": "1048576",
    }
    path = folder / "broker.conf"
    path.write_text(format_properties(own | settings), "ascii")
    return str(path)


def test_print_config_shows_every_value_and_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerClusterName = Tea\nsendMessageThreadPoolNums=64\nbrokerNam=b\n")
    result = invoke("-c", str(file), "-n", "a:1;b:2", "-p", ROCKETLINE_BROKER_BROKER_NAME="pot")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}

    assert result.exit_code == 0
    assert rows["brokerClusterName"] == ["Tea", f"file {file}:1"]
    assert rows["brokerName"] == ["pot", "environment ROCKETLINE_BROKER_BROKER_NAME"]
    assert rows["namesrvAddr"] == ["a:1;b:2", "flag -n"]
    assert rows["flushDiskType"] == ["ASYNC_FLUSH", "default"]
    assert rows.keys() == {row.key for row in load_settings().table()}
    assert result.stderr.splitlines() == [
        f"without effect: brokerNam in file {file}:3 (did you mean brokerName?)",
        f"without effect: sendMessageThreadPoolNums in file {file}:2",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("brokerRole=SLAVE", "a broker of Rocketline is a master without replicas"),
        ("brokerRole=SYNC_MASTER", "a broker of Rocketline is a master without replicas"),
        ("brokerId=1", "a broker of Rocketline is a master without replicas"),
        ("authenticationEnabled=true", "access control is not part of Rocketline yet"),
        ("aclEnable=true", "access control is not part of Rocketline yet"),
        ("enableControllerMode=true", "a broker of Rocketline is a master by itself"),
        ("enableDLegerCommitLog=true", "a broker of Rocketline is a master without replicas"),
        ("storeType=defaultRocksDB", "this kind of store is not part of Rocketline"),
        ("enableLmq=true", "this kind of store is not part of Rocketline"),
        ("storePathCommitLog=/a,/b", "a log on several paths is not supported"),
        ("namesrvAddr=nowhere", "'nowhere' is no address"),
    ],
)
def test_setting_that_we_cannot_honour_stops_the_start_with_status_2(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{line}\n")
    result = invoke("-c", str(file))

    assert result.exit_code == 2
    assert result.stdout == ""
    (told,) = result.stderr.splitlines()
    assert line.partition("=")[0] in told
    assert problem in told


def test_taken_port_is_one_clear_line_with_status_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(
            tmp_path, "broker", "--log-level", "error", "-c", written(tmp_path, listenPort=str(port))
        ) as process:
            output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert line.startswith(f"rocketline: cannot listen on 127.0.0.1:{port}: another program listens there already")
    assert "listenPort" in line
    assert not (tmp_path / "store" / "abort").exists(), "the store was closed cleanly"


def test_locked_store_is_one_clear_line_with_status_1(tmp_path: Path) -> None:
    with running(tmp_path, "broker", "-c", written(tmp_path)) as first:
        assert first.stderr is not None
        while "broker ready" not in first.stderr.readline():
            pass
        with running(tmp_path, "broker", "--log-level", "error", "-c", written(tmp_path)) as second:
            output, errors = second.communicate()

    assert second.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert line.startswith(f"rocketline: {tmp_path / 'store'}")
    assert f"is locked by process {first.pid}" in line


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.ENOSPC, "no space left on device; free some disk space"),
        (errno.EDQUOT, "disk quota exceeded; free some disk space"),
        (errno.EIO, "input/output error"),
    ],
)
def test_disk_that_refuses_the_start_is_one_line_with_the_path_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
) -> None:
    def refuse(files: DiskFileSystem, path: Path, data: bytes) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(DiskFileSystem, "write_file", refuse)
    result = invoke("-c", written(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"rocketline: {tmp_path / 'store' / 'abort'}: {problem}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_cleanly_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "broker", "--log-format", "json", "-c", written(tmp_path)) as process:
        assert process.stderr is not None
        events = [json.loads(process.stderr.readline())]
        while events[-1]["event"] != "broker ready":
            events.append(json.loads(process.stderr.readline()))
        answer = ask(events[-1]["address"], Command(RequestCode.GET_BROKER_CONFIG))
        process.send_signal(number)
        output, errors = process.communicate()

    assert "no name server" in events[0]["event"]
    assert b"brokerClusterName=DefaultCluster" in answer.body
    assert process.returncode == 0
    assert output == ""
    assert [json.loads(line)["event"] for line in errors.splitlines()] == ["broker closing", "broker closed"]
    assert not (tmp_path / "store" / "abort").exists(), "the next start need not look for damage"
