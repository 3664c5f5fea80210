"""Pipeline files for tests, small and valid, to be changed where a test needs it otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LANDING = """\
name = "orders"

[sources.orders]
nameServer = "{address}"
subscribe = "{topic}"
startingOffsets = "earliest"

[steps.raw]
from = "orders"
table = {{ format = "{format}", path = "raw" }}
"""

CHAIN = """\
name = "orders"

[sources.orders]
nameServer = "{address}"
subscribe = "{topic}"
startingOffsets = "earliest"

[steps.raw]
from = "orders"
table = {{ format = "{format}", path = "raw" }}

[steps.clean]
from = "raw"
parse = {{ format = "json", schema = "id string, price double, at timestamp" }}
expect = [{{ name = "price is positive", that = "price > 0" }}]
watermark = {{ time = "at", late = "10 minutes" }}
deduplicate = "id"
table = {{ format = "{format}", path = "clean" }}
quarantine = {{ format = "{format}", path = "quarantine" }}

[steps.revenue]
from = "clean"
watermark = {{ time = "at", late = "10 minutes" }}
aggregate = {{ time = "at", every = "1 minute", values = {{ revenue = "sum(price)" }} }}
table = {{ format = "{format}", path = "revenue" }}
"""


def written(
    folder: Path, text: str, *, address: str = "127.0.0.1:9876", topic: str = "orders", format: str = "delta"
) -> Path:
    """The file of a pipeline, in a folder that its tables are made in, too."""
    file = folder / "orders.toml"
    file.write_text(text.format(address=address, topic=topic, format=format))
    return file


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    """For tests of pipelines with functions: what these import is forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
