"""`rocketline serve`: a name server and a broker in one process, found by clients through the one."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from rocketline.testing.broker import cluster_info
from support.server_commands import running

ANY_PORTS = ("--nameserver-port", "0", "--broker-port", "0")


def ready(process: subprocess.Popen[str]) -> dict[str, str]:
    """What the command says once it is ready."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    assert re.fullmatch(r"Rocketline \S+ is ready\.\n", lines[0]), lines
    found = [re.fullmatch(r"  (name server|broker|messages in)\s+(\S+).*\n", line) for line in lines[1:4]]
    return {match[1]: match[2] for match in found if match}


def ended(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate()
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_registers_its_broker_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "serve", "--memory", *ANY_PORTS) as process:
        told = ready(process)
        clusters = cluster_info(told["name server"])
        status, errors = ended(process, number)

    assert told["broker"] in clusters
    assert told["broker"].startswith("127.0.0.1:")
    assert told["messages in"] == "memory"
    assert status == 0
    assert "Traceback" not in errors


def test_serve_in_memory_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "serve", "--memory", *ANY_PORTS) as process:
        ready(process)
        ended(process)

    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("is_named", [True, False])
def test_serve_keeps_everything_under_its_folder(tmp_path: Path, is_named: bool) -> None:
    home = tmp_path / "home"
    folder = tmp_path / "mq" if is_named else home / ".local" / "share" / "rocketline"
    arguments = ("--dir", str(folder)) if is_named else ()
    home.mkdir()
    with running(home, "serve", *arguments, *ANY_PORTS) as process:
        told = ready(process)
        status, _ = ended(process)

    assert status == 0
    assert told["messages in"] == str(folder / "store")
    assert (folder / "store" / "lock").exists()
    assert all(
        path.is_relative_to(folder) or folder.is_relative_to(path) for path in tmp_path.rglob("*") if path != home
    )


def test_file_sets_the_broker_and_options_go_over_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerName=pot\nstorePathRootDir={tmp_path / 'elsewhere'}\nmappedFileSizeCommitLog=1048576\n")
    with running(tmp_path, "serve", "-c", str(file), *ANY_PORTS) as process:
        told = ready(process)
        clusters = cluster_info(told["name server"])
        ended(process)
    with running(tmp_path, "serve", "-c", str(file), "--dir", str(tmp_path / "mine"), *ANY_PORTS) as process:
        over = ready(process)
        ended(process)

    assert '"pot"' in clusters
    assert told["messages in"] == str(tmp_path / "elsewhere")
    assert over["messages in"] == str(tmp_path / "mine" / "store")


@pytest.mark.parametrize("option", ["--nameserver-port", "--broker-port"])
def test_taken_port_is_one_clear_line_with_status_1(tmp_path: Path, option: str) -> None:
    ports = dict(zip(ANY_PORTS[::2], ANY_PORTS[1::2], strict=True))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports[option] = str(port)
        arguments = [word for pair in ports.items() for word in pair]
        with running(tmp_path, "serve", "--memory", "--log-level", "error", *arguments) as process:
            output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert line.startswith(f"rocketline: cannot listen on 127.0.0.1:{port}: another program listens there already")
    assert option in line


def test_locked_store_is_one_clear_line_with_status_1(tmp_path: Path) -> None:
    with running(tmp_path, "serve", "--dir", str(tmp_path), *ANY_PORTS) as first:
        ready(first)
        with running(tmp_path, "serve", "--dir", str(tmp_path), "--log-level", "error", *ANY_PORTS) as second:
            output, errors = second.communicate()

    assert second.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert f"is locked by process {first.pid}" in line


def test_wrong_setting_is_one_line_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("brokerRole=SLAVE\n")
    with running(tmp_path, "serve", "-c", str(tmp_path / "broker.conf"), "--log-level", "error", *ANY_PORTS) as process:
        output, errors = process.communicate()

    assert process.returncode == 2
    assert output == ""
    (line,) = errors.splitlines()
    assert "brokerRole=SLAVE" in line
