from __future__ import annotations

import asyncio
import multiprocessing
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rocketline.client.sync.portal import Portal
from rocketline.errors import CallTimeoutError, ClientError, ClosedError, ForkedError


@pytest.fixture
def portal() -> Iterator[Portal]:
    with Portal("test client") as portal:
        yield portal


async def thread_id() -> int:
    return threading.get_ident()


async def fail() -> None:
    raise KeyError("from the loop")


def test_calls_run_on_one_thread_that_is_not_the_callers(portal: Portal) -> None:
    first = portal.call(thread_id())
    assert first != threading.get_ident()
    assert portal.call(thread_id()) == first


def test_nothing_is_started_before_the_first_call() -> None:
    before = threading.active_count()
    portal = Portal("unused")
    assert threading.active_count() == before
    portal.close()
    assert threading.active_count() == before


def test_what_is_raised_there_is_raised_here(portal: Portal) -> None:
    with pytest.raises(KeyError, match="from the loop"):
        portal.call(fail())


def test_call_that_takes_too_long_is_cancelled(portal: Portal) -> None:
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(CallTimeoutError, match=r"test client took longer than its 0\.01 s"):
        portal.call(slow(), timeout_s=0.01)
    assert cancelled.wait(5)


def test_timeout_of_the_work_itself_is_passed_on(portal: Portal) -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(3600)

    with pytest.raises(TimeoutError) as caught:
        portal.call(impatient(), timeout_s=10)
    assert not isinstance(caught.value, CallTimeoutError)


def test_blocking_call_on_the_loops_own_thread_is_refused(portal: Portal) -> None:
    async def calls_itself() -> None:
        portal.call(thread_id())

    with pytest.raises(ClientError, match="would wait for itself"):
        portal.call(calls_itself())


def test_closing_ends_calls_under_way() -> None:
    portal = Portal("test client")
    begun = threading.Event()
    outcome: list[BaseException] = []

    async def slow() -> None:
        begun.set()
        await asyncio.sleep(3600)

    def caller() -> None:
        try:
            portal.call(slow())
        except ClosedError as error:
            outcome.append(error)

    thread = threading.Thread(target=caller)
    thread.start()
    begun.wait(5)
    portal.close()
    thread.join(5)
    assert "was closed during the call" in str(outcome[0])
    portal.close()
    with pytest.raises(ClosedError, match="test client is closed: make a new one"):
        portal.call(thread_id())
    portal.post(print)  # dropped


def test_posted_action_runs_on_the_loop(portal: Portal) -> None:
    ran: list[int] = []
    done = threading.Event()
    portal.post(lambda: ran.append(threading.get_ident()))
    portal.post(done.set)
    assert done.wait(5)
    assert ran == [portal.call(thread_id())]


def test_portal_closed_from_inside_ends_by_itself() -> None:
    portal = Portal("test client")

    async def close() -> None:
        portal.close()

    with suppress(ClosedError):  # the end may come before the answer
        portal.call(close())
    assert portal._thread is not None
    portal._thread.join(5)
    assert not portal._thread.is_alive()


def test_interrupted_caller_leaves_the_portal_usable(portal: Portal) -> None:
    """Ctrl-C in the main thread reaches the waiting call only."""
    main = threading.get_ident()

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.1, signal.pthread_kill, main, signal.SIGINT)
        await asyncio.sleep(3600)

    with pytest.raises(KeyboardInterrupt):
        portal.call(wait())
    assert portal.call(thread_id())


def test_forked_child_is_told_so(portal: Portal) -> None:
    portal.call(thread_id())
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        for use in (lambda: portal.call(thread_id()), lambda: portal.post(print)):
            try:
                use()
            except ForkedError as error:
                sender.send(str(error))
        portal.close()

    process = context.Process(target=child)
    process.start()
    texts = [receiver.recv(), receiver.recv()]
    process.join()
    receiver.close()
    sender.close()
    assert all(text.startswith("test client was made before this process was forked") for text in texts)
    assert process.exitcode == 0
    assert portal.call(thread_id())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_process_that_forgets_to_close_ends_without_complaint(loop: str) -> None:
    # A loop in debug mode also tells of steps that took 0.1 s, as any may on a busy machine.
    program = """
import asyncio, logging
logging.getLogger("asyncio").addFilter(lambda record: not str(record.msg).startswith("Executing"))
from rocketline.client.sync.portal import Portal
portal = Portal("forgotten")
async def begin():
    asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="left")
    return type(asyncio.get_running_loop()).__module__
print(portal.call(begin()))
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env={"ROCKETLINE_LOOP": loop, "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(loop)


def test_call_within_a_call_ends_wherever_the_outer_one_is(portal: Portal) -> None:
    """A signal's handler runs between any two steps of a call that waits, and may call: here after each in turn."""

    async def answer(number: int) -> int:
        return number

    portal.call(answer(0))
    for step in range(60):
        left, inner = step, 0

        def handler(*_: object) -> None:
            nonlocal left, inner
            left -= 1
            if left == 0:
                sys.setprofile(None)
                inner = portal.call(answer(7))

        sys.setprofile(handler)
        try:
            assert portal.call(answer(step)) == step
        finally:
            sys.setprofile(None)
        assert inner in (0, 7)


@pytest.mark.parametrize("is_started", [False, True])
def test_portal_is_closed_within_its_start_or_its_close(is_started: bool) -> None:
    """By a signal's handler, say, after any step of it."""

    async def answer() -> int:
        return 7

    for step in range(1, 40):
        portal, left = Portal("p"), step
        if is_started:
            portal.call(answer())

        def handler(*_: object, portal: Portal = portal) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                sys.setprofile(None)
                portal.close()

        sys.setprofile(handler)
        try:
            if is_started:
                portal.close()
            else:
                with suppress(ClosedError):
                    assert portal.call(answer()) == 7
        finally:
            sys.setprofile(None)
        portal.close()
        assert portal._thread is None or not portal._thread.is_alive()
