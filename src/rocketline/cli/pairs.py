"""`name=value` on the command line."""

from __future__ import annotations

from collections.abc import Iterable

import click


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """The pairs in order. Raises `click.UsageError` for a text without a sign of equality.

    >>> parse_pairs("--property", ["color=red", "formula=a=b"])
    {'color': 'red', 'formula': 'a=b'}
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise click.UsageError(f"{option} {text!r}: write it as name=value")
        pairs[name] = value
    return pairs
