"""The options of pull and lite pull consumers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from rocketline.client.aio.lite_pull_consumer import LitePullConsumer
from rocketline.client.consumer.pull_options import PullKeywords, PullOptions
from rocketline.client.lite_pull.options import LitePullKeywords, LitePullOptions
from rocketline.client.options import ClientOptions
from rocketline.client.simple.options import SimpleKeywords, SimpleOptions
from rocketline.errors import ConfigError, InvalidNameError
from rocketline.model.subscription import ConsumeFromWhere


def test_defaults_are_those_of_the_java_client() -> None:
    options = LitePullOptions()
    assert (options.pull_batch_max, options.poll_timeout_s, options.suspend_s) == (10, 5.0, 20.0)
    assert (options.auto_commit, options.auto_commit_period_s, options.stream_requests) == (True, 5.0, True)
    limits = options.limits()
    assert (limits.all_count, limits.queue_count, limits.queue_mib, limits.queue_span) == (10_000, 1000, 100, 2000)
    assert PullOptions().stream_requests


@pytest.mark.parametrize(
    ("options", "keywords"),
    [(LitePullOptions, LitePullKeywords), (PullOptions, PullKeywords), (SimpleOptions, SimpleKeywords)],
    ids=["lite", "pull", "simple"],
)
def test_keywords_are_the_options(options: type[ClientOptions], keywords: Any) -> None:
    types = {field.name: field.type for field in fields(options) if field.name != "name_servers"}
    assert types == {name: wanted.__forward_arg__ for name, wanted in keywords.__annotations__.items()}


def test_wrong_values_are_all_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        LitePullOptions(
            suspend_s=40.0,
            auto_commit_period_s=0.5,
            consume_from=ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET,
            pull_batch_max=0,
        )
    assert len(caught.value.problems) == 4
    with pytest.raises(ConfigError, match="must be at least suspend_s"):
        PullOptions(suspend_s=40.0)


def test_mistyped_option_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match="did you mean pull_batch_max"):
        LitePullConsumer("127.0.0.1:9876", group="g", pull_batch=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("group", ["DEFAULT_CONSUMER", "", "a b"])
def test_group_must_have_a_name_of_its_own(group: str) -> None:
    with pytest.raises(InvalidNameError):
        LitePullConsumer("127.0.0.1:9876", group=group)
