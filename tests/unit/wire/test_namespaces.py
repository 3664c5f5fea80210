"""Each row was asked of Java's NamespaceUtil of 5.5.0, with the same answer."""

from __future__ import annotations

import pytest

from rocketline.wire.namespaces import (
    namespace_of,
    namespace_v2_fields,
    with_namespace,
    without_namespace,
)


@pytest.mark.parametrize(
    ("namespace", "name", "wrapped"),
    [
        ("ns", "T", "ns%T"),
        ("ns", "ns%T", "ns%T"),
        ("ns", "other%T", "ns%other%T"),
        ("ns", "%RETRY%g", "%RETRY%ns%g"),
        ("ns", "%RETRY%ns%g", "%RETRY%ns%g"),
        ("ns", "%DLQ%g", "%DLQ%ns%g"),
        ("ns", "TBW102", "TBW102"),
        ("ns", "rmq_sys_x", "rmq_sys_x"),
        ("ns", "CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("ns", "DEFAULT_CONSUMER", "ns%DEFAULT_CONSUMER"),
        ("", "T", "T"),
        ("ns", "", ""),
    ],
)
def test_name_inside_a_namespace_has_its_prefix(namespace: str, name: str, wrapped: str) -> None:
    assert with_namespace(namespace, name) == wrapped


@pytest.mark.parametrize(
    ("name", "bare", "namespace"),
    [
        ("ns%T", "T", "ns"),
        ("ns%a%b", "a%b", "ns"),
        ("%RETRY%ns%g", "%RETRY%g", "ns"),
        ("%DLQ%ns%g", "%DLQ%g", "ns"),
        ("T", "T", ""),
        ("%T", "%T", ""),
        ("ns%", "", "ns"),
        ("%RETRY%g", "%RETRY%g", ""),
        ("rmq_sys_a%b", "rmq_sys_a%b", ""),
        ("", "", ""),
    ],
)
def test_name_without_its_namespace_is_bare(name: str, bare: str, namespace: str) -> None:
    assert without_namespace(name) == bare
    assert namespace_of(name) == namespace


def test_only_the_given_namespace_is_taken_off() -> None:
    assert without_namespace("ns%T", "ns") == "T"
    assert without_namespace("ns%T", "n") == "ns%T"
    assert without_namespace("%RETRY%ns%g", "other") == "%RETRY%ns%g"
    assert without_namespace("ns%T", "") == "ns%T"


def test_newer_namespaces_are_two_fields() -> None:
    assert namespace_v2_fields("ns") == {"nsd": "true", "ns": "ns"}
