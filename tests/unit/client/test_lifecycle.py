from __future__ import annotations

import pytest

from rocketline.client.lifecycle import Lifecycle
from rocketline.errors import ClientError, ClosedError, NotStartedError


def test_client_runs_from_start_to_close() -> None:
    life = Lifecycle("<it>")
    with pytest.raises(NotStartedError, match="<it> is not started"):
        life.check()
    life.start()
    life.check()
    assert life.is_running
    assert life.close()
    assert life.is_closed
    with pytest.raises(ClosedError, match="<it> is closed: make a new one"):
        life.check()


def test_second_start_and_start_after_close_are_refused() -> None:
    life = Lifecycle("<it>")
    life.start()
    with pytest.raises(ClientError, match="started already"):
        life.start()
    life.close()
    with pytest.raises(ClosedError):
        life.start()


def test_close_tells_whether_there_was_something_to_close() -> None:
    life = Lifecycle("<it>")
    assert not life.close()
    assert not life.close()
