"""The clients to compare, as programs that are told what to do: see `benchmarks.load`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.servers import cpu_s, python_command
from rocketline.errors import RocketlineError
from rocketline.testing.apache import Release
from rocketline.testing.cache import built, run_tool

_SOURCES = Path(__file__).parent / "load"
_CPP_BINDING = "rocketmq==0.4.4"
_JVM = ("-Xms512m", "-Xmx512m")


class ProgramError(RocketlineError):
    """A client's program ended, or reported something else than success."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command came to."""

    rate: float
    """Messages per second."""
    cpu_us: float
    """Processor time of the client's process per message."""
    failures: int
    problem: str
    """Of the first failure."""


class Program:
    """One client's process. Use it as `with`."""

    def __init__(self, command: Sequence[str], home: Path, checkout: Path | None = None) -> None:
        """Start it. With a `checkout`, one of ours, with all the code that is there instead of this."""
        home.mkdir(parents=True, exist_ok=True)
        own = {"PYTHONPATH": str(checkout / "src")} if checkout else {}
        self._output = home / "output.txt"
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env={**os.environ, "HOME": str(home), **own},
                cwd=checkout,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # it holds nothing that is worth a farewell
        self._process.communicate()

    def run(self, *words: object) -> Outcome:
        """Do what the words say. Raises `ProgramError` if nothing came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line, before_s = " ".join(map(str, words)), cpu_s(self._process.pid)
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._read(self._process.stdout)
            after_s = cpu_s(self._process.pid)
        except (OSError, ValueError) as error:
            tail = self._output.read_text("utf-8", "replace")[-2000:]
            raise ProgramError(f"{line}: the client ended ({error}). Its last output:\n{tail}") from error
        messages, failures, problem = answer["messages"], answer["failures"], answer["problem"]
        if not messages:
            raise ProgramError(f"{line}: {failures} failures, such as: {problem}")
        return Outcome(messages / answer["seconds"], (after_s - before_s) / messages * 1e6, failures, problem)

    @staticmethod
    def _read(lines: Any) -> dict[str, Any]:
        while line := lines.readline():
            if line.startswith("{"):  # libraries print what they like in between
                found: dict[str, Any] = json.loads(line)
                return found
        raise ValueError("no answer")


class FreshProgram(Program):
    """A client that does not survive its own shutdown: a process for each command."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self._command, self._home = command, home
        super().__init__(command, home)

    def run(self, *words: object) -> Outcome:
        with Program(self._command, self._home) as program:
            return program.run(*words)


def start_own(name_servers: str, home: Path, *, has_speed: bool, checkout: Path | None = None) -> Program:
    """Ours, in a process of the same Python."""
    command = [*python_command("benchmarks.load.own", has_speed=has_speed), name_servers]
    return Program(command, home, checkout)


def start_java(release: Release, name_servers: str, home: Path) -> Program:
    """Apache's own, with the JVM's usual compilers."""
    sources = [_SOURCES / "java" / "LoadClient.java"]
    classes = built("load-java", sources, partial(_compile_java, release, sources))
    own = {"user.home": str(home), "rocketline.output": str(home / "log.txt")}
    loaded = Release(release.version, release.jars, classes)
    return Program(loaded.command("LoadClient", name_servers, jvm=_JVM, properties=own), home)


def start_go(name_servers: str, home: Path) -> Program:
    """Apache's Go client, in the version that `go.mod` names."""
    sources = sorted((_SOURCES / "go").iterdir())
    return Program([str(built("load-go", sources, partial(_build_go, sources)) / "load"), name_servers], home)


def start_cpp(name_servers: str, home: Path) -> Program:
    """Apache's C++ client behind its Python binding."""
    source = _SOURCES / "cpp" / "load.py"
    folder = built("load-cpp", [source], _install_cpp)
    return FreshProgram([str(folder / "venv" / "bin" / "python"), str(source), name_servers], home)


def _compile_java(release: Release, sources: Sequence[Path], folder: Path) -> None:
    run_tool("javac", "-Werror", "-cp", f"{release.jars}/*", "-d", str(folder), *map(str, sources))
    shutil.copy(release.classes / "rmq.logback-test.xml", folder)


def _build_go(sources: Sequence[Path], folder: Path) -> None:
    for source in sources:
        shutil.copy(source, folder)
    run_tool("go", "build", "-mod=mod", "-o", "load", ".", folder=folder)


def _install_cpp(folder: Path) -> None:
    run_tool(sys.executable, "-m", "venv", str(folder / "venv"))
    run_tool(str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", _CPP_BINDING)
