"""One release of Apache RocketMQ on this machine: its jars from Maven, our Java classes compiled against them.

<cache>/apache-5.5.0-jars-<digest>/       every jar; a folder of this name is complete, it was renamed to it
<cache>/apache-5.5.0-classes-<digest>/    our classes; another source gives another digest, hence another folder
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rocketline.testing.cache import ToolError, built, run_tool

VERSION = "5.5.0"
_JAVA_VERSION_MIN = 17
_SOURCES = Path(__file__).parent / "java"
_PARTS = _SOURCES / "pom.xml"
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
    _check_java()
    jars = built(f"apache-{version}-jars", [_PARTS], partial(_download, version), cache=cache)
    sources = [_PARTS, _LOGGING, *_SOURCES.glob("*.java")]
    classes = built(f"apache-{version}-classes", sources, partial(_compile, jars), cache=cache)
    return Release(version, jars, classes)


def _download(version: str, folder: Path) -> None:
    goal = "dependency:copy-dependencies"
    options = [f"-Drocketmq.version={version}", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    run_tool("mvn", "-q", "-B", "-f", str(_PARTS), goal, *options)


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
