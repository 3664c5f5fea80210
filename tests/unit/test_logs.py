"""Events, their two formats, and the limit of one line per second and cause."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from rocketline.logs import JsonFormatter, Log, LogFormat, TextFormatter, Throttle, configure
from rocketline.testing.fake_clock import FakeClock


class Lines(logging.Handler):
    """Keeps what each format makes of a record, without its time."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.objects: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(TextFormatter().format(record).partition(" ")[2])
        entry = json.loads(JsonFormatter().format(record))
        assert entry.pop("time")
        self.objects.append(entry)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("rocketline")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []  # pytest's own handlers stay open for later tests
    yield
    root.handlers, root.level = handlers, level


def test_event_is_written_with_its_fields_in_both_formats(lines: Lines) -> None:
    Log("rocketline.nameserver").info("broker registered", broker="broker-a", topics=12)

    assert lines.texts == ["INFO    broker registered broker=broker-a topics=12"]
    assert lines.objects == [
        {"level": "info", "logger": "rocketline.nameserver", "event": "broker registered"}
        | {"broker": "broker-a", "topics": 12}
    ]


def test_event_below_the_level_is_not_written(lines: Lines) -> None:
    Log("rocketline").debug("detail")

    assert lines.texts == []


@pytest.mark.parametrize("evil", ["a\nb", "a\rb", "a\x1b[31mb", "a\u2028b", "a\x85b", "a\ud800b", 'a" b=c'])
def test_text_of_a_peer_cannot_start_a_line_or_fake_a_field(lines: Lines, evil: str) -> None:
    Log("rocketline").warning(f"topic {evil}", topic=evil)

    (line,) = lines.texts
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert line.endswith(f"topic={json.dumps(evil)}")
    line.encode()
    assert lines.objects[0]["topic"] == evil


def test_long_text_of_a_peer_is_cut(lines: Lines) -> None:
    Log("rocketline").warning("e" * 5000, topic="t" * 5000)

    assert lines.objects[0]["event"] == "e" * 1000 + "… (5000 characters)"
    assert lines.objects[0]["topic"] == "t" * 1000 + "… (5000 characters)"
    assert len(lines.texts[0]) < 2100


def test_list_is_written_as_its_parts_and_a_number_as_a_number(lines: Lines) -> None:
    Log("rocketline").info("updated", keys=("a", "b"), none=(), count=2, ratio=0.5, live=True, what=None)

    assert lines.texts == ['INFO    updated keys="a, b" none="" count=2 ratio=0.5 live=True what=None']
    assert lines.objects[0].items() >= {"keys": "a, b", "count": 2, "ratio": 0.5, "live": True, "what": "None"}.items()


def test_error_is_written_with_its_traceback(lines: Lines) -> None:
    try:
        raise RuntimeError("boom\nsecond")
    except RuntimeError as error:
        Log("rocketline").error("handler failed", error=error, code=105)

    assert lines.texts[0].startswith("ERROR   handler failed code=105\n    Traceback")
    assert lines.texts[0].endswith("\n    RuntimeError: boom\n    second")
    assert str(lines.objects[0]["error"]).endswith("RuntimeError: boom\nsecond")


def test_json_field_cannot_replace_what_every_line_has(lines: Lines) -> None:
    Log("rocketline").info("real", level="fake", logger="fake", address=object)

    assert lines.objects[0]["level"] == "info"
    assert lines.objects[0]["logger"] == "rocketline"


def test_throttle_lets_one_line_per_second_and_cause_through(lines: Lines, clock: FakeClock) -> None:
    throttle = Throttle(clock)
    for _ in range(1000):
        throttle.warning("bad frame", "too long", peer="127.0.0.1:1")
        throttle.warning("bad hello", "not TLS")

    assert lines.texts == ["WARNING bad frame: too long peer=127.0.0.1:1", "WARNING bad hello: not TLS"]


def test_throttle_next_line_tells_how_many_were_held_back(lines: Lines, clock: FakeClock) -> None:
    throttle = Throttle(clock)
    for _ in range(4):
        throttle.warning("bad frame", "too long")
    clock.advance(1.0)
    throttle.warning("bad frame", "too short", peer="127.0.0.1:2")
    clock.advance(1.0)
    throttle.warning("bad frame", "too long")

    assert lines.texts[1:] == [
        "WARNING bad frame: too short peer=127.0.0.1:2 suppressed=3",
        "WARNING bad frame: too long",
    ]


def test_throttle_flush_due_waits_for_the_second_to_be_over(lines: Lines, clock: FakeClock) -> None:
    throttle = Throttle(clock)
    throttle.warning("bad frame", "too long")
    throttle.warning("bad frame", "too long")
    clock.advance(0.9)
    throttle.flush_due()
    assert len(lines.texts) == 1

    clock.advance(0.1)
    throttle.flush_due()
    throttle.warning("bad frame", "too long")
    throttle.flush_due()
    assert lines.texts[1:] == ["WARNING bad frame: more like the last line suppressed=1"]


def test_throttle_flush_tells_every_count_once(lines: Lines, clock: FakeClock) -> None:
    throttle = Throttle(clock)
    for _ in range(3):
        throttle.error("handler failed", "request 105", error=ValueError("x"), peer="127.0.0.1:1")
        throttle.warning("bad frame", "too long")
    throttle.flush()
    throttle.flush()

    assert lines.texts[2:] == [
        "ERROR   handler failed: more like the last line suppressed=2",
        "WARNING bad frame: more like the last line suppressed=2",
    ]


@pytest.mark.usefixtures("_root_logger_as_it_was")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_configure_sends_everything_from_the_level_up_to_the_stream(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure("warning", log_format, stream)
    logging.getLogger("asyncio").info("quiet")
    logging.getLogger("asyncio").warning("loud %d", 1)

    (line,) = stream.getvalue().splitlines()
    assert (json.loads(line)["event"] == "loud 1") if log_format is LogFormat.JSON else line.endswith("WARNING loud 1")


def test_handlers_of_an_application_show_the_fields_too(caplog: pytest.LogCaptureFixture) -> None:
    Log("rocketline.test").warning("topic has no route", topic="orders", remark="no\nroute")

    assert caplog.messages == ['topic has no route topic=orders remark="no\\nroute"']
