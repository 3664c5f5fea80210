"""The fuzzer itself: it finds planted bugs, and none in the first inputs of every decoder."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from fuzz.__main__ import Campaign, outcome
from fuzz.broker_targets import close_brokers
from fuzz.mutation import INPUT_BYTES_MAX, mutate
from fuzz.targets import Target, all_targets
from rocketline.errors import RemoteProtocolError

TARGETS = all_targets()


@pytest.fixture(autouse=True)
def _brokers() -> Iterator[None]:
    yield
    close_brokers()


def buggy(data: bytes) -> int:
    """Refuses what is short, and trips over one byte that no seed has."""
    if len(data) < 4:
        raise RemoteProtocolError(f"{len(data)} bytes are too few")
    return {0: 1}[data.count(b"!")]


def test_campaign_when_decoder_has_a_bug_finds_it_and_makes_the_input_small() -> None:
    campaign, random = Campaign(Target("buggy", buggy, (b"abcdefgh" * 4,))), Random(1)
    while not campaign.findings:
        campaign.try_input(mutate(random, campaign.corpus[0], campaign.corpus[0]))
    (finding,) = campaign.findings.values()
    assert finding.problem.startswith("KeyError at test_runner.py:")
    assert (len(finding.data), b"!" in finding.data) == (4, True)


def test_outcome_when_decoder_refuses_leaves_the_inputs_own_words_out() -> None:
    assert outcome(TARGETS[0], b"") == outcome(TARGETS[0], b"\0" * 3) == ("_ bytes are not one whole frame", False)


def test_mutate_when_data_is_anything_keeps_its_bound() -> None:
    random = Random(2)
    data = b""
    for _ in range(2000):
        data = mutate(random, data, b"other")
        assert len(data) <= INPUT_BYTES_MAX


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_decoder_when_seeds_are_damaged_reads_or_refuses(target: Target) -> None:
    """A short run with fixed choices; `make fuzz` is the long one."""
    assert target.seeds
    campaign, random = Campaign(target), Random(3)
    for _ in range(100):
        campaign.try_input(mutate(random, random.choice(campaign.corpus), random.choice(campaign.corpus)))
    assert campaign.findings == {}
