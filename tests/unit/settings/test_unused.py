"""Settings that are read and listed only."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rocketline.errors import ConfigError
from rocketline.settings import Flag, Settings, load, setting
from rocketline.settings.unused import threads, unused


@unused(Path(__file__).with_name("unused.toml"))
class Unused:
    poolSize: int  # noqa: N815
    poolCores: int = threads("poolCores", lambda cores: 2 * cores, "2 * cores")  # noqa: N815


@dataclass(frozen=True, kw_only=True)
class CastleConfig:
    name: str = setting("keep", key="castleName", help="The name.")
    unused: Unused = field(default_factory=Unused)


def castle(**values: str) -> Settings[CastleConfig]:
    return load(CastleConfig, flags=[Flag("test", key, text) for key, text in values.items()])


def test_unused_settings_are_listed_with_their_defaults() -> None:
    assert castle().properties() == {
        "castleName": "keep",
        "poolSize": "4",
        "poolShare": "0.5",
        "poolCores": str(2 * (os.cpu_count() or 1)),
    }


def test_unused_settings_are_loaded_listed_and_named() -> None:
    settings = castle(poolSize="-9", poolShare="0.25", castleName="tower")

    assert settings.value.unused.poolSize == -9
    assert settings.properties()["poolShare"] == "0.25"
    assert settings.without_effect == ["poolSize in flag test", "poolShare in flag test"]


def test_default_that_is_given_is_not_worth_a_word() -> None:
    assert castle(poolSize="4", poolShare="0.50").without_effect == []


@pytest.mark.parametrize(("key", "text"), [("poolSize", "many"), ("poolSize", str(2**63)), ("poolShare", "half")])
def test_unused_settings_have_a_type_all_the_same(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}={text}: it must be a"):
        castle(**{key: text})


def test_setting_that_must_keep_its_default_says_why() -> None:
    with pytest.raises(ConfigError, match="moatEnable=true: there is no moat"):
        castle(moatEnable="true")


def test_tables_are_values() -> None:
    pools: Any = Unused()

    assert replace(pools, poolSize=5).poolSize == 5
    with pytest.raises(FrozenInstanceError):
        pools.poolSize = 5
