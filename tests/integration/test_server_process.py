"""`ServerProcess` with small Python programs as servers."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketline.testing.server_process import ServerFailedError, ServerProcess, accepts_connections, free_port

LISTEN = """
import socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)  # before anybody can connect and look
server.listen()
"""
WAIT = "import time\ntime.sleep(60)\n"


def start(tmp_path: Path, program: str) -> ServerProcess:
    port = free_port()
    command = [sys.executable, "-c", program, str(port)]
    return ServerProcess("The server", command, port=port, output=tmp_path / "output.txt")


def test_server_is_ready_within_its_block_and_gone_after_it(tmp_path: Path) -> None:
    with start(tmp_path, LISTEN + WAIT) as server:
        assert accepts_connections(server.port)
        assert server.log() == "listening\n"
    assert not server.is_running
    assert not accepts_connections(server.port)


def test_server_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match=r"The server ended with code 3\.(.|\n)*the disk is full"):
        start(tmp_path, "import sys; print('the disk is full'); sys.exit(3)").__enter__()


def test_server_that_never_gets_ready_is_told_and_can_be_ended(tmp_path: Path) -> None:
    server = start(tmp_path, WAIT)
    with pytest.raises(ServerFailedError, match=r"was not listening on port \d+ after 0\.2 s"):
        server.wait_until_ready(timeout_s=0.2)
    assert server.close() == -signal.SIGTERM


def test_paused_server_can_be_closed(tmp_path: Path) -> None:
    with start(tmp_path, LISTEN + WAIT) as server:
        server.pause()
        assert server.close() == -signal.SIGTERM
        assert server.close() == -signal.SIGTERM


def test_server_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    with start(tmp_path, ignore + LISTEN + WAIT) as server:
        assert server.close(timeout_s=0.2) == -signal.SIGKILL


def test_server_that_watches_its_input_ends_with_us(tmp_path: Path) -> None:
    watch = "sys.stdin.read()\nsys.exit(7)\n"
    with start(tmp_path, LISTEN + watch) as server:
        assert server.is_running
        assert server._process.stdin is not None
        server._process.stdin.close()
        server._process.wait(10)
        assert server.close() == 7


def test_no_two_processes_get_the_same_port() -> None:
    """Else two tests that run side by side may talk to one server, and each finds the other's messages."""
    ask = "from rocketline.testing.server_process import free_port; print(*(free_port() for _ in range(90)))"
    pause = "; import sys; sys.stdout.flush(); sys.stdin.read()"
    others = [
        subprocess.Popen([sys.executable, "-c", ask + pause], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    lines = [other.stdout.readline() for other in others if other.stdout is not None]
    for other in others:
        other.communicate()
    ports = [port for line in lines for port in line.split()]
    assert len(ports) == len(set(ports)) == 360
