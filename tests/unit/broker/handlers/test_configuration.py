from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from rocketline.broker.config import BrokerConfig
from rocketline.broker.handlers.configuration import ConfigurationHandlers
from rocketline.errors import ConfigError
from rocketline.logs import Throttle
from rocketline.model.topic_config import DataVersion
from rocketline.net.channel import LATER, Outcome
from rocketline.net.saves import Saves as RealSaves
from rocketline.settings import Settings, parse_properties
from rocketline.settings.declared import declared
from rocketline.store.config import StoreConfig
from rocketline.store.inspection.check import check_store
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings, channel
from support.brokers.tables import tables
from support.effort import calls_of


class Saves:
    """Made at once, or when `finish` is called."""

    def __init__(self, settings: Settings[BrokerConfig]) -> None:
        self._settings = settings
        self.is_full = self.is_slow = False
        self._waiting: list[Callable[[OSError | None], None]] = []

    def save(self, done: Callable[[OSError | None], None]) -> None:
        self._waiting.append(done)
        if not self.is_slow:
            self.finish()

    def finish(self) -> None:
        problem = None
        try:
            self._settings.save(self._settings.value.broker_config_path)
        except OSError as error:
            problem = error
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(problem)


class Administrator:
    """Asks the handlers of a broker whose file is in `home`."""

    def __init__(self, home: Path) -> None:
        self.file = home / "broker.conf"
        self.settings: Settings[BrokerConfig] = broker_settings(brokerConfigPath=str(self.file))
        self.clock = FakeClock()
        self.permission_changes = 0
        self.saves = Saves(self.settings)
        self.channel, self.transport = channel(self.clock)
        self._handlers = ConfigurationHandlers(
            self.settings,
            cast("RealSaves", self.saves),
            self.clock,
            self._permission_changed,
            Throttle(self.clock),
        ).by_code()

    def _permission_changed(self, told: Callable[[], None]) -> None:
        self.permission_changes += 1
        told()

    def handle(self, request: Command) -> Outcome:
        return self._handlers[request.code](self.channel, request)

    def ask(self, code: int, body: bytes = b"") -> Command:
        answer = self.handle(Command(code, body=body))
        assert isinstance(answer, Command)
        return answer

    def update(self, text: str) -> Command:
        return self.ask(RequestCode.UPDATE_BROKER_CONFIG, text.encode())

    def get(self) -> dict[str, str]:
        answer = self.ask(RequestCode.GET_BROKER_CONFIG)
        return {pair.key: pair.value for pair in parse_properties(answer.body)}

    def version(self) -> DataVersion:
        return decode(DataVersion, self.ask(RequestCode.GET_BROKER_CONFIG).ext["version"].encode())


@pytest.fixture
def admin(tmp_path: Path) -> Administrator:
    return Administrator(tmp_path)


def test_update_is_in_force_told_and_saved(admin: Administrator) -> None:
    """S212: a later send sees it, and so does who asks for the settings."""
    assert admin.update("maxMessageSize=1000\n").code == 0
    assert admin.settings.value.store.max_message_size == 1000
    assert admin.get()["maxMessageSize"] == "1000"
    assert "maxMessageSize=1000\n" in admin.file.read_text()


async def test_nobody_waits_for_the_disk_while_settings_are_saved(admin: Administrator) -> None:
    """Two syncs for each update, in a closed loop, kept everybody else waiting."""
    admin.saves.is_slow = True
    request = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"maxMessageSize=1000\n")
    assert admin.handle(request) is LATER
    assert not admin.file.exists()
    assert admin.settings.value.store.max_message_size == 1000
    admin.saves.finish()
    await asyncio.sleep(0)
    assert [answer.code for answer in admin.transport.commands()] == [0]
    assert "maxMessageSize=1000\n" in admin.file.read_text()


def test_what_waits_to_be_saved_is_bounded(admin: Administrator) -> None:
    admin.saves.is_full = True
    assert admin.update("maxMessageSize=1000\n").code == 2
    assert admin.settings.value.store.max_message_size != 1000


@pytest.mark.parametrize("key", ["brokerConfigPath", "rocketmqHome", "configBlackList"])
def test_protected_key_is_refused_and_nothing_applied(admin: Administrator, key: str) -> None:
    """S213."""
    before = admin.get(), admin.version()
    answer = admin.update(f"maxMessageSize=1000\n{key}=x\n")
    assert (answer.code, key in (answer.remark or "")) == (16, True)
    assert (admin.get(), admin.version()) == before
    assert not admin.file.exists()


def test_permission_is_told_to_those_who_register(admin: Administrator) -> None:
    """S214: the other half, that name servers see it, is tested with a name server."""
    admin.update("maxMessageSize=1000\n")
    assert admin.permission_changes == 0
    admin.update("brokerPermission=4\n")
    assert (admin.permission_changes, admin.settings.value.broker_permission) == (1, 4)


def test_value_that_does_not_parse_and_unknown_key_change_nothing(admin: Administrator) -> None:
    """As at Apache 5.5.0, both are answered with success."""
    answer = admin.update("waitTimeMillsInSendQueue=soon\nnoSuchKey=1\nbrokerPermission=all\n")
    assert answer.code == 0
    assert admin.settings.value.wait_time_mills_in_send_queue == 200
    assert "noSuchKey" not in admin.get()
    assert admin.permission_changes == 0


def test_update_without_a_body_is_a_success_without_a_change(admin: Administrator) -> None:
    before = admin.version()
    assert admin.update("").code == 0
    assert admin.version() == before
    assert not admin.file.exists()


def test_broken_text_is_refused(admin: Administrator) -> None:
    with pytest.raises(ConfigError, match="hexadecimal"):
        admin.update("maxMessageSize=\\u12\n")
    assert admin.version().counter == 0


def test_each_update_makes_a_new_version(admin: Administrator) -> None:
    first = admin.version()
    admin.clock.advance(5)
    admin.update("maxMessageSize=1000\n")
    assert first == DataVersion(0, 0, FakeClock().wall_ms())
    assert admin.version() == DataVersion(1, 0, FakeClock().wall_ms() + 5000)


def test_update_that_cannot_be_saved_counts_until_the_next_start(admin: Administrator) -> None:
    admin.file.mkdir()
    answer = admin.update("maxMessageSize=1000\n")
    assert answer.code == 1
    assert str(admin.file) in (answer.remark or "")
    assert admin.settings.value.store.max_message_size == 1000


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("aclEnable=true", "not part of"),
        ("tls.server.mode=disabled", "security"),
        ("authenticationWhitelist=*", "security"),
        ("brokerRole=SLAVE", "master"),
        ("brokerId=1", "master"),
        ("controllerAddr=127.0.0.1:1", "replication"),
        ("storeType=defaultRocksDB", ""),
        ("listenPort=70000", "a port"),
        ("listenPort=10912", "a port"),
        ("storePathRootDir=/elsewhere", "a path"),
        ("storePathCommitLog=/elsewhere", "a path"),
        ("mappedFileSizeCommitLog=4096", "the size of files"),
        ("brokerIP1=nowhere.invalid", "an address"),
    ],
)
def test_what_an_update_must_not_change_is_refused_with_the_reason(
    admin: Administrator, pair: str, reason: str
) -> None:
    before = admin.get(), admin.version()
    answer = admin.update(f"maxMessageSize=1000\n{pair}\n")
    remark = answer.remark or ""
    assert (answer.code, pair.partition("=")[0] in remark, reason in remark) == (16, True, True), remark
    assert (admin.get(), admin.version()) == before
    assert not admin.file.exists()


def test_update_that_leaves_such_a_setting_as_it_is_succeeds(admin: Administrator) -> None:
    """Tools send back what they were given."""
    told = admin.get()
    same = "".join(f"{key}={told[key]}\n" for key in ("listenPort", "brokerRole", "aclEnable", "storePathRootDir"))
    assert admin.update(f"{same}sendMessageThreadPoolNums=9\n").code == 0


def test_settings_of_pools_are_taken_as_before(admin: Administrator) -> None:
    assert admin.update("pullMessageThreadPoolNums=3\nadminBrokerThreadPoolNums=2\n").code == 0
    assert admin.get()["pullMessageThreadPoolNums"] == "3"


def test_path_that_is_at_fault_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    admin = Administrator(tmp_path / "file" / "folder")
    answer = admin.update("maxMessageSize=1000\n")
    assert (answer.code, str(tmp_path / "file") in (answer.remark or "")) == (1, True)


class Watched(StoreConfig):
    """Remembers which of its settings were asked for."""

    asked: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        Watched.asked.add(name)
        return super().__getattribute__(name)


def test_no_update_changes_a_number_that_the_files_of_a_store_are_compared_with(tmp_path: Path) -> None:
    with tables(FakeClock()) as kept:
        kept.append(KEYS="k")
    config = kept.settings.value.store
    Watched.asked.clear()
    watched = Watched(**{field.name: getattr(config, field.name) for field in fields(StoreConfig)})
    Watched.asked.clear()
    check_store(kept.files, kept.clock, watched)
    compared = {
        setting.key
        for setting in declared(StoreConfig).values()
        if setting.path[-1] in Watched.asked and setting.type is int
    }
    assert compared >= {"mappedFileSizeCommitLog", "mapperFileSizeBatchConsumeQueue", "maxIndexNum", "maxHashSlotNum"}
    admin = Administrator(tmp_path)
    for key in compared:
        assert admin.ask(RequestCode.UPDATE_BROKER_CONFIG, f"{key}=4096".encode()).code == 16, key


def test_update_of_all_settings_makes_each_section_once(tmp_path: Path) -> None:
    admin = Administrator(tmp_path)
    pairs = admin.settings.properties()
    before, of_one = admin.settings.value, calls_of(lambda: admin.settings.update({"brokerPermission": "6"}))
    assert calls_of(lambda: admin.settings.update(pairs)) < of_one + 60 * len(pairs)
    assert admin.settings.value == before


def test_pull_cannot_be_made_to_look_at_a_whole_queue(tmp_path: Path) -> None:
    admin = Administrator(tmp_path)
    for size in ("327680", "2147483647"):
        admin.ask(RequestCode.UPDATE_BROKER_CONFIG, f"maxFilterMessageSize={size}".encode())
        assert admin.settings.value.store.max_filter_message_size == 327_680
