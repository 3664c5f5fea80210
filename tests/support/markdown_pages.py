"""The documentation as tests see it: pages, their fenced blocks, their headings and their links."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "tests/data/*.md", "src/**/*.md")
    for path in ROOT.glob(pattern)
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_MODULE = re.compile(r"^::: (\S+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block and where it stands. `shown` is the text block right behind it: what it prints."""

    page: Path
    line: int
    language: str
    text: str
    shown: str


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in these languages, in order."""
    content = page.read_text("utf-8")
    found = list(_FENCE.finditer(content))
    made = []
    for fence, following in zip_longest(found, found[1:]):
        is_shown = following and following[1] == "text" and not content[fence.end() : following.start()].strip()
        line = content.count("\n", 0, fence.start()) + 2
        made.append(Block(page, line, fence[1], fence[2], following[2] if following and is_shown else ""))
    return [block for block in made if block.language in languages]


def links(page: Path) -> list[str]:
    """Where the page's links lead, those in code left out."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text("utf-8")))
    return _LINK.findall(prose)


def anchors(page: Path) -> set[str]:
    """The names of the page's headings as GitHub and MkDocs make them, of the modules whose docstrings it shows, and
    of its own anchors."""
    prose = _FENCE.sub("", page.read_text("utf-8"))
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in _HEADING.findall(prose)]
    return {re.sub(r"\s", "-", heading) for heading in plain} | {*_MODULE.findall(prose), *_ANCHOR.findall(prose)}
