"""The foreign clients, each fetched from its registry at its first use and built into the user's cache folder."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from rocketline.testing.apache.release import Release
from rocketline.testing.apache.servers import SMALL_JVM
from rocketline.testing.cache import built, run_tool
from rocketline.testing.clients.grpc import GrpcClient
from rocketline.testing.clients.program import ClientProgram

_SOURCES = Path(__file__).parent
_CPP_BINDING = "rocketmq==0.4.4"

_ONE_BY_ONE = frozenset({"sync", "async", "ordered", "delayed"})
_ALL_KINDS = _ONE_BY_ONE | {"oneway", "batch"}
_COMPRESSIONS = frozenset({"lz4", "zstd"})
_PUSH_MODES = frozenset({"concurrent", "orderly", "broadcast"})


def java_client(release: Release, home: Path) -> ClientProgram:
    """Apache's own, of the given release."""
    own = {"user.home": str(home), "rocketline.output": str(home / "output.txt")}
    command = release.command("ClientDriver", jvm=["-Xmx256m", *SMALL_JVM], properties=own)
    return ClientProgram("Java", command, home, _ALL_KINDS | _COMPRESSIONS, _PUSH_MODES | {"pull"})


def own_client(home: Path) -> ClientProgram:
    """Rocketline's own, as this Python has it."""
    command = [sys.executable, "-m", "rocketline.testing.clients.own"]
    return ClientProgram("Rocketline", command, home, _ALL_KINDS | _COMPRESSIONS, _PUSH_MODES | {"pull"})


def go_client(home: Path) -> ClientProgram:
    """`github.com/apache/rocketmq-client-go/v2`, in the version that `go.mod` names."""
    sources = _sources("go")
    program = built("client-go", sources, partial(_build_go, sources)) / "client"
    return ClientProgram("Go", [str(program)], home, _ALL_KINDS, _PUSH_MODES)


def node_client(home: Path) -> ClientProgram:
    """npm's `ali-ons`. It has no one-way sends, no batches and no orderly consumer."""
    sources = _sources("node")
    program = built("client-node", sources, partial(_install_node, sources)) / "client.js"
    return ClientProgram("ali-ons", ["node", str(program)], home, _ONE_BY_ONE, frozenset({"concurrent", "broadcast"}))


def cpp_client(home: Path) -> ClientProgram:
    """Apache's C++ library as PyPI's `rocketmq` brings it.

    Its batches are none (it says `"batch":"1"`, which Apache reads as false), and its broadcasting consumers start at
    the end of a queue, whatever they are told.
    """
    sources = _sources("cpp")
    folder = built("client-cpp", sources, partial(_install_cpp, sources))
    command = [str(folder / "venv" / "bin" / "python"), str(folder / "client.py")]
    kinds, modes = _ONE_BY_ONE | {"oneway"}, frozenset({"concurrent", "orderly"})
    return ClientProgram("C++", command, home, kinds, modes, fails_in_batches=True)


def java_grpc_client(home: Path, proxy: str) -> GrpcClient:
    """Maven's `rocketmq-client-java`, a client of the proxy at this address."""
    sources = _sources("grpc_java")
    folder = built("client-grpc-java", sources, partial(_compile_java_grpc, sources))
    jvm = [f"-Duser.home={home}", "-Xmx256m", *SMALL_JVM]
    return GrpcClient("Java-gRPC", ["java", *jvm, "-cp", f"{folder}{os.pathsep}{folder}/*", "GrpcClient"], home, proxy)


def python_grpc_client(home: Path, proxy: str) -> GrpcClient:
    """PyPI's `rocketmq-python-client`, a client of the proxy at this address."""
    sources = _sources("grpc_python")
    folder = built("client-grpc-python", sources, partial(_install_python_grpc, sources))
    return GrpcClient("Python-gRPC", [str(folder / "venv" / "bin" / "python"), str(folder / "client.py")], home, proxy)


def _sources(language: str) -> list[Path]:
    return sorted(path for path in (_SOURCES / language).iterdir() if path.is_file())


def _copy(sources: list[Path], folder: Path) -> None:
    for source in sources:
        shutil.copy(source, folder)


def _build_go(sources: list[Path], folder: Path) -> None:
    _copy(sources, folder)
    # -mod=mod: the checksums of what it needs come from the module proxy, there is no go.sum to keep in step.
    run_tool("go", "build", "-mod=mod", "-o", "client", ".", folder=folder)


def _install_node(sources: list[Path], folder: Path) -> None:
    _copy(sources, folder)
    run_tool("node", "--version", folder=folder)
    run_tool("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", folder=folder)


def _install_cpp(sources: list[Path], folder: Path) -> None:
    _copy(sources, folder)
    # --copies would break its paths, and so does a rename of a folder with scripts in it; nobody calls the scripts.
    run_tool(sys.executable, "-m", "venv", str(folder / "venv"))
    run_tool(str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", _CPP_BINDING)


def _compile_java_grpc(sources: list[Path], folder: Path) -> None:
    _copy(sources, folder)
    run_tool("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}", folder=folder)
    run_tool("javac", "-Xlint:all,-classfile,-processing", "-Werror", "-cp", "*", "GrpcClient.java", folder=folder)


def _install_python_grpc(sources: list[Path], folder: Path) -> None:
    _copy(sources, folder)
    # Its gRPC, protobuf and OpenTelemetry are its own affair: no other environment has to agree with them.
    run_tool(sys.executable, "-m", "venv", str(folder / "venv"))
    requirements = str(folder / "requirements.txt")
    run_tool(str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--requirement", requirements)
