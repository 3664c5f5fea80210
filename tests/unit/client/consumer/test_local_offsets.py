from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.client.consumer.local_offsets import LocalFileOffsets, offset_path
from rocketline.errors import CorruptStoreError
from rocketline.model.queue import MessageQueue
from support.clients.runtime_double import queues

ONE, TWO, THREE = queues(3)
FROM_JAVA = (
    '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"T"\n\t\t}:77\n\t}\n}'
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return offset_path("10.0.0.1@DEFAULT", "g", tmp_path)


@pytest.fixture
def backup(path: Path) -> Path:
    return path.with_name("offsets.json.bak")


def test_path_is_that_of_the_java_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C194."""
    assert offset_path("10.0.0.1@DEFAULT", "g", tmp_path) == tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert offset_path("c", "g") == tmp_path / ".rocketmq_offsets" / "c" / "g" / "offsets.json"


def test_first_consumer_has_no_file_and_no_offsets(path: Path) -> None:
    offsets = LocalFileOffsets(path)
    assert offsets.load() == {}
    assert offsets.fetch(ONE) is None
    assert not path.exists()


def test_saved_offsets_are_there_after_a_restart_as_bare_object_keys(path: Path) -> None:
    """C194: the only form that every Java client reads."""
    LocalFileOffsets(path).save({ONE: 5})
    assert path.read_bytes() == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert LocalFileOffsets(path).load() == {ONE: 5}


def test_file_of_a_java_client_is_read(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(FROM_JAVA)
    assert LocalFileOffsets(path).fetch(TWO) == 77


def test_saving_merges_and_keeps_the_file_before_as_backup(path: Path, backup: Path) -> None:
    offsets = LocalFileOffsets(path)
    offsets.save({ONE: 5, TWO: 6})
    assert not backup.exists()
    before = path.read_bytes()
    offsets.save({TWO: 7, THREE: 8})
    assert offsets.load() == {ONE: 5, TWO: 7, THREE: 8}
    assert backup.read_bytes() == before


def test_unchanged_offsets_are_not_written_again(path: Path, backup: Path) -> None:
    offsets = LocalFileOffsets(path)
    offsets.save({ONE: 5})
    offsets.save({ONE: 5})
    assert not backup.exists()


@pytest.mark.parametrize("broken", [b"", b"{", b"\xff\xfe", b"[1]", b'{"offsetTable":{"b":1}}'])
def test_broken_file_is_replaced_by_its_backup(path: Path, backup: Path, broken: bytes) -> None:
    """C194."""
    offsets = LocalFileOffsets(path)
    offsets.save({ONE: 5})
    offsets.save({ONE: 6})
    path.write_bytes(broken)
    assert offsets.load() == {ONE: 5}
    kept = backup.read_bytes()
    offsets.save({TWO: 9})
    assert offsets.load() == {ONE: 5, TWO: 9}
    assert backup.read_bytes() == kept, "a broken file must not replace the backup that still serves"


def test_file_that_is_gone_is_replaced_by_its_backup(path: Path, backup: Path) -> None:
    offsets = LocalFileOffsets(path)
    offsets.save({ONE: 5})
    offsets.save({ONE: 6})
    path.unlink()
    assert offsets.load() == {ONE: 5}
    offsets.save({ONE: 5})
    assert path.exists()


def test_broken_file_with_a_broken_backup_is_an_error_that_names_both(path: Path, backup: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{")
    with pytest.raises(CorruptStoreError, match=r"offsets\.json: it cannot be read, and there is no backup"):
        LocalFileOffsets(path).load()
    backup.write_bytes(b"}")
    with pytest.raises(CorruptStoreError, match=r"offsets\.json\.bak: neither it nor offsets\.json"):
        LocalFileOffsets(path).save({ONE: 1})


def test_names_that_are_not_ascii_survive(path: Path) -> None:
    queue = MessageQueue("Bestellungen-ü", 'b"ä\\', 2**31 - 1)
    LocalFileOffsets(path).save({queue: 2**63 - 1})
    assert LocalFileOffsets(path).load() == {queue: 2**63 - 1}
