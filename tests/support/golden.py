"""The recorded frames of `tests/data`, for every test that wants bytes that others wrote."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[1] / "data"


class GoldenFrame(NamedTuple):
    """One line of `frames-5.5.0.jsonl`; `data/README.md` explains the fields."""

    exchange: int
    direction: str
    what: str
    version: str
    peer: str
    data: bytes

    @property
    def is_probe(self) -> bool:
        """A scripted request, perhaps wrong on purpose."""
        return self.peer == "PYTHON"


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    return tuple(
        GoldenFrame(line["n"], line["dir"], line["what"], line["ver"], line["peer"], bytes.fromhex(line["hex"]))
        for line in read_lines("frames-5.5.0.jsonl")
    )


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]
