"""Examples under the help of a command, in two columns."""

from __future__ import annotations


def examples(*pairs: tuple[str, str]) -> str:
    r"""The text for Click's `epilog`: commands, and what they do.

    >>> print(examples(("rocketline topic list", "all topics")))
    Examples:
      rocketline topic list  all topics
    """
    width = max(len(command) for command, meaning in pairs if meaning or len(pairs) == 1)
    lines = [f"  {command:<{width}}  {meaning}".rstrip() for command, meaning in pairs]
    return "\b\n" + "\n".join(["Examples:", *lines])
