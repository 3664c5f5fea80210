"""Changes of settings while a server runs, read from a request."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketline.net.saves import Saves
from rocketline.settings import parse_properties
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

UPDATE_BYTES_MAX: Final = 64 * 1024
"""All settings of a server together have a quarter of it."""


def read_update(
    request: Command, saves: Saves, protected: Collection[str], *, too_long: ResponseCode
) -> dict[str, str] | Command:
    """The settings that an update names, by their keys; the answer if not one of them may be changed."""
    if len(request.body) > UPDATE_BYTES_MAX:
        return response(too_long, f"properties of {len(request.body)} bytes: at most {UPDATE_BYTES_MAX} are read")
    if saves.is_full:
        return response(ResponseCode.SYSTEM_BUSY, "too many updates of the settings wait to be saved: try again")
    pairs = {pair.key: pair.value for pair in parse_properties(request.body)}
    if named := sorted(pairs.keys() & protected):
        return response(ResponseCode.NO_PERMISSION, f"not to be changed by an update: {', '.join(named)}")
    return pairs
