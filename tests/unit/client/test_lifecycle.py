from __future__ import annotations

import pytest

from rocketline.client.lifecycle import Lifecycle
from rocketline.errors import ClientError, ClosedError, ForkedError, NotStartedError, RocketlineError, WrongLoopError


def anywhere(thing: str) -> None:
    """A place where it can be used."""


def only_before(error: RocketlineError) -> Lifecycle:
    """One that runs, and cannot be used where it now is."""

    def refuse(thing: str) -> None:
        assert thing == "<it>"
        raise error

    life = Lifecycle("<it>", refuse)
    life.check_if_running()
    life.start()
    return life


def test_client_runs_from_start_to_close() -> None:
    life = Lifecycle("<it>", anywhere)
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
    life = Lifecycle("<it>", anywhere)
    life.start()
    with pytest.raises(ClientError, match="started already"):
        life.start()
    life.close()
    with pytest.raises(ClosedError):
        life.start()


def test_close_tells_whether_there_was_something_to_close() -> None:
    life = Lifecycle("<it>", anywhere)
    assert not life.close()
    assert not life.close()


@pytest.mark.parametrize("error", [ForkedError("<it>"), WrongLoopError("<it>")])
def test_client_that_runs_elsewhere_says_so(error: RocketlineError) -> None:
    life = only_before(error)
    life.check_running()
    for check in (life.check, life.check_if_running):
        with pytest.raises(type(error)):
            check()


def test_after_a_fork_there_is_nothing_to_close() -> None:
    life = only_before(ForkedError("<it>"))
    assert not life.close()
    assert life.is_closed


def test_client_is_not_closed_from_another_loop() -> None:
    life = only_before(WrongLoopError("<it>"))
    with pytest.raises(WrongLoopError):
        life.close()
    assert life.is_running


def test_client_whose_runtime_was_closed_has_its_own_to_close() -> None:
    assert only_before(ClosedError("<runtime> is closed")).close()


def test_of_two_who_close_one_has_something_to_end() -> None:
    """As when a signal handler closes what is just being closed."""
    nested: list[bool] = []

    def interrupted(thing: str) -> None:
        if not nested:
            nested.append(False)
            nested[0] = life.close()

    life = Lifecycle("<it>", interrupted)
    life.start()
    assert [life.close(), *nested] == [False, True]


def test_what_does_not_run_yet_can_be_closed_by_any_thread_and_cannot_start() -> None:
    life = Lifecycle("<it>", anywhere)
    assert life.close_if_new()
    assert not life.close_if_new()
    with pytest.raises(ClosedError):
        life.start()
    running = Lifecycle("<it>", anywhere)
    running.start()
    assert not running.close_if_new()
    assert running.is_running


def test_life_that_is_seen_from_two_places_is_one_life_with_two_checks() -> None:
    life = Lifecycle("<it>", anywhere)

    def refuse(thing: str) -> None:
        raise WrongLoopError(thing)

    elsewhere = life.seen_from(refuse)
    life.start()
    life.check()
    with pytest.raises(WrongLoopError, match="<it>"):
        elsewhere.check()
    assert life.close()
    assert elsewhere.is_closed
    assert not elsewhere.close()
