"""What tests fetch from package registries and build from it: once per machine, kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rocketline.errors import RocketlineError

CACHE_VARIABLE = "ROCKETLINE_APACHE_CACHE"
_ERROR_CHARACTERS = 4000

_HINTS = {
    "mvn": "install Maven",
    "java": "install a JDK, version 17 or newer",
    "javac": "install a JDK, version 17 or newer",
    "go": "install Go, version 1.21 or newer",
    "node": "install Node.js, version 18 or newer",
    "npm": "install Node.js, version 18 or newer, with npm",
}


class ToolError(RocketlineError):
    """A program that a foreign server or client needs is missing, too old, or failed."""

    def __init__(self, tool: str, problem: str) -> None:
        self.tool, self.problem = tool, problem
        super().__init__(f"Tests with Apache RocketMQ and its clients need `{tool}`: {problem}")


def cache_folder() -> Path:
    """What the environment variable ROCKETLINE_APACHE_CACHE names, or `rocketline` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    folder = Path(named).absolute() if named else _user_cache() / "rocketline"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def built(name: str, sources: Iterable[Path], build: Callable[[Path], None], *, cache: Path | None = None) -> Path:
    """The folder that `build` fills from `sources`; another text of theirs gives another folder.

    It is in the folder `cache`, or else in `cache_folder()`. Several processes may call it at once: one builds, the
    others wait.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:12]
    target = (cache or cache_folder()) / f"{name}-{digest}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(target.with_name(f"{name}.lock")):
        make_once(target, build)
    return target


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when a process dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_once(target: Path, make: Callable[[Path], None]) -> None:
    """Fill a folder beside `target` and rename it at the end: half a folder never bears the name."""
    if target.exists():
        return
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.partial-", dir=target.parent))
    try:
        make(partial)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial)
        raise


def run_tool(
    tool: str, *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Both output streams of a tool that must succeed. Raises `ToolError` if it is missing or fails."""
    try:
        done = subprocess.run(
            [tool, *arguments],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        raise ToolError(tool, f"it is not on the PATH; {_HINTS.get(tool, 'install it')}") from None
    text = done.stdout + done.stderr
    if done.returncode:
        raise ToolError(tool, f"it failed with code {done.returncode}:\n{text[-_ERROR_CHARACTERS:]}")
    return text
