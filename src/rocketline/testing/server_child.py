"""A name server and brokers in a child process, which ends with this one."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from rocketline.testing import setting_up
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port
from rocketline.testing.server_thread import ServerThread

_OPTIONS: Final = "ROCKETLINE_TEST_SERVER"


class ServerChild:
    """The servers, from the end of its making to `close`."""

    def __init__(self, brokers: int, settings: Mapping[str, str], folder: Path | None) -> None:
        ports = [free_port() for _ in range(brokers + 1)]
        self._folder = tempfile.TemporaryDirectory(prefix="rocketline-")
        options = {"settings": dict(settings), "folder": folder and str(folder.absolute()), "ports": ports}
        self.process = ServerProcess(
            f"Rocketline's test server on {ports[0]}",
            [sys.executable, "-m", __name__],
            port=ports[0],
            output=Path(self._folder.name) / "output.txt",
            environment={_OPTIONS: json.dumps(options)},
        )
        self.address = self.process.address
        self.broker_addresses = tuple(f"{LOOPBACK}:{port}" for port in ports[1:])
        try:
            self.process.wait_until_ready()
            for address in self.broker_addresses:
                is_found = partial(setting_up.is_registered, self.address, address)
                self.process.wait_until(is_found, f"registered with its broker {address}")
        except BaseException:
            self.process.kill()
            self._folder.cleanup()
            raise

    def close(self) -> None:
        self.process.close()
        self._folder.cleanup()


def _serve_child() -> None:
    """What the child does: serve until its parent closes the pipe, is gone, or says SIGTERM."""
    options = json.loads(os.environ[_OPTIONS])
    folder = options["folder"] and Path(options["folder"])
    # Blocked in every thread, for the main one to wait for: no other is to be interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    servers = ServerThread(len(options["ports"]) - 1, options["settings"], folder, options["ports"])
    threading.Thread(target=_watch_parent, name="watch-parent", daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    servers.close()


def _watch_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _serve_child()
