"""Property tests look for new examples in `make fuzz`, and try the same ones in `make test`."""

from __future__ import annotations

from hypothesis import settings

from fuzz.properties import PROFILE, command


def test_rounds_have_a_profile_with_other_and_more_examples_than_tests() -> None:
    explore, tests = settings.get_profile(PROFILE), settings.get_profile("rocketline")

    assert (explore.derandomize, tests.derandomize) == (False, True)
    assert explore.max_examples > tests.max_examples


def test_command_of_a_round_names_profile_and_seed() -> None:
    words = command(7, "store")

    assert {f"--hypothesis-profile={PROFILE}", "--hypothesis-seed=7", "tests/property"} <= {*words}
    assert words[words.index("-k") + 1] == "store"
