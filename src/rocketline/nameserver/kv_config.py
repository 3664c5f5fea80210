"""The KV configuration: namespaces of keys and values that administrators keep at the name server.

One namespace has a meaning to us: ORDER_TOPIC_CONFIG holds, by topic, on how many queues of which broker an ordered
topic lies. Java: KVConfigManager; the file is the one that Apache's name server writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rocketline.errors import ConfigError
from rocketline.files import replace_file
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.lists import KVTable

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"


Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]


class KvChange(NamedTuple):
    """A value that is set; without one, a key that goes. Its namespace stays."""

    namespace: str
    key: str
    value: str | None = None

    @property
    def size(self) -> int:
        return len(self.namespace) + len(self.key) + len(self.value or "")


class KvConfig:
    """Keys and values by namespace. A change is on disk before anybody can see it; if that fails, nothing changed.

    namespaces = kv.changed(changes)
    kv.write(namespaces)        # from any thread
    kv.adopt(namespaces)
    """

    def __init__(self, path: Path, namespaces: Namespaces | None = None) -> None:
        self.version = 0
        """Changes with every change."""
        self._path = path
        self._bodies: dict[str, bytes] = {}
        self._take(namespaces or {})

    def _take(self, namespaces: Namespaces) -> None:
        self.namespaces: Namespaces = namespaces
        """Replaced by every change, never edited."""
        # A namespace stays when its last key goes, and counts as one.
        self.key_count = sum(max(1, len(table)) for table in namespaces.values())
        self.size = sum(
            KvChange(namespace, key, value).size
            for namespace, table in namespaces.items()
            for key, value in (table or {"": ""}).items()
        )
        """Characters of all there is."""
        self._bodies.clear()

    @classmethod
    def load(cls, path: Path) -> KvConfig:
        """What the file holds; nothing if there is none. Raises `ConfigError` if it cannot be read or understood."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise ConfigError([f"the KV configuration {path} cannot be read: {error.strerror}"]) from error
        return cls(path, _parse(path, content) if content.strip() else None)

    def get(self, namespace: str, key: str) -> str | None:
        return self.namespaces.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """All of a namespace; None if it was never used. One whose keys were all deleted is empty."""
        return self.namespaces.get(namespace)

    def body(self, namespace: str) -> bytes | None:
        """All of a namespace as it is told, None if it was never used. Encoded once for each change."""
        table = self.namespaces.get(namespace)
        if table is None:
            return None
        body = self._bodies.get(namespace)
        if body is None:
            body = self._bodies[namespace] = encode(KVTable(dict(table)))
        return body

    def changed(self, changes: Iterable[KvChange]) -> Namespaces:
        """What the changes make of it; the very same if that is nothing new."""
        namespaces: dict[str, dict[str, str]] = {}
        for namespace, key, value in changes:
            table = namespaces.get(namespace, self.namespaces.get(namespace, {}))
            if table.get(key) != value:
                if namespace not in namespaces:
                    namespaces[namespace] = dict(table)
                if value is None:
                    del namespaces[namespace][key]
                else:
                    namespaces[namespace][key] = value
        return {**self.namespaces, **namespaces} if namespaces else self.namespaces

    def write(self, namespaces: Namespaces) -> None:
        """Save it, from any thread. Raises `OSError`."""
        text = json.dumps({"configTable": namespaces}, ensure_ascii=False, separators=(",", ":"))
        replace_file(self._path, text.encode("utf-8", "replace"))

    def adopt(self, namespaces: Namespaces) -> None:
        """What was written is true from now on."""
        if namespaces is not self.namespaces:
            self._take(namespaces)
            self.version += 1


def _parse(path: Path, content: bytes) -> dict[str, dict[str, str]]:
    remedy = "repair it or move it away"
    try:
        tables: Any = json.loads(content).get("configTable", {})
    except (ValueError, AttributeError, RecursionError) as error:
        raise ConfigError([f"the KV configuration {path} is no JSON object: {error}; {remedy}"]) from None
    for namespace, table in tables.items() if isinstance(tables, dict) else [("configTable", tables)]:
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise ConfigError([f"the KV configuration {path}: {namespace} is no table of texts; {remedy}"])
    return tables if isinstance(tables, dict) else {}
