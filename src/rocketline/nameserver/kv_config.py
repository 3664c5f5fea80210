"""The KV configuration: namespaces of keys and values that administrators keep at the name server.

One namespace has a meaning to us: ORDER_TOPIC_CONFIG holds, by topic, on how many queues of which broker an ordered
topic lies. Java: KVConfigManager; the file is the one that Apache's name server writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketline.errors import ConfigError
from rocketline.files import replace_file

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"


class KvConfig:
    """Keys and values by namespace. A change is on disk before anybody can see it; if that fails, nothing changed."""

    def __init__(self, path: Path, namespaces: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.version = 0
        """Changes with every change."""
        self._path = path
        self.namespaces: Mapping[str, Mapping[str, str]] = namespaces or {}
        """Replaced by every change, never edited."""

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

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value. Raises `OSError` if it cannot be saved."""
        table = self.namespaces.get(namespace, {})
        if table.get(key) != value:
            self._replace(namespace, {**table, key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key if it is there; its namespace stays. Raises `OSError` if that cannot be saved."""
        table = self.namespaces.get(namespace, {})
        if key in table:
            self._replace(namespace, {k: v for k, v in table.items() if k != key})

    def _replace(self, namespace: str, table: Mapping[str, str]) -> None:
        namespaces = {**self.namespaces, namespace: table}
        text = json.dumps({"configTable": namespaces}, ensure_ascii=False, separators=(",", ":"))
        replace_file(self._path, text.encode("utf-8", "replace"))
        self.namespaces = namespaces
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
