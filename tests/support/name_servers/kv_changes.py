"""Changes of a KV configuration, saved at once."""

from __future__ import annotations

from rocketline.nameserver.kv_config import KvChange, KvConfig


def put(kv: KvConfig, namespace: str, key: str, value: str) -> None:
    save(kv, KvChange(namespace, key, value))


def delete(kv: KvConfig, namespace: str, key: str) -> None:
    save(kv, KvChange(namespace, key))


def save(kv: KvConfig, *changes: KvChange) -> None:
    namespaces = kv.changed(changes)
    if namespaces is not kv.namespaces:
        kv.write(namespaces)
    kv.adopt(namespaces)
