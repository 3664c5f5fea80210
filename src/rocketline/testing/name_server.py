"""Our name server as its own process, configured by a file like Apache's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rocketline.settings.properties import format_properties
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port


class NameServerProcess(ServerProcess):
    """`rocketline nameserver -c FILE`. `settings` are lines of the file, which is Apache's `namesrv.conf`."""

    def __init__(
        self, home: Path, *, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        config, port = home / "server.conf", free_port()
        own = {"listenPort": str(port), "bindAddress": LOOPBACK, "kvConfigPath": f"{home}/kvConfig.json"}
        config.write_text(format_properties(own | dict(settings or {})), "ascii")
        super().__init__(
            f"Rocketline's name server on {port}",
            [sys.executable, "-m", "rocketline", "nameserver", "-c", str(config)],
            port=port,
            output=home / "output.txt",
            environment={"ROCKETMQ_HOME": str(home), **(environment or {})},
        )
