"""How hypothesis runs here: the same examples every time, however busy the machine. `make fuzz` looks for new ones."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rocketline", deadline=None, derandomize=True)
settings.load_profile("rocketline")
