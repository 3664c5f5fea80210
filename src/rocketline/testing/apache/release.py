"""One release of Apache RocketMQ on this machine: its jars from Maven, our Java classes compiled against them.

<cache>/apache-5.5.0/             every jar; a folder of this name is complete, it was renamed to it
<cache>/apache-5.5.0-<digest>/    our classes; another source gives another digest, hence another folder
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketline.errors import RocketlineError

VERSION = "5.5.0"
CACHE_VARIABLE = "ROCKETLINE_APACHE_CACHE"
_JAVA_VERSION_MIN = 17
_SOURCES = Path(__file__).parent / "java"
_LOGGING = _SOURCES / "rmq.logback-test.xml"


class ToolError(RocketlineError):
    """A program that Apache RocketMQ needs is missing, too old, or failed."""

    def __init__(self, tool: str, problem: str) -> None:
        self.tool, self.problem = tool, problem
        super().__init__(f"Apache RocketMQ needs `{tool}`: {problem}")


@dataclass(frozen=True, slots=True)
class Release:
    """Where the classes of one release are. Made by `fetch`."""

    version: str
    jars: Path
    classes: Path

    def command(
        self, main_class: str, *arguments: str, jvm: Sequence[str] = (), properties: Mapping[str, str] | None = None
    ) -> list[str]:
        """The command line that runs a main class, ours or Apache's, with options and system properties of its JVM."""
        own = {"file.encoding": "UTF-8", **(properties or {})}
        class_path = f"{self.classes}{os.pathsep}{self.jars}/*"
        return ["java", *jvm, *(f"-D{key}={own[key]}" for key in own), "-cp", class_path, main_class, *arguments]


def fetch(version: str = VERSION, *, cache: Path | None = None) -> Release:
    """The release, from Maven the first time and from the cache folder ever after.

    The folder is `cache`, or what the environment variable ROCKETLINE_APACHE_CACHE names, or `rocketline` in the
    user's cache folder. Raises `ToolError` for a missing JDK or Maven. Several processes may call it at once.
    """
    cache = cache or _cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    _check_java()
    jars = cache / f"apache-{version}"
    classes = cache / f"apache-{version}-{_sources_digest()}"
    with _one_at_a_time(cache / f"apache-{version}.lock"):
        _make_once(jars, lambda folder: _download(version, folder))
        _make_once(classes, lambda folder: _compile(jars, folder))
    return Release(version, jars, classes)


def _cache_folder() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketline"


def _sources_digest() -> str:
    text = b"".join(path.read_bytes() for path in (*sorted(_SOURCES.glob("*.java")), _LOGGING))
    return hashlib.sha256(text).hexdigest()[:12]


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when a process dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_once(target: Path, make: Callable[[Path], None]) -> None:
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


def _download(version: str, folder: Path) -> None:
    goal = "dependency:copy-dependencies"
    options = [f"-Drocketmq.version={version}", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    _run("mvn", "-q", "-B", "-f", str(_SOURCES / "pom.xml"), goal, *options)


def _compile(jars: Path, folder: Path) -> None:
    sources = [str(path) for path in sorted(_SOURCES.glob("*.java"))]
    release = str(_JAVA_VERSION_MIN)
    options = ["-Xlint:all,-classfile", "-Werror", "--release", release, "-cp", f"{jars}/*", "-d", str(folder)]
    _run("javac", *options, *sources)
    shutil.copy(_LOGGING, folder)


def _check_java() -> None:
    text = _run("java", "-version")
    found = re.search(r'version "(\d+)', text)
    if found is None or int(found[1]) < _JAVA_VERSION_MIN:
        raise ToolError("java", f"version {_JAVA_VERSION_MIN} or newer is needed, this is {text.splitlines()[0]}")


def _run(tool: str, *arguments: str) -> str:
    """Both output streams of a tool that must succeed."""
    try:
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        what = "install Maven" if tool == "mvn" else f"install a JDK, version {_JAVA_VERSION_MIN} or newer"
        raise ToolError(tool, f"it is not on the PATH; {what}") from None
    text = done.stdout + done.stderr
    if done.returncode:
        raise ToolError(tool, f"it failed with code {done.returncode}:\n{text[-4000:]}")
    return text
