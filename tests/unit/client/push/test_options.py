from __future__ import annotations

import ssl
from dataclasses import fields
from typing import get_type_hints

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.push.options import PushKeywords, PushOptions
from rocketline.client.push.pull_loop import PullLimits
from rocketline.errors import ConfigError, InvalidNameError

_NAMES = {"SSLContext": ssl.SSLContext}  # imported where types are checked only


def test_keywords_are_the_options() -> None:
    options = get_type_hints(PushOptions, localns=_NAMES)
    assert {name: options[name] for name in PushKeywords.__annotations__} == get_type_hints(
        PushKeywords, localns=_NAMES
    )
    assert {field.name for field in fields(PushOptions)} - {"name_servers"} == set(PushKeywords.__annotations__)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("consume_threads", (0, 1001)),
        ("consume_batch_max", (0, 1025)),
        ("pull_batch_max", (0, 1025)),
        ("pull_count_max", (0, 65_536)),
        ("pull_size_max_mib", (0, 1025)),
        ("pull_span_max", (0, 65_536)),
        ("pull_topic_count_max", (0, -2, 6_553_501)),
        ("pull_topic_size_max_mib", (0, -2, 102_401)),
        ("pull_interval_s", (-1, 65.6)),
        ("reconsume_times_max", (-2,)),
    ],
)
def test_bounds_are_javas(name: str, wrong: tuple[float, ...]) -> None:
    for value in wrong:
        with pytest.raises(ConfigError, match=name):
            PushOptions(**{name: value})  # type: ignore[arg-type]


def test_a_wrong_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match="consume_threads"):
        PushConsumer("127.0.0.1:9876", group="g", consume_thread=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("group", ["DEFAULT_CONSUMER", "", "a b", "x" * 121])
def test_a_group_needs_a_name_of_its_own(group: str) -> None:
    """C8."""
    with pytest.raises(InvalidNameError):
        PushConsumer("127.0.0.1:9876", group=group)


def test_limits_of_a_topic_are_shared_out_among_its_queues() -> None:
    """C147."""
    options = PushOptions(pull_topic_count_max=1000, pull_topic_size_max_mib=5)
    assert PullLimits.of(options, 10) == PullLimits(100, 1, 2000)
    assert PullLimits.of(PushOptions(), 10) == PullLimits(1000, 100, 2000)
