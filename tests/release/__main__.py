"""Builds the sdist and the wheel into dist/, looks into them and tries them, as their users will: `make dist`.

Only what git knows is built, from a copy of it. Whatever is wrong ends the run with status 1 and one line that says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
CONSTRAINTS = ROOT / "constraints.txt"
TOP_LEVEL = {"rocketline", "pyspark_rocketmq", "pyspark_rocketmq_store"}
PROGRAM = """\
import rocketline
from rocketline import LitePullConsumer, Message, Producer
from rocketline.testing import Server

with Server() as server:
    with Producer(server.address, group="shop") as producer:
        producer.send(Message("orders", b"two teapots"))
    with LitePullConsumer(server.address, group="billing") as consumer:
        consumer.subscribe("orders")
        print(rocketline.__version__, rocketline.__file__, next(iter(consumer)).body)
"""


class WrongError(Exception):
    """Something that must not be released, in a sentence."""


def run(*command: str | Path, status: int = 0, environ: Mapping[str, str] | None = None) -> str:
    """What the command printed, on either stream. It ends with this status, or all is over."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=tempfile.gettempdir(),  # where nobody's src/ can be imported by accident
        env={**inherited, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != status:
        raise WrongError(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def tracked(*below: str) -> list[str]:
    """The files that git knows, also those that are not committed yet."""
    listed = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--", *below)
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def copy_tree(target: Path) -> Path:
    for name in tracked():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    return target


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel that was made from it, in dist/. Another one, straight from the tree, is the same."""
    shutil.rmtree(DIST, ignore_errors=True)
    pinned = {"PIP_CONSTRAINT": str(CONSTRAINTS)}
    run(sys.executable, "-m", "build", "--outdir", DIST, copy_tree(folder / "tree"), environ=pinned)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, copy_tree(folder / "straight"), environ=pinned)
    (sdist,), (wheel,), (straight,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl"), folder.glob("*.whl")
    if different := differing(contents(wheel), contents(straight)):
        raise WrongError(f"the wheel from the sdist and the one from the tree differ in {', '.join(different)}")
    return sdist, wheel


def contents(wheel: Path) -> dict[str, int]:
    """The check sums of all files in it."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def differing(one: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def look_into(wheel: Path, version: str) -> None:
    """Raises `WrongError` unless it has all of src/, and nothing else."""
    packed = {name for name in contents(wheel) if ".dist-info/" not in name}
    expected = {name.removeprefix("src/") for name in tracked("src")}
    if missing := sorted(expected - packed):
        raise WrongError(f"the wheel lacks {', '.join(missing)}: see package-data in pyproject.toml")
    if extra := sorted(packed - expected):
        raise WrongError(f"the wheel has what is not in src/: {', '.join(extra)}")
    if "rocketline/py.typed" not in packed or {name.partition("/")[0] for name in packed} != TOP_LEVEL:
        raise WrongError(f"the wheel must have py.typed, and the packages {', '.join(sorted(TOP_LEVEL))} only")
    metadata = metadata_of(wheel)
    if metadata["Version"] != version:
        raise WrongError(f"the wheel is of version {metadata['Version']}, pyproject.toml says {version}")
    if needed := [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]:
        raise WrongError(f"the plain install must need nothing, and needs {', '.join(needed)}")


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def try_out(wheel: Path, folder: Path, version: str) -> None:
    """Install it as users do, and send a message."""
    run(sys.executable, "-m", "venv", folder)
    python, rocketline = folder / "bin" / "python", folder / "bin" / "rocketline"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    (folder / "program.py").write_text(PROGRAM)
    shown, place, body = run(python, folder / "program.py").split(maxsplit=2)
    if shown != version or not Path(place).is_relative_to(folder) or body != "b'two teapots'\n":
        raise WrongError(f"the plain install runs as {shown} from {place} and receives {body}")
    if "pip install 'rocketline[cli]'" not in run(rocketline, "--version", status=1):
        raise WrongError("the command does not say what it needs")
    run(python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, f"{wheel}[cli]")
    if run(rocketline, "--version") != f"rocketline {version}\n":
        raise WrongError(f"rocketline --version does not tell {version}")


def steps(folder: Path) -> Iterator[str]:
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    sdist, wheel = build(folder)
    yield "built; the sdist makes the same wheel as the tree"
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    yield "metadata and README are as PyPI wants them"
    look_into(wheel, version)
    yield "the wheel has all of src, and nothing else; the plain install needs no other package"
    try_out(wheel, folder / "env", version)
    yield f"in a fresh environment, {version} sends and receives, and the command tells its version"
    for file in (sdist, wheel):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        yield f"dist/{file.name}  {file.stat().st_size / 1024:,.0f} KiB  {digest}"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rocketline-dist-") as folder:
        try:
            for step in steps(Path(folder)):
                print(step, flush=True)
        except WrongError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
