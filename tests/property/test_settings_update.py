"""Whatever an update holds, the settings stay whole: every value listed means what is in force."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import ConfigError
from rocketline.nameserver.config import NameServerConfig, load_settings
from rocketline.settings import Flag, format_properties, load, parse_properties

KEYS = st.sampled_from(sorted(load_settings().properties())) | st.text(max_size=20)
VALUES = st.sampled_from(["true", "false", "0", "1", "-1", "65535", "99999999999"]) | st.text(max_size=20)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=5), max_size=4))
def test_update_of_any_pairs_leaves_settings_that_load_again(updates: list[dict[str, str]]) -> None:
    settings = load_settings()
    for pairs in updates:
        with contextlib.suppress(ConfigError):
            settings.update(pairs)
    text = format_properties(settings.properties())
    again = load(
        NameServerConfig, flags=[Flag("again", key, value) for key, value, _ in parse_properties(text.encode())]
    )

    assert again.value == settings.value
    assert settings.value.black_list == NameServerConfig().black_list
