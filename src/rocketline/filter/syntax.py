"""What an expression is made of once it was read. Trees are never walked for a message: `code` makes functions of them.

Each node knows its `depth`, so that no tree grows higher than what can be handled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rocketline.filter.values import Number, Value


@dataclass(frozen=True, slots=True)
class Property:
    """A property by its name, of which no letter has another case."""

    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that was written down. `is_plain` is False once it has a minus before it, which some checks know."""

    value: Value
    is_plain: bool = True
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Nothing:
    """A minus before what is no number: unknown, whatever it stands before, unless that fails."""

    of: Node
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.of.depth + 1)


@dataclass(frozen=True, slots=True)
class Equal:
    """`left = right`, of any two values."""

    left: Node
    right: Node
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(self.left.depth, self.right.depth) + 1)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`of IS NULL`."""

    of: Node
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.of.depth + 1)


@dataclass(frozen=True, slots=True)
class Order:
    """`left sign right` with one of the signs `< <= > >=`."""

    left: Node
    sign: str
    right: Node
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(self.left.depth, self.right.depth) + 1)


@dataclass(frozen=True, slots=True)
class Find:
    """`of [NOT] CONTAINS text`, and STARTSWITH and ENDSWITH. What is no text fulfils neither it nor its opposite."""

    of: Node
    how: str
    text: bytes
    is_not: bool
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.of.depth + 1)


@dataclass(frozen=True, slots=True)
class OneOf:
    """`of IN (texts)`."""

    of: Property
    texts: frozenset[bytes]
    depth: int = 2


@dataclass(frozen=True, slots=True)
class Cast:
    """A property where something true or false is needed: false if it is there, unknown if not."""

    of: Property
    depth: int = 2


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT of`."""

    of: Condition
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.of.depth + 1)


@dataclass(frozen=True, slots=True)
class All:
    """`parts[0] AND parts[1] AND …`."""

    parts: tuple[Condition, ...]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(part.depth for part in self.parts) + 1)


@dataclass(frozen=True, slots=True)
class Any:
    """`parts[0] OR parts[1] OR …`."""

    parts: tuple[Condition, ...]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(part.depth for part in self.parts) + 1)


Condition: TypeAlias = "Equal | IsNull | Order | Find | OneOf | Cast | Not | All | Any | Literal"
"""What is true, false or unknown. Of literals only TRUE, FALSE and NULL are."""
Node: TypeAlias = "Condition | Property | Nothing"

CONDITIONS: Final = (Equal, IsNull, Order, Find, OneOf, Cast, Not, All, Any)


def is_condition(node: Node) -> bool:
    return isinstance(node, CONDITIONS) or (
        isinstance(node, Literal) and node.is_plain and (node.value is None or isinstance(node.value, bool))
    )


def number_of(node: Node) -> Number | None:
    """The number that a literal is, with or without a minus before it."""
    if isinstance(node, Literal) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    return None
