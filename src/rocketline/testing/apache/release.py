"""One release of Apache RocketMQ on this machine: its jars from Maven, our Java classes compiled against them.

<cache>/apache-5.5.0/             every jar; a folder of this name is complete, it was renamed to it
<cache>/apache-5.5.0-<digest>/    our classes; another source gives another digest, hence another folder
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketline.testing.cache import ToolError, cache_folder, make_once, one_at_a_time, run_tool

VERSION = "5.5.0"
_JAVA_VERSION_MIN = 17
_SOURCES = Path(__file__).parent / "java"
_LOGGING = _SOURCES / "rmq.logback-test.xml"


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

    The folder is `cache`, or else `cache_folder()`. Raises `ToolError` for a missing JDK or Maven. Several processes
    may call it at once.
    """
    cache = cache or cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    _check_java()
    jars = cache / f"apache-{version}"
    classes = cache / f"apache-{version}-{_sources_digest()}"
    with one_at_a_time(cache / f"apache-{version}.lock"):
        make_once(jars, lambda folder: _download(version, folder))
        make_once(classes, lambda folder: _compile(jars, folder))
    return Release(version, jars, classes)


def _sources_digest() -> str:
    text = b"".join(path.read_bytes() for path in (*sorted(_SOURCES.glob("*.java")), _LOGGING))
    return hashlib.sha256(text).hexdigest()[:12]


def _download(version: str, folder: Path) -> None:
    goal = "dependency:copy-dependencies"
    options = [f"-Drocketmq.version={version}", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    run_tool("mvn", "-q", "-B", "-f", str(_SOURCES / "pom.xml"), goal, *options)


def _compile(jars: Path, folder: Path) -> None:
    sources = [str(path) for path in sorted(_SOURCES.glob("*.java"))]
    release = str(_JAVA_VERSION_MIN)
    options = ["-Xlint:all,-classfile", "-Werror", "--release", release, "-cp", f"{jars}/*", "-d", str(folder)]
    run_tool("javac", *options, *sources)
    shutil.copy(_LOGGING, folder)


def _check_java() -> None:
    text = run_tool("java", "-version")
    found = re.search(r'version "(\d+)', text)
    if found is None or int(found[1]) < _JAVA_VERSION_MIN:
        raise ToolError("java", f"version {_JAVA_VERSION_MIN} or newer is needed, this is {text.splitlines()[0]}")
