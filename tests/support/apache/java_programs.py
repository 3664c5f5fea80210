"""Programs of ours that use Apache's classes, run once each."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rocketline.testing.apache import Release


def run_java(
    release: Release, home: Path, main_class: str, *arguments: str, text: str = "", timeout_s: float = 50
) -> list[str]:
    """The lines that it prints."""
    own = {
        "user.home": str(home),
        "rocketline.output": str(home / "output.txt"),
        "rocketmq.client.localOffsetStoreDir": str(home),
        "sun.jnu.encoding": "UTF-8",
    }
    command = release.command(main_class, *arguments, properties=own)
    done = subprocess.run(
        command, input=text, capture_output=True, encoding="utf-8", cwd=home, timeout=timeout_s, check=True
    )
    return done.stdout.splitlines()
