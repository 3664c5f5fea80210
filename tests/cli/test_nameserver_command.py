"""`rocketline nameserver`: its settings shown, its failures told in a line, its life in the foreground."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rocketline.cli.commands import rocketline
from rocketline.nameserver.config import load_settings


def invoke(*arguments: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(rocketline, ["nameserver", *arguments])


def test_print_config_shows_every_value_and_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("# ours\nserverSocketBacklog=7\nlistnPort=1\ntls.server.keyPassword=hunter2\n")
    result = invoke("-c", str(file), "--port", "9000", "-p", ROCKETLINE_NAMESERVER_BIND_ADDRESS="127.0.0.1")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}

    assert result.exit_code == 0
    assert rows["listenPort"] == ["9000", "flag --port"]
    assert rows["bindAddress"] == ["127.0.0.1", "environment ROCKETLINE_NAMESERVER_BIND_ADDRESS"]
    assert rows["serverSocketBacklog"] == ["7", f"file {file}:2"]
    assert rows["orderMessageEnable"] == ["false", "default"]
    assert rows["tls.server.keyPassword"] == ["******", f"file {file}:4"]
    assert rows.keys() == {row.key for row in load_settings().table()}
    assert result.stderr == f"without effect: listnPort in file {file}:3 (did you mean listenPort?)\n"


@pytest.mark.parametrize(("columns", "tells_meaning"), [("120", False), ("200", True)])
def test_print_config_draws_a_table_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, tells_meaning: bool
) -> None:
    monkeypatch.setattr("rocketline.cli.servers.settings_table._is_terminal", lambda: True)
    result = invoke("-p", "--port", "9000", COLUMNS=columns)

    assert "┃ setting" in result.stdout
    assert "flag --port" in result.stdout
    assert ("The port to listen on" in result.stdout) is tells_meaning


def test_wrong_settings_are_one_line_each_with_status_2(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("enableControllerInNamesrv=true\nlistenPort=x\n")
    result = invoke("-c", str(file), "--port", "70000")

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"rocketline: file {file}:1: enableControllerInNamesrv=true: the Raft controller is not part of Rocketline; "
        "run Apache's controller by itself",
        f"rocketline: file {file}:2: listenPort=x: it must be a whole number from 0 to 65535",
        "rocketline: flag --port: listenPort=70000: it must be a whole number from 0 to 65535",
    ]


def test_missing_file_is_one_line_with_status_2(tmp_path: Path) -> None:
    result = invoke("-c", str(tmp_path / "absent.conf"))

    assert result.exit_code == 2
    assert result.stderr.startswith(f"rocketline: {tmp_path / 'absent.conf'}: no such file")
    assert result.stderr.count("\n") == 1


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "rocketline", "nameserver", "--host", "127.0.0.1", *arguments]


@contextmanager
def running(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOME": str(home)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_taken_port_is_one_clear_line_with_status_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(tmp_path, "--port", str(port)) as process:
            output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert line.startswith(f"rocketline: cannot listen on 127.0.0.1:{port}: ")
    assert "another program listens there already" in line
    assert "--port" in line


def test_unknown_event_loop_is_one_clear_line_with_status_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETLINE_LOOP", "twisted")
    with running(tmp_path, "--port", "0") as process:
        _, errors = process.communicate()

    assert process.returncode == 2
    assert errors == "rocketline: ROCKETLINE_LOOP=twisted: the loops are asyncio and uvloop\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_cleanly_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "--port", "0", "--log-format", "json") as process:
        assert process.stderr is not None
        ready = json.loads(process.stderr.readline())
        host, port = ready["address"].split(":")
        with socket.create_connection((host, int(port))):
            process.send_signal(number)
            output, errors = process.communicate()

    assert ready["event"] == "name server ready"
    assert process.returncode == 0
    assert output == ""
    assert [json.loads(line)["event"] for line in errors.splitlines()] == ["name server closing", "name server closed"]


def test_unknown_settings_are_one_log_line(tmp_path: Path) -> None:
    (tmp_path / "namesrv.conf").write_text("listnPort=1\nbrokerName=x\n")
    with running(tmp_path, "--port", "0", "-c", str(tmp_path / "namesrv.conf")) as process:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        process.terminate()
        process.communicate()

    assert "WARNING settings without effect names=" in first
    assert "did you mean listenPort?" in first
    assert "brokerName" in first
    assert "name server ready" in second
