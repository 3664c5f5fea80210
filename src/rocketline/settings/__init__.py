"""Settings: declared in frozen dataclasses, loaded in layers, changed while a server runs.

A configuration class declares each value with `setting`. `load` lays a file (Apache's property text, or TOML), the
environment and flags over its defaults, and remembers where every value came from. Which settings there are is said by
`config` of a server, of `store` or of `net`; what one does, where it is read. Clients have options instead
(`client.options`).

The environment: a variable's name is a prefix, which the program chooses, and Apache's key in upper case with its words
parted by underscores, as in ROCKETLINE_NAMESERVER_LISTEN_PORT for listenPort. Apache's own variables count where there
are any, as ROCKETMQ_HOME.

TOML: a name is Apache's key at the top level, or the attribute's place, as in `[network]` with `listen_port`.
"""

from rocketline.settings.declared import MASK, setting
from rocketline.settings.effective import Row, Settings, Unknown, Update, load
from rocketline.settings.properties import format_properties, parse_properties
from rocketline.settings.sources import Flag, Layer, Origin

__all__ = [
    "MASK", "Flag", "Layer", "Origin", "Row", "Settings", "Unknown", "Update",
    "format_properties", "load", "parse_properties", "setting",
]  # fmt: skip
