"""The release that a client or broker says it runs."""

from __future__ import annotations

from rocketline.wire.codes import release_number


def release_name(number: int) -> str:
    """What `release_number` made a number of; of releases before 4, the number.

    >>> release_name(513), release_name(401), release_name(63)
    ('5.5.0', '4.9.4', '63')
    """
    for major in (5, 4):
        first = release_number(major, 0, 0)
        if number >= first - 1:  # the one before is a release's own snapshot
            minor, patch = divmod((number - first + 1) // 2, 10)
            return f"{major}.{minor}.{patch}"
    return str(number)
