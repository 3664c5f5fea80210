"""For MkDocs: shows the doctests of our docstrings as code, which plain Markdown would take for quotations."""

from __future__ import annotations

from typing import Any

import griffe


class DoctestBlocks(griffe.Extension):
    """Puts a fence around each paragraph that starts with a prompt."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n\n".join(_fenced(text) for text in obj.docstring.value.split("\n\n"))


def _fenced(paragraph: str) -> str:
    return f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>>") else paragraph
