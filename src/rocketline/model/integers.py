"""How wide Java holds a number. A plain `int` in a model is a long: 64 bits."""

from __future__ import annotations

from typing import Annotated, TypeAlias

Int32: TypeAlias = Annotated[int, 32]
"""Java: int. The name server must not hand on a number that no Java client can read."""
