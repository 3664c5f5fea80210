"""Loading in layers, telling origins, changing while running, saving."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.settings import MASK, Flag, Settings, Update, load, setting


class Mode(Enum):
    OPEN = "open"
    SHUT = "shut"


class Encoding(IntEnum):
    JSON = 0
    BINARY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    low_bytes: int = setting(0, key="lowMark", help="Low.")
    high_bytes: int = setting(10, key="highMark", high=99, help="High.")
    password: str = setting("", key="keyPassword", secret=True, own=True, help="Secret.")
    more_file: str = setting("", key="more.file", include=True, own=True, help="More.")
    encoding: Encoding = setting(Encoding.JSON, key="rocketmq.serialize.type", environment=("ENCODING",), help="How.")

    def problems(self) -> list[str]:
        return [f"lowMark={self.low_bytes} is above highMark"] if self.low_bytes > self.high_bytes else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    is_fast: bool = setting(True, key="fastEnable", live=True, help="Fast.")
    limit: int = setting(5, key="topicLimit", low=1, help="Limit.")
    mode: Mode = setting(Mode.OPEN, key="door.mode", own=True, help="Door.")
    store: Path = setting(factory=lambda: Path("/made"), key="storePath", protected=True, help="Path.")
    name: str = setting("center", key="envName", live=True, help="Name.")
    has_controller: bool = setting(False, key="controllerEnable", only_default="there is none", help="None.")
    section: Section = field(default_factory=Section)


def conf(folder: Path, text: str, name: str = "my.conf") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def loaded(file: Path | None = None, *flags: Flag, **environ: str) -> Settings[Config]:
    return load(Config, file=file, environ=environ, flags=flags, environment_prefix="APP_")


def problems_of(file: Path | None = None, *flags: Flag, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        loaded(file, *flags, **environ)
    return caught.value.problems


# --- layers and origins


def test_load_without_sources_gives_the_defaults() -> None:
    settings = loaded()

    assert settings.value == Config()
    assert str(settings.origin("topicLimit")) == "default"


def test_load_lays_file_environment_and_flags_over_each_other(tmp_path: Path) -> None:
    file = conf(tmp_path, "# mine\ntopicLimit=6\nhighMark=7\nlowMark=1\n")
    settings = loaded(file, Flag("--low", "lowMark", "3"), APP_HIGH_MARK="8", APP_LOW_MARK="2")

    assert (settings.value.limit, settings.value.section.high_bytes, settings.value.section.low_bytes) == (6, 8, 3)
    assert str(settings.origin("topicLimit")) == f"file {file}:2"
    assert str(settings.origin("highMark")) == "environment APP_HIGH_MARK"
    assert str(settings.origin("lowMark")) == "flag --low"


def test_load_reads_every_type(tmp_path: Path) -> None:
    lines = ["fastEnable = FALSE ", "topicLimit=7 ", "door.mode=Shut", "rocketmq.serialize.type=BINARY"]
    value = loaded(conf(tmp_path, "\n".join([*lines, "storePath=/x/y", "envName= a b "]))).value

    assert value == Config(
        is_fast=False,
        limit=7,
        mode=Mode.SHUT,
        store=Path("/x/y"),
        name="a b",
        section=Section(encoding=Encoding.BINARY),
    )


def test_environment_variable_of_our_own_wins_over_the_one_of_apache() -> None:
    assert loaded(ENCODING="BINARY").value.section.encoding is Encoding.BINARY
    assert loaded(ENCODING="BINARY", APP_ROCKETMQ_SERIALIZE_TYPE="JSON").value.section.encoding is Encoding.JSON


@pytest.mark.parametrize(
    "text",
    [
        'topicLimit = 6\nhighMark = 7\n"door.mode" = "shut"\nfastEnable = false',
        'topicLimit = 6\nhighMark = 7\ndoor.mode = "shut"\nfastEnable = false',
        'limit = 6\nmode = "shut"\nis_fast = false\n[section]\nhigh_bytes = 7',
    ],
)
def test_toml_names_settings_as_apache_or_by_their_place(tmp_path: Path, text: str) -> None:
    settings = loaded(conf(tmp_path, text, "my.toml"))

    assert settings.value == Config(limit=6, mode=Mode.SHUT, is_fast=False, section=Section(high_bytes=7))
    assert str(settings.origin("highMark")) == f"file {tmp_path / 'my.toml'}"


def test_included_file_lies_over_the_main_file_and_below_the_environment(tmp_path: Path) -> None:
    more = conf(tmp_path, "topicLimit=2\nenvName=more\nlowMark=2\n", "more.properties")
    file = conf(tmp_path, f"topicLimit=1\nmore.file={more}\nenvName=main\nhighMark=9\n")
    settings = loaded(file, APP_ENV_NAME="env")

    assert (settings.value.limit, settings.value.name, settings.value.section.low_bytes) == (2, "env", 2)
    assert str(settings.origin("topicLimit")) == f"file {more}:1"


# --- problems


def test_load_reports_all_problems_at_once_each_with_its_place(tmp_path: Path) -> None:
    file = conf(tmp_path, "topicLimit=many\nfastEnable=yes\nstorePath=\n")

    assert problems_of(file, Flag("--high", "highMark", "100"), APP_DOOR_MODE="ajar") == (
        f"file {file}:1: topicLimit=many: it must be a whole number from 1 to 2147483647",
        f"file {file}:2: fastEnable=yes: it must be true or false",
        f"file {file}:3: storePath=: it must be a path",
        "environment APP_DOOR_MODE: door.mode=ajar: it must be one of open, shut",
        "flag --high: highMark=100: it must be a whole number from 0 to 99",
    )


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1_0", "٣", "0x1", "", "9" * 5000])
def test_number_of_another_form_or_out_of_bounds_is_refused(text: str) -> None:
    (problem,) = problems_of(None, Flag("--limit", "topicLimit", text))
    assert problem.endswith("it must be a whole number from 1 to 2147483647")


def test_value_that_is_not_supported_is_refused_with_its_reason() -> None:
    assert problems_of(APP_CONTROLLER_ENABLE="true") == (
        "environment APP_CONTROLLER_ENABLE: controllerEnable=true: there is none",
    )


def test_values_that_do_not_fit_together_are_refused() -> None:
    assert problems_of(APP_LOW_MARK="11") == ("lowMark=11 is above highMark",)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("absent.conf", None, "no such file or directory"),
        ("bad.conf", b"a=\\u12", "line 1: \\u must be followed by"),
        ("bad.toml", b"a = ", "this is not TOML"),
        ("bad.toml", b"\xff", "this is not TOML"),
        ("bad.toml", b"a = " + b"[" * 100_000, "this is not TOML"),
        ("bad.toml", b"topicLimit = [1]", "topicLimit: it must be a text, a number, true or false"),
    ],
)
def test_file_that_cannot_be_read_is_a_problem(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    (problem,) = problems_of(path)
    assert problem.startswith(f"{path}: ")
    assert expected in problem


def test_included_file_that_was_named_must_exist(tmp_path: Path) -> None:
    (problem,) = problems_of(conf(tmp_path, f"more.file={tmp_path / 'absent'}"))
    assert "absent: no such file" in problem


def test_secret_is_masked_wherever_it_is_shown(tmp_path: Path) -> None:
    settings = loaded(conf(tmp_path, "keyPassword=hunter2"))

    assert settings.value.section.password == "hunter2"
    assert settings.properties()["keyPassword"] == MASK
    assert "hunter2" not in f"{settings.table()}{settings.value!r}"


# --- unknown names


def test_unknown_names_are_kept_and_the_nearest_key_is_suggested(tmp_path: Path) -> None:
    file = conf(tmp_path, "topiclimit=1\nbrokerName=x\n")
    settings = loaded(file, APP_SERVICE_HOST="10.0.0.1")

    assert settings.value == Config()
    assert [str(item) for item in settings.unknown] == [
        f"topiclimit in file {file}:1 (did you mean topicLimit?)",
        f"brokerName in file {file}:2",
        "APP_SERVICE_HOST in environment APP_SERVICE_HOST",
    ]


# --- showing


def test_properties_list_what_apache_lists_and_what_was_set(tmp_path: Path) -> None:
    assert loaded().properties() == {
        "fastEnable": "true",
        "topicLimit": "5",
        "storePath": "/made",
        "envName": "center",
        "controllerEnable": "false",
        "lowMark": "0",
        "highMark": "10",
        "rocketmq.serialize.type": "JSON",
    }
    more = loaded(conf(tmp_path, "stray=1\ndoor.mode=shut"))
    assert more.properties() == loaded().properties() | {"stray": "1", "door.mode": "shut"}


def test_table_has_every_setting_in_order() -> None:
    rows = loaded(APP_TOPIC_LIMIT="6").table()

    assert [row.key for row in rows] == sorted(row.key for row in rows)
    assert {row.key for row in rows} > {"door.mode", "topicLimit", "keyPassword"}
    (row,) = (row for row in rows if row.key == "topicLimit")
    assert (row.value, str(row.origin), row.help) == ("6", "environment APP_TOPIC_LIMIT", "Limit.")


# --- changing


def test_update_swaps_the_value_and_tells_what_needs_a_restart() -> None:
    settings = loaded()
    before = settings.value
    update = settings.update({"fastEnable": "false", "highMark": "20", "envName": " x "})

    assert update == Update(live=("fastEnable", "envName"), after_restart=("highMark",), ignored=())
    assert before == Config()
    assert settings.value == Config(is_fast=False, name="x", section=Section(high_bytes=20))
    assert settings.version == 1
    assert str(settings.origin("highMark")) == "update"


@pytest.mark.parametrize(
    "key_and_value",
    [
        ("topicLimit", "many"),
        ("topicLimit", "0"),
        ("strange", "1"),
        ("door.mode", "shut"),
        ("storePath", "/x"),
        ("controllerEnable", "true"),
    ],
)
def test_update_skips_what_cannot_be_applied_and_applies_the_rest(key_and_value: tuple[str, str]) -> None:
    settings = loaded()
    update = settings.update(dict([key_and_value]) | {"envName": "x"})

    assert update.ignored == (key_and_value[0],)
    assert settings.value == Config(name="x")
    assert "strange" not in settings.properties()


def test_update_reads_a_boolean_as_java_does() -> None:
    settings = loaded()
    settings.update({"fastEnable": "yes"})
    assert not settings.value.is_fast
    settings.update({"fastEnable": "TRUE"})
    assert settings.value.is_fast


def test_update_changes_the_text_of_an_unknown_key_that_the_file_holds(tmp_path: Path) -> None:
    settings = loaded(conf(tmp_path, "stray=1"))
    settings.update({"stray": "2", "other": "3"})

    assert settings.properties()["stray"] == "2"
    assert "other" not in settings.properties()


def test_update_that_does_not_fit_together_changes_nothing() -> None:
    settings = loaded()
    with pytest.raises(ConfigError, match="lowMark=11 is above highMark"):
        settings.update({"lowMark": "11", "envName": "x"})

    assert (settings.value, settings.version) == (Config(), 0)


# --- saving


@pytest.mark.parametrize("name", ["my.conf", "my.toml"])
def test_save_writes_the_whole_set_so_that_it_loads_again(tmp_path: Path, name: str) -> None:
    file = conf(tmp_path, 'stray="1"\nkeyPassword="hünter\\\\2"\ntopicLimit=6\n', name)
    settings = loaded(file)
    settings.update({"envName": 'a "b" \\ \x7f ä🚀', "highMark": "20"})
    settings.save(file)
    again = loaded(file)

    assert again.value == settings.value
    assert again.properties() == settings.properties()
    assert again.origin("fastEnable").detail.startswith(str(file))


def test_save_keeps_what_was_there_as_a_backup_and_its_permissions(tmp_path: Path) -> None:
    file = conf(tmp_path, "# mine\ntopicLimit=6\n")
    file.chmod(0o640)
    loaded(file).save(file)

    assert (tmp_path / "my.conf.bak").read_text() == "# mine\ntopicLimit=6\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.conf", "my.conf.bak"]


def test_save_makes_the_folder_of_a_new_file(tmp_path: Path) -> None:
    loaded().save(tmp_path / "a" / "b.conf")

    assert loaded(tmp_path / "a" / "b.conf").value == Config()


def test_save_spells_a_value_of_the_file_so_that_it_loads_again(tmp_path: Path) -> None:
    file = conf(tmp_path, 'fastEnable = "FALSE "\ntopicLimit = "+6"\n', "my.toml")
    loaded(file, APP_FAST_ENABLE="true", APP_TOPIC_LIMIT="7").save(file)

    assert loaded(file).value == Config(is_fast=False, limit=6)


def test_save_does_not_write_down_flags_environment_or_included_values(tmp_path: Path) -> None:
    more = conf(tmp_path, "lowMark=4\n", "more.properties")
    file = conf(tmp_path, f"topicLimit=6\nmore.file={more}\n")
    settings = loaded(file, Flag("--limit", "topicLimit", "9"), APP_KEY_PASSWORD="hunter2", APP_HIGH_MARK="8")
    settings.update({"envName": "x"})
    settings.save(file)
    again = loaded(file)

    assert (again.value.limit, again.value.name, again.value.section.low_bytes) == (6, "x", 4)
    assert "hunter2" not in file.read_text()
    assert "highMark" not in file.read_text()
    assert "lowMark" not in file.read_text()
