"""The KV configuration in memory and on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.nameserver.kv_config import KvConfig
from support.name_servers.kv_changes import delete, put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def test_value_that_was_put_is_found_after_a_restart(path: Path) -> None:
    put(KvConfig.load(path), "ns", "key", 'a "value" of ü\n')
    assert KvConfig.load(path).get("ns", "key") == 'a "value" of ü\n'


def test_file_has_the_form_that_apache_writes(path: Path) -> None:
    put(KvConfig.load(path), "ns", "key", "ü")
    assert path.read_text("utf-8") == '{"configTable":{"ns":{"key":"ü"}}}'


def test_absent_key_and_namespace_have_no_value(path: Path) -> None:
    kv = KvConfig.load(path)
    assert (kv.get("ns", "key"), kv.table("ns")) == (None, None)


def test_emptied_namespace_still_exists_after_a_restart(path: Path) -> None:
    kv = KvConfig.load(path)
    put(kv, "ns", "key", "value")
    delete(kv, "ns", "key")
    assert kv.table("ns") == {}
    assert KvConfig.load(path).table("ns") == {}


def test_delete_of_an_absent_key_changes_nothing(path: Path) -> None:
    kv = KvConfig.load(path)
    delete(kv, "ns", "key")
    assert (kv.version, kv.table("ns"), path.exists()) == (0, None, False)


def test_version_changes_with_every_change_and_only_then(path: Path) -> None:
    kv = KvConfig.load(path)
    versions = [kv.version]
    for value in ("a", "a", "b"):
        put(kv, "ns", "key", value)
        versions.append(kv.version)
    delete(kv, "ns", "key")
    versions.append(kv.version)
    assert versions == [0, 1, 1, 2, 3]


def test_put_that_cannot_be_saved_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kv = KvConfig(tmp_path / "file" / "kvConfig.json")
    with pytest.raises(OSError, match="file"):
        put(kv, "ns", "key", "value")
    assert (kv.get("ns", "key"), kv.version) == (None, 0)


def test_half_of_a_surrogate_pair_is_saved_as_a_question_mark(path: Path) -> None:
    put(KvConfig.load(path), "ns", "key", "\ud800")
    assert KvConfig.load(path).get("ns", "key") == "?"


@pytest.mark.parametrize("content", ["", " \n", "{}", '{"configTable":{}}'])
def test_file_without_tables_is_an_empty_configuration(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    assert KvConfig.load(path).table("ns") is None


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "7",
        "[" * 100_000,
        '{"configTable":7}',
        '{"configTable":null}',
        '{"configTable":{"ns":7}}',
        '{"configTable":{"ns":{"key":{}}}}',
        "\xff",
    ],
)
def test_corrupt_file_is_named_with_a_remedy(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError) as raised:
        KvConfig.load(path)
    assert str(path) in str(raised.value)
    assert "move it away" in str(raised.value)


def test_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        KvConfig.load(tmp_path)


def test_values_and_keys_of_any_text_survive(path: Path) -> None:
    kv = KvConfig.load(path)
    texts = ["", " ", "\u0001", "{}", "\\", "日本", "\u2028"]
    for text in texts:
        put(kv, text, text, text)
    loaded = KvConfig.load(path)
    assert [loaded.get(text, text) for text in texts] == texts
    assert list(json.loads(path.read_bytes())) == ["configTable"]
