"""Must hold 8 of the broker: bad requests get a code and a remark that says what is wrong, and harm nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers import BrokerPeer, broker
from pulls import pull
from rocketline.store.filesystem import DiskFileSystem
from rocketline.wire.codes import RequestCode
from sends import send_v2

pytestmark = pytest.mark.timeout(60)


async def assert_serves(peer: BrokerPeer) -> None:
    """A message goes in and comes out again."""
    sent = await peer.request(send_v2(b"canary", {"b": "Canary"}), 20)
    assert sent.code == 0, sent.remark
    pulled = await peer.request(pull(int(sent.ext["queueOffset"]), topic="Canary"), 20)
    assert (pulled.code, b"canary" in pulled.body) == (0, True), pulled.remark


# --- names that are paths


@pytest.mark.parametrize("name", ["../commitlog", "..", ".", "../../outside", "{outside}", "\0", "x" * 5000, "\ud800"])
async def test_deleting_a_topic_with_the_name_of_a_folder_deletes_nothing(tmp_path: Path, name: str) -> None:
    """Like Apache: a topic that is not there is as good as deleted."""
    outside, root = tmp_path / "outside", tmp_path / "store"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    async with (
        broker(files=DiskFileSystem(), storePathRootDir=str(root)) as running,
        BrokerPeer(running.address) as peer,
    ):
        await assert_serves(peer)
        before = _files(tmp_path)
        answer = await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name.format(outside=outside)})
        assert answer.code == 0, answer.remark
        assert _files(tmp_path) >= before
        await assert_serves(peer)


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
