"""Modes of consuming: kept by topic and group, and found again."""

from __future__ import annotations

import pytest

from rocketline.broker.metadata import request_modes
from rocketline.broker.metadata.request_modes import RequestModes
from rocketline.errors import RemoteProtocolError
from rocketline.model.subscription import MessageRequestMode
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from rocketline.wire.bodies.pop import SetMessageRequestModeRequestBody
from support.brokers.saved_tables import CONFIG

FILE = CONFIG / "messageRequestMode.json"


def mode(topic: str, group: str, share: int = -1) -> SetMessageRequestModeRequestBody:
    return SetMessageRequestModeRequestBody(topic, group, MessageRequestMode.POP, share)


def save(modes: RequestModes) -> None:
    """As the broker does, with a thread."""
    try:
        modes.begin_save()()
    except OSError:
        modes.save_failed()
        raise
    modes.save_done()


def test_modes_are_kept_by_topic_and_group_and_survive_a_restart(clock: FakeClock) -> None:
    files = FaultyFileSystem(clock)
    modes = RequestModes.load(files, FILE)
    for topic, group in (("T", "g"), ("T", "h"), ("U", "g")):
        modes.set(topic, group, mode(topic, group))
    modes.set("T", "g", mode("T", "g", 4))
    assert modes.mode_of("T", "g") is None, "not before it is saved"
    save(modes)
    again = RequestModes.load(files, FILE).table
    assert again == modes.table
    assert again.message_request_mode_map == {
        "T": {"g": mode("T", "g", 4), "h": mode("T", "h")},
        "U": {"g": mode("U", "g")},
    }


def test_mode_that_cannot_be_saved_is_not_set(clock: FakeClock) -> None:
    files = FaultyFileSystem(clock)
    modes = RequestModes.load(files, FILE)
    files.fail(at=1)
    modes.set("T", "g", mode("T", "g"))
    with pytest.raises(OSError, match="Input/output"):
        save(modes)
    assert modes.table.message_request_mode_map == {}
    modes.set("U", "g", mode("U", "g"))
    save(modes)
    assert RequestModes.load(files, FILE).table.message_request_mode_map == {"U": {"g": mode("U", "g")}}


def test_mode_that_is_set_during_a_save_is_kept_by_the_next(clock: FakeClock) -> None:
    modes = RequestModes.load(FaultyFileSystem(clock), FILE)
    modes.set("T", "g", mode("T", "g"))
    write = modes.begin_save()
    modes.set("U", "g", mode("U", "g"))
    write()
    modes.save_done()
    assert modes.table.message_request_mode_map.keys() == {"T"}
    save(modes)
    assert modes.table.message_request_mode_map.keys() == {"T", "U"}


def test_modes_have_a_bound_and_those_that_are_set_can_be_changed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_modes, "MODES_MAX", 2)
    modes = RequestModes.load(FaultyFileSystem(clock), FILE)
    modes.set("T", "g", mode("T", "g"))
    modes.set("U", "g", mode("U", "g"))
    for is_saved in (False, True):
        with pytest.raises(RemoteProtocolError, match="no more can be"):
            modes.set("U", "h", mode("U", "h"))
        if not is_saved:
            save(modes)
    modes.set("U", "g", mode("U", "g", 4))
    save(modes)
    assert modes.table.message_request_mode_map["U"] == {"g": mode("U", "g", 4)}
