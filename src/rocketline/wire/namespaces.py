"""Namespaces: several tenants on one cluster.

The older kind lives in clients alone, which send `namespace%name` for each topic and group. The newer one leaves the
names alone and says the namespace in two fields of every request; plain brokers ignore it, gateways read it.
Java: NamespaceUtil.
"""

from __future__ import annotations

from rocketline.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic

SEPARATOR = "%"

NAMESPACE_FIELD = "ns"
NAMESPACED_FIELD = "nsd"


def namespace_v2_fields(namespace: str) -> dict[str, str]:
    """What a request of the newer kind carries. The fields are signed, so add them before signing."""
    return {NAMESPACED_FIELD: "true", NAMESPACE_FIELD: namespace}


def with_namespace(namespace: str, name: str) -> str:
    """`name` of a topic or group inside `namespace`. System names, and those inside it already, stay as they are.

    >>> with_namespace("ns", "T"), with_namespace("ns", "%RETRY%g"), with_namespace("ns", "TBW102")
    ('ns%T', '%RETRY%ns%g', 'TBW102')
    """
    prefix, bare = _split_prefix(name)
    if not namespace or not name or _is_system_name(name) or bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def without_namespace(name: str, namespace: str | None = None) -> str:
    """`name` without the namespace it is in; if one is given, only without that one.

    >>> without_namespace("%DLQ%ns%g"), without_namespace("ns%T", "other"), without_namespace("ns%T", "ns")
    ('%DLQ%g', 'ns%T', 'T')
    """
    found = namespace_of(name)
    prefix, bare = _split_prefix(name)
    if not found or (namespace is not None and not bare.startswith(namespace + SEPARATOR)):
        return name
    return prefix + bare[len(found) + len(SEPARATOR) :]


def namespace_of(name: str) -> str:
    """The namespace that `name` is in, or the empty text."""
    if _is_system_name(name):
        return ""
    namespace, separator, _ = _split_prefix(name)[1].partition(SEPARATOR)
    return namespace if separator else ""


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system_name(name: str) -> bool:
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)
