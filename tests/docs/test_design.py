"""DESIGN.md tells the truth about where things are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rocketline.model.names import WHEEL_TIMER_TOPIC
from support.markdown_pages import ROOT

SOURCE: Final = ROOT / "src" / "rocketline"
TEXT: Final = (ROOT / "DESIGN.md").read_text("utf-8")
DECISIONS: Final = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "docs" / "adr").glob("0*.md")))
MODULES_MAX: Final = 18
"""In a folder: more of them want a room of their own."""


def chapter(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


PLACES: Final = re.findall(r"^\| .+\? \| `(\S+)` `(\w+)` \|$", chapter("Where to look"), re.MULTILINE)


def packages() -> list[Path]:
    return sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def docstring(package: Path) -> str:
    """In one line."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))
    return " ".join((text or "").split())


@cache
def imports() -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """What each module names in its imports, inside of functions too."""
    found: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for path in SOURCE.parent.rglob("*.py"):
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                named.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                named.update(f"{node.module}.{each.name}" for each in node.names)
        found[path.relative_to(SOURCE.parent).with_suffix("").parts] = {tuple(name.split(".")) for name in named}
    return found


def importers(package: Path) -> set[str]:
    """Who imports a package: modules and rooms beside it, by their names; packages elsewhere, by theirs."""
    room = package.relative_to(SOURCE.parent).parts
    beside, found = room[:-1], set[str]()
    for module, named in imports().items():
        is_outside = module[: len(room)] != room and module[-1] != "__init__"
        if is_outside and any(name[: len(room)] == room for name in named):
            is_beside = module[: len(beside)] == beside
            found.add(module[len(beside)] if is_beside else module[module[0] == "rocketline"])
    return found


def test_twenty_questions_are_answered() -> None:
    assert len(PLACES) >= 20


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_answer_is_where_it_is_said_to_be(file: str, name: str) -> None:
    defined = ast.parse((SOURCE / file).read_text("utf-8")).body
    assert name in {each.name for each in defined if isinstance(each, ast.ClassDef | ast.FunctionDef)}


def test_map_shows_every_package_once() -> None:
    shown = re.findall(r"^(\S+)/ ", chapter("Where things are"), re.MULTILINE)
    tree = {str(path.relative_to(SOURCE)) for path in packages()} | {"testing/apache/java"}
    assert sorted(shown) == sorted(tree)


@pytest.mark.parametrize("package", packages(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_package_says_what_it_is_for_and_is_not_crowded(package: Path) -> None:
    assert docstring(package)
    modules = [path.name for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX


def test_who_is_said_to_import_a_package_does_and_nobody_else() -> None:
    told = {
        package: set(re.findall(r"`([\w.]+)`", said[1]))
        for package in packages()
        if (said := re.search(r"[Ii]mported by ((?:`[\w.]+`[, ]*(?:and )?)+)", docstring(package)))
    }
    assert len(told) > 10
    assert told == {package: importers(package) for package in told}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w+(?:/\w+)+\.py)`", TEXT + DECISIONS))))
def test_files_that_are_named_exist(path: str) -> None:
    assert any((base / path).exists() for base in (ROOT, SOURCE, *SOURCE.iterdir()))


def defined() -> set[str]:
    """Names of modules, packages, classes, functions and attributes."""
    names: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        names.update(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    names.add(name)
    return names


def test_journeys_call_things_by_their_names() -> None:
    told = {
        part
        for place in re.findall(r"`([A-Za-z_][\w./]*)`", chapter("Journeys") + chapter("Invariants"))
        for part in re.split(r"[./]", place)
    }
    assert told - defined() == {"OSError", "json", "py", WHEEL_TIMER_TOPIC}


def test_lines_end_where_sentences_or_clauses_do() -> None:
    """But for tables, and the map, which has a line for each package."""
    text = TEXT.replace(chapter("Where things are"), "")
    assert [line for line in text.splitlines() if len(line) > 110 and not line.startswith("|")] == []
