"""The group table: which questions make a group, what a group may not read, and what is on disk by then."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.model.group_config import GroupRetryPolicy, GroupRetryPolicyType, SubscriptionGroupConfig
from rocketline.store.files.json_files import pretty
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SPACE_CALLS
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.groups import SubscriptionGroupTable
from support.brokers.saved_tables import CONFIG, SavedTables

PREDEFINED = {
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
}  # fmt: skip


def test_predefined_groups_are_there_from_the_start_and_not_written() -> None:
    tables = SavedTables()
    assert tables.groups.all().keys() == PREDEFINED
    assert tables.files.list(CONFIG) == []


def test_looking_for_a_group_makes_it_and_getting_does_not() -> None:
    """S75."""
    tables = SavedTables()
    assert tables.groups.get("g") is None
    assert tables.groups.find("g") == SubscriptionGroupConfig("g", retry_max_times=16, retry_queue_nums=1)
    assert tables.restarted().groups.get("g") == SubscriptionGroupConfig("g")


@pytest.mark.parametrize("group", ["", " ", "a b", "a/b", "x" * 121, "ü", "\ud800"])
def test_looking_for_a_name_that_is_not_allowed_makes_nothing(group: str) -> None:
    tables = SavedTables()
    assert tables.groups.find(group) is None
    assert tables.groups.all().keys() == PREDEFINED


def test_nothing_is_made_while_auto_creation_is_off_except_groups_of_the_system() -> None:
    """S76."""
    groups = SavedTables(autoCreateSubscriptionGroup="false").groups
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_x") is not None


def test_groups_of_the_system_can_be_switched_off_too() -> None:
    groups = SavedTables(autoCreateSubscriptionGroup="false", enableCreateSysGroup="false").groups
    assert groups.find("CID_RMQ_SYS_x") is None


def test_many_groups_are_made_with_one_save() -> None:
    tables = SavedTables()
    counter = tables.groups.data_version.counter
    found = tables.groups.find_all([f"g{number}" for number in range(50)] + ["TOOLS_CONSUMER", "no good"])
    assert len(found) == 51
    assert tables.groups.data_version.counter == counter + 1


def test_update_replaces_a_group_and_makes_a_new_version_each_time(clock: FakeClock) -> None:
    tables = SavedTables(clock)
    config = SubscriptionGroupConfig(
        "g",
        consume_enable=False,
        retry_max_times=3,
        group_retry_policy=GroupRetryPolicy(GroupRetryPolicyType.EXPONENTIAL),
    )
    tables.groups.update(config)
    first = tables.groups.data_version
    tables.groups.update(config)
    assert tables.groups.data_version.counter == first.counter + 1
    again = tables.restarted().groups
    assert (again.get("g"), again.data_version) == (config, tables.groups.data_version)


def test_attributes_of_groups_are_refused_and_nothing_is_changed() -> None:
    groups = SavedTables().groups
    with pytest.raises(RemoteProtocolError, match=r"priority\.factor"):
        groups.update(SubscriptionGroupConfig("a"), SubscriptionGroupConfig("g", attributes={"+priority.factor": "5"}))
    assert groups.all().keys() == PREDEFINED


def test_attributes_that_apache_saved_are_kept() -> None:
    tables = SavedTables()
    tables.files.make_folder(CONFIG)
    tables.files.write_file(
        CONFIG / "subscriptionGroup.json",
        b'{"dataVersion":{"counter":3},"forbiddenTable":{"g":{"T":4}},"subscriptionGroupTable":'
        b'{"g":{"groupName":"g","attributes":{"priority.factor":"5"},"retryMaxTimes":2}}}',
    )
    groups = tables.restarted().groups
    groups.update(SubscriptionGroupConfig("g", retry_max_times=9))
    assert groups.get("g") == SubscriptionGroupConfig("g", retry_max_times=9, attributes={"priority.factor": "5"})
    assert groups.is_forbidden("g", "T")


def test_forbidden_topic_is_remembered_and_can_be_allowed_again_alone() -> None:
    tables = SavedTables()
    for topic in ("T", "U"):
        tables.groups.set_forbidden("g", topic, is_forbidden=True)
    assert tables.restarted().groups.forbidden == {"g": {"T": 4, "U": 4}}
    tables.groups.set_forbidden("g", "T", is_forbidden=False)
    again = tables.restarted().groups
    assert (again.is_forbidden("g", "T"), again.is_forbidden("g", "U")) == (False, True)
    tables.groups.set_forbidden("g", "U", is_forbidden=False)
    assert tables.restarted().groups.forbidden == {}


def test_to_allow_what_is_allowed_changes_nothing() -> None:
    groups = SavedTables().groups
    version = groups.data_version
    groups.set_forbidden("g", "T", is_forbidden=False)
    assert (groups.forbidden, groups.data_version) == ({}, version)


def test_deleted_group_is_gone_with_what_it_may_not_read() -> None:
    tables = SavedTables()
    tables.groups.find("g")
    tables.groups.set_forbidden("g", "T", is_forbidden=True)
    tables.groups.delete("g")
    again = tables.restarted().groups
    assert (again.get("g"), again.is_forbidden("g", "T")) == (None, False)
    version = tables.groups.data_version
    tables.groups.delete("g")
    assert tables.groups.data_version == version


def test_file_says_the_whole_table_once_it_is_saved() -> None:
    tables = SavedTables()
    tables.groups.find_all(["g", "h"])
    tables.groups.set_forbidden("g", "T", is_forbidden=True)
    tables.groups.update(SubscriptionGroupConfig("h", retry_max_times=3))
    tables.groups.table.save()
    whole = SubscriptionGroupTable(tables.groups.data_version, {"g": {"T": 4}}, dict(tables.groups.all()))
    assert (tables.files.read_file(CONFIG / "subscriptionGroup.json") or b"").decode() == pretty(to_value(whole))


def test_change_that_cannot_be_saved_has_not_happened() -> None:
    tables = SavedTables()
    tables.groups.find("g")
    tables.groups.set_forbidden("g", "T", is_forbidden=True)
    groups = tables.groups
    before = (dict(groups.all()), groups.forbidden, groups.data_version, groups.version)
    tables.files.fail(at=1, lasting=True)
    changes: list[Callable[[], object]] = [
        lambda: groups.delete("g"),
        lambda: groups.set_forbidden("g", "U", is_forbidden=True),
        lambda: groups.update(SubscriptionGroupConfig("g", consume_enable=False)),
    ]
    for change in changes:
        with pytest.raises(OSError, match="Input/output"):
            change()
    assert before == (dict(groups.all()), groups.forbidden, groups.data_version, groups.version)


def test_group_that_somebody_uses_is_there_though_the_disk_is_full_and_saved_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = SavedTables()
    tables.groups.find("old")
    tables.files.fail(at=1, calls=SPACE_CALLS, error=errno.ENOSPC, lasting=True)
    for group in ("new", "newer"):
        assert tables.groups.find(group) == SubscriptionGroupConfig(group)
    assert caplog.text.count("new groups not saved yet: ") == 1
    job = tables.groups.table.begin_save()
    assert job is not None
    with pytest.raises(OSError, match="No space left"):
        job.run()
    tables.groups.table.save_failed()
    assert not [name for name in tables.files.list(CONFIG) if name.endswith(".tmp")]

    tables.files.heal()
    tables.groups.update(SubscriptionGroupConfig("made", retry_max_times=3))
    assert tables.restarted().groups.all().keys() == PREDEFINED | {"old", "made"}
    job = tables.groups.table.begin_save()
    assert job is not None
    tables.groups.find("newest")
    job.run()
    tables.groups.table.save_done()
    assert tables.restarted().groups.all() == tables.groups.all()
    assert tables.groups.all().keys() == PREDEFINED | {"old", "made", "new", "newer", "newest"}
