"""Examples under the help of a command."""

from __future__ import annotations


def examples(*pairs: tuple[str, str]) -> str:
    r"""The text for Click's `epilog`: commands, each under what it does.

    >>> print(examples(("rocketline topic list", "all topics")).removeprefix("\b\n"))
    Examples:
      # all topics
      rocketline topic list
    """
    lines = [
        line for command, meaning in pairs for line in ((f"  # {meaning}",) if meaning else ()) + (f"  {command}",)
    ]
    return "\b\n" + "\n".join(["Examples:", *lines])
