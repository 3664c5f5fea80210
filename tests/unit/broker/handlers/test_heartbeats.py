"""Heartbeats, farewells, and the check of a subscription."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

import pytest

from rocketline.broker import filters
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.memberships import Client
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.handlers import heartbeats
from rocketline.broker.handlers.heartbeats import CONSUMER_GROUPS_MAX, HeartbeatHandlers
from rocketline.broker.metadata import groups as groups_module
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.request_body import BODY_BYTES_MAX
from rocketline.broker.stats.counters import BrokerStats
from rocketline.errors import RemoteProtocolError
from rocketline.filter import SqlFilter, compile_sql
from rocketline.logs import Throttle
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.heartbeat import ConsumerData, HeartbeatData
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody, heartbeat_fingerprint
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import (
    BROADCASTING,
    PULL,
    broker_settings,
    channel,
    client_on,
    consumer,
    heartbeat,
    producers_by_group,
)
from support.long_steps import AtOnce
from support.net.doubles import MemoryTransport, turn


class Scene:
    """The handlers on real tables, in memory."""

    def __init__(self, clock: FakeClock, **settings: str) -> None:
        own, files = broker_settings(**settings), MemoryFileSystem(clock, capacity=2**22)
        self.clock, self.files = clock, files
        self.consumers, self.producers = ConsumerRegistry(), ProducerRegistry()
        self.topics = TopicTable.load(files, Path("topics.json"), own, clock)
        self.groups = GroupTable.load(files, Path("subscriptionGroup.json"), own, clock, Throttle(clock))
        self.filters = ConsumerFilters.load(files, Path("consumerFilter.json"), own, clock)
        self.notifications = Notifications(self.consumers, own, Throttle(clock))
        self.stats = BrokerStats(own, clock)
        self.work = AtOnce(clock)
        handlers = HeartbeatHandlers(
            self.consumers,
            self.producers,
            self.notifications,
            self.topics,
            self.groups,
            self.filters,
            self.stats,
            own,
            clock,
            self.work,
            Throttle(clock),
        )
        self._by_code = handlers.by_code()

    def ask(self, member: Channel, request: Command) -> Command:
        answer = self._by_code[request.code](member, request)
        assert isinstance(answer, Command)
        return answer

    def channel(self) -> tuple[Channel, MemoryTransport]:
        return channel(self.clock)

    def is_sub_wanted(self, member: Channel, request: Command) -> str:
        answer = self.ask(member, request)
        assert answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
        return answer.ext["IS_SUB_CHANGE"]


QUIET = {"notifyConsumerIdsChangedEnable": "false"}


@pytest.fixture
def scene(clock: FakeClock) -> Scene:
    """For tests that look at no notices."""
    return Scene(clock, **QUIET)


@pytest.fixture
def telling(clock: FakeClock) -> Scene:
    """To be used while its `notifications` are entered."""
    return Scene(clock)


async def settle() -> None:
    for _ in range(5):
        await turn()


def told(line: MemoryTransport) -> list[str]:
    return [command.ext["consumerGroup"] for command in line.commands()]


# --- HEART_BEAT


async def test_new_group_is_made_with_its_retry_topic(scene: Scene) -> None:
    """S75, S77."""
    member, _ = scene.channel()
    answer = scene.ask(member, heartbeat("c", consumer("g", "T")))
    assert (answer.code, answer.ext) == (0, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
    group, topic = scene.groups.get("g"), scene.topics.get("%RETRY%g")
    assert group is not None
    assert topic is not None
    assert (group.retry_max_times, group.retry_queue_nums) == (16, 1)
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.order) == (1, 1, 6, False)


async def test_member_of_a_new_group_is_one_though_the_disk_is_full(scene: Scene) -> None:
    member, _ = scene.channel()
    filler = Path("/filler")
    scene.files.make_folder(filler.parent)
    scene.files.write_file(filler, bytes(scene.files.usage(filler).usable))
    assert scene.ask(member, heartbeat("c", consumer("g", "T"))).code == 0
    assert scene.consumers.client_ids("g") == ["c"]
    assert scene.topics.get("%RETRY%g") is None

    scene.files.remove(filler)
    assert scene.ask(member, heartbeat("c", consumer("g", "T"))).code == 0
    assert scene.topics.get("%RETRY%g") is not None


async def test_group_that_may_not_be_made_is_skipped_without_a_word(clock: FakeClock) -> None:
    """S76."""
    scene = Scene(clock, **QUIET, autoCreateSubscriptionGroup="false")
    scene.groups.update(SubscriptionGroupConfig("known"))
    member, _ = scene.channel()
    answer = scene.ask(member, heartbeat("c", consumer("g", "T"), consumer("known", "T")))
    assert answer.code == 0
    assert (scene.consumers.info("g"), scene.consumers.client_ids("known")) == (None, ["c"])
    assert scene.topics.get("%RETRY%g") is None


async def test_group_that_nothing_can_be_called_is_skipped_without_a_word(scene: Scene) -> None:
    member, _ = scene.channel()
    assert scene.ask(member, heartbeat("c", consumer("no group!", "T"), consumer("x" * 500, "T"))).code == 0
    assert not scene.consumers.groups_subscribed_to("T")


async def test_pull_consumers_are_skipped_if_the_broker_rejects_them(clock: FakeClock) -> None:
    scene = Scene(clock, **QUIET, rejectPullConsumerEnable="true")
    member, _ = scene.channel()
    scene.ask(member, heartbeat("c", consumer("pull", "T", consume_type=PULL), consumer("push", "T")))
    assert scene.consumers.groups_subscribed_to("T") == ["push"]
    assert scene.groups.get("pull") is None


async def test_retry_topic_is_ordered_if_a_subscribed_topic_is(scene: Scene) -> None:
    member, _ = scene.channel()
    scene.topics.update(TopicConfig("Ordered", order=True))
    scene.ask(member, heartbeat("c", consumer("g", "T")))
    assert _order(scene) is False
    scene.ask(member, heartbeat("c", consumer("g", "T", "Ordered"), fingerprint=5))
    assert _order(scene) is True
    scene.ask(member, heartbeat("c", consumer("g"), fingerprint=5, without_sub=True))
    assert _order(scene) is True


def _order(scene: Scene) -> bool:
    topic = scene.topics.get("%RETRY%g")
    assert topic is not None
    return topic.order


async def test_unit_mode_shows_in_the_retry_topic(scene: Scene) -> None:
    member, _ = scene.channel()
    scene.ask(member, heartbeat("c", ConsumerData("g", unit_mode=True)))
    topic = scene.topics.get("%RETRY%g")
    assert topic is not None
    assert topic.topic_sys_flag == 2


async def test_members_are_told_of_a_new_one_and_not_of_a_repeated_heartbeat(telling: Scene) -> None:
    """S78, S79."""
    (a, a_line), (b, b_line) = telling.channel(), telling.channel()
    async with telling.notifications:
        telling.ask(a, heartbeat("a", consumer("g", "T")))
        telling.ask(b, heartbeat("b", consumer("g", "T")))
        await settle()
        before = told(a_line), told(b_line)
        telling.ask(a, heartbeat("a", consumer("g", "T")))
        await settle()
    assert before == (["g"], ["g"])
    assert (told(a_line), told(b_line)) == before


@pytest.mark.parametrize("case", ["broadcasting", "group says no", "group says yes"])
async def test_members_are_told_unless_they_broadcast_or_the_group_wants_none(telling: Scene, case: str) -> None:
    """S83, S84."""
    telling.groups.update(SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=case != "group says no"))
    member, line = telling.channel()
    data = consumer("g", "T", model=BROADCASTING) if case == "broadcasting" else consumer("g", "T")
    async with telling.notifications:
        telling.ask(member, heartbeat("c", data))
        await settle()
        telling.ask(member, _farewell("other client, same group", consumerGroup="g"))
        await settle()
    assert told(line) == (["g"] if case == "group says yes" else [])


async def test_fingerprint_is_compared_with_the_last_of_the_group(scene: Scene) -> None:
    member, _ = scene.channel()
    data = consumer("g", "T")
    fingerprints = [5, 5, 6, 6, 0, 7]
    answers = [scene.is_sub_wanted(member, heartbeat("c", data, fingerprint=number)) for number in fingerprints]
    assert answers == ["false", "false", "true", "false", "true", "true"]


async def test_fingerprint_of_a_real_heartbeat_is_the_same_for_all_members(scene: Scene) -> None:
    (a, _), (b, _) = scene.channel(), scene.channel()
    for member, name in ((a, "a"), (b, "b")):
        data = consumer("g", SubscriptionData("T", sub_version=random.getrandbits(40)))
        fingerprint = heartbeat_fingerprint(HeartbeatData(name, [], [data]))
        assert scene.is_sub_wanted(member, heartbeat(name, data, fingerprint=fingerprint)) == "false"


async def test_subscriptions_that_were_left_out_are_kept_or_asked_for(scene: Scene) -> None:
    (a, _), (b, _) = scene.channel(), scene.channel()
    simple = heartbeat("c", consumer("g"), fingerprint=5, without_sub=True)
    assert scene.is_sub_wanted(a, simple) == "true"
    assert scene.is_sub_wanted(a, heartbeat("c", consumer("g", "T"), fingerprint=5)) == "false"
    assert scene.is_sub_wanted(a, simple) == "false"
    assert scene.consumers.subscription("g", "T") == SubscriptionData("T")
    # The group goes and comes back, as after a restart of the broker.
    list(scene.consumers.on_closed(a))
    assert scene.is_sub_wanted(b, simple) == "true"


async def test_old_form_of_heartbeats_always_brings_its_subscriptions(scene: Scene) -> None:
    member, _ = scene.channel()
    scene.ask(member, heartbeat("c", consumer("g", "T")))
    scene.ask(member, heartbeat("c", consumer("g"), without_sub=True))
    assert scene.consumers.groups_subscribed_to("T") == []


async def test_producers_are_registered_with_all_that_is_known_of_them(scene: Scene, clock: FakeClock) -> None:
    member, _ = scene.channel()
    scene.ask(member, heartbeat("c", producers=["p", "q"], version=401))
    client = client_on(member, clock, "c", version=401)
    assert producers_by_group(scene.producers) == {"p": [client], "q": [client]}


async def test_new_producers_are_left_out_where_nobody_needs_them_and_known_ones_stay(clock: FakeClock) -> None:
    scene = Scene(clock, **QUIET, enableRegisterProducer="false", rejectTransactionMessage="true")
    member, _ = scene.channel()
    scene.producers.register("known", client_on(member, clock))
    clock.advance(60)
    scene.ask(member, heartbeat("c", producers=["known", "new"]))
    assert producers_by_group(scene.producers) == {"known": [client_on(member, clock)]}


async def test_time_that_registrations_take_is_counted_for_each_group(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = {"enableRegisterProducer": "false", "rejectTransactionMessage": "true"}
    scene = Scene(clock, **QUIET, **refusing)

    def nobody_slowly(group: str) -> dict[Channel, Client]:
        clock.advance(0.0045)
        return {}

    monkeypatch.setattr(scene.consumers, "register", lambda *_, **__: clock.advance(0.0125))
    monkeypatch.setattr(scene.producers, "clients", nobody_slowly)
    member, _ = scene.channel()
    for _ in range(2):
        scene.ask(member, heartbeat("c", consumer("g", "T"), consumer("h", "T"), producers=["p"]))
    for _ in range(10):
        clock.advance(1)
        scene.stats.tick()

    def minute(stat: str) -> tuple[int, float]:
        data = scene.stats.data(stat, "DefaultCluster")
        assert data is not None
        return data.stats_minute.sum, data.stats_minute.avgpt

    assert minute("CONSUMER_REGISTER_TIME") == (48, 12.0), "four times, in whole milliseconds"
    assert minute("PRODUCER_REGISTER_TIME") == (8, 4.0), "also of one that is not taken in"


async def test_bytes_that_are_no_heartbeat_change_nothing(scene: Scene) -> None:
    member, _ = scene.channel()
    for body in (
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"clientID":"c","consumerDataSet":[{"subscriptionDataSet":[]}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"subString":"*"}]}]}',
        b'{"clientID":"c","producerDataSet":[{}]}',
        b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":7}',
    ):
        with pytest.raises(RemoteProtocolError):
            scene.ask(member, Command(RequestCode.HEART_BEAT, body=body))
    assert (producers_by_group(scene.producers), scene.consumers.groups_subscribed_to("T")) == ({}, [])


async def test_constants_that_nobody_knows_are_none(scene: Scene) -> None:
    member, _ = scene.channel()
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"NEW","consumeType":99}]}'
    assert scene.ask(member, Command(RequestCode.HEART_BEAT, body=body)).code == 0
    info = scene.consumers.info("g")
    assert info is not None
    assert (info.message_model, info.consume_type) == (None, None)


async def test_heartbeat_that_is_too_big_is_refused_before_it_is_read(scene: Scene) -> None:
    member, _ = scene.channel()
    with pytest.raises(RemoteProtocolError, match=str(BODY_BYTES_MAX)):
        scene.ask(member, Command(RequestCode.HEART_BEAT, body=b"[" * (BODY_BYTES_MAX + 1)))


async def test_heartbeat_with_too_many_consumer_groups_makes_none(scene: Scene) -> None:
    member, _ = scene.channel()
    groups = [ConsumerData(f"g{number}") for number in range(CONSUMER_GROUPS_MAX + 1)]
    before = scene.groups.version, scene.topics.version
    with pytest.raises(RemoteProtocolError, match="1001 consumer groups"):
        scene.ask(member, heartbeat("c", *groups))
    assert (scene.groups.version, scene.topics.version) == before


async def test_many_new_groups_are_made_some_at_a_time(scene: Scene) -> None:
    """All of them at once would hold the loop for tenths of a second, each by itself costs the disk as much."""
    member, _ = scene.channel()
    groups = [ConsumerData(f"g{number}") for number in range(CONSUMER_GROUPS_MAX)]
    before = scene.groups.version, scene.topics.version
    assert scene.ask(member, heartbeat("c", *groups)).code == 0
    assert (scene.groups.version, scene.topics.version) == (before[0] + 20, before[1] + 20)
    assert scene.work.pauses == 19 + 7, "while they are made, and before, while they are read"


async def test_connection_that_ends_in_the_midst_of_its_heartbeat_is_taken_in_nowhere(scene: Scene) -> None:
    member, _ = scene.channel()
    member.close()
    await settle()
    scene.ask(member, heartbeat("c", consumer("g", "T"), producers=["p"]))
    assert (producers_by_group(scene.producers), scene.consumers.info("g")) == ({}, None)


async def test_one_connection_has_a_bound_of_producer_groups(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PRODUCER_GROUPS_MAX", 300)
    member, _ = scene.channel()
    all_allowed = [f"p{number}" for number in range(300)]
    for _ in range(2):
        assert scene.ask(member, heartbeat("c", producers=all_allowed)).code == 0
    assert scene.work.pauses == 1
    with pytest.raises(RemoteProtocolError, match="300 producer groups, and no more"):
        scene.ask(member, heartbeat("c", producers=["another"]))
    assert len(scene.producers.groups()) == 300


async def test_one_connection_has_a_bound_of_consumer_groups(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "CONSUMER_GROUPS_OF_ONE_MAX", 3)
    (member, _), (other, _) = scene.channel(), scene.channel()
    three = [consumer(f"g{number}", "T") for number in range(3)]
    for _ in range(2):
        assert scene.ask(member, heartbeat("c", *three)).code == 0
    with pytest.raises(RemoteProtocolError, match="can be in 3 consumer groups"):
        scene.ask(member, heartbeat("c", consumer("g3", "T")))
    assert scene.groups.get("g3") is None
    assert scene.ask(other, heartbeat("d", consumer("g3", "T"))).code == 0


@pytest.mark.parametrize(("client_id", "producer"), [("c" * 256, "p"), ("c", "p" * 256)], ids=["client", "producer"])
async def test_names_that_no_client_has_are_not_kept(scene: Scene, client_id: str, producer: str) -> None:
    member, _ = scene.channel()
    with pytest.raises(RemoteProtocolError, match="a name of 256 characters"):
        scene.ask(member, heartbeat(client_id, consumer("g", "T"), producers=[producer]))
    assert (scene.producers.groups(), scene.consumers.info("g")) == ([], None)


async def test_topics_of_retries_have_room_or_are_not_made_and_the_group_is_taken_in(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.metadata.topics.TOPICS_MAX", len(scene.topics.all()) + 1)
    member, _ = scene.channel()
    for name in ("first", "second"):
        assert scene.ask(member, heartbeat("c", consumer(name, "T"))).code == 0
    assert scene.topics.get("%RETRY%first") is not None
    assert scene.topics.get("%RETRY%second") is None
    assert scene.consumers.info("second") is not None


async def test_groups_have_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "GROUPS_MAX", len(scene.groups.all()) + 1)
    member, _ = scene.channel()
    for name in ("first", "second"):
        assert scene.ask(member, heartbeat("c", consumer(name, "T"))).code == 0
    assert (scene.groups.get("first") is not None, scene.groups.get("second")) == (True, None)
    assert scene.topics.get("%RETRY%second") is None


async def test_any_text_may_be_a_client_id(scene: Scene) -> None:
    member, _ = scene.channel()
    body = b'{"clientID":"\\ud800","consumerDataSet":[{"groupName":"g"}]}'
    scene.ask(member, Command(RequestCode.HEART_BEAT, body=body))
    assert len(scene.consumers.client_ids("g")) == 1


# --- UNREGISTER_CLIENT


def _farewell(client_id: str, **ext: str) -> Command:
    return Command(RequestCode.UNREGISTER_CLIENT, {"clientID": client_id, **ext})


async def test_farewell_leaves_the_groups_that_it_names_and_the_others_are_told(telling: Scene) -> None:
    """S81."""
    (a, a_line), (b, b_line) = telling.channel(), telling.channel()
    async with telling.notifications:
        for member in (a, b):
            telling.ask(member, heartbeat("c", consumer("g", "T"), consumer("h", "T"), producers=["p", "q"]))
        await settle()
        a_line.written.clear()
        b_line.written.clear()
        assert telling.ask(a, _farewell("c", consumerGroup="g", producerGroup="p")).code == 0
        await settle()
    assert (told(a_line), told(b_line)) == ([], ["g"])
    assert [len(telling.consumers.client_ids(group)) for group in "gh"] == [1, 2]
    assert [len(telling.producers.clients(group)) for group in "pq"] == [1, 2]


async def test_farewell_to_unknown_groups_succeeds_and_makes_none(scene: Scene) -> None:
    """S87."""
    member, _ = scene.channel()
    assert scene.ask(member, _farewell("c", consumerGroup="g", producerGroup="p")).code == 0
    assert scene.groups.get("g") is None


# --- CHECK_CLIENT_CONFIG


@pytest.mark.parametrize(
    ("expression_type", "code"), [("TAG", 0), ("", 0), ("SQL92", 1), ("tag", 1), (string.ascii_letters, 1)]
)
async def test_subscription_by_tags_is_accepted_and_any_other_is_not(
    scene: Scene, expression_type: str, code: int
) -> None:
    """S88."""
    member, _ = scene.channel()
    asked = CheckClientRequestBody("c", "g", None, SubscriptionData("T", "a > 1", expression_type=expression_type))
    answer = scene.ask(member, Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode(asked)))
    assert answer.code == code
    assert code == 0 or expression_type in (answer.remark or "")


async def test_expressions_are_checked_if_they_may_be_used(clock: FakeClock) -> None:
    """S88, S233, S237, S238."""
    scene = Scene(clock, enablePropertyFilter="true")
    member, _ = scene.channel()
    wrong = ("a IN (1,2)", "a != 5", "a == 5", "a > 'x'", "a > 0.0", "NOT a > 5", "5", "")
    for expression, code in (("a > 1", 0), ("a > 5 garbage", 0), *((text, 23) for text in wrong)):
        asked = CheckClientRequestBody("c", "g", None, SubscriptionData("T", expression, expression_type="SQL92"))
        answer = scene.ask(member, Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode(asked)))
        assert answer.code == code, expression
        assert not code or "column" in str(answer.remark)


async def test_filters_of_a_heartbeat_are_kept_and_die_with_the_group(scene: Scene) -> None:
    member, _ = scene.channel()
    said = SubscriptionData("T", "a > 1", sub_version=5, expression_type="SQL92")
    scene.consumers.on_empty = scene.filters.unregister
    scene.ask(member, heartbeat("c", consumer("g", said)))
    kept = scene.filters.get("g", "T")
    assert kept is not None
    assert not kept.is_dead
    scene.ask(member, Command(RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g"}))
    assert kept.is_dead


async def test_each_expression_of_a_heartbeat_is_read_once_and_in_a_step_of_its_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more than are remembered: all were read a second time, in one step of half a second."""
    read: list[str] = []

    def compiled(expression: str) -> SqlFilter:
        read.append(expression)
        return compile_sql(expression)

    monkeypatch.setattr(filters, "compile_sql", compiled)
    member, _ = scene.channel()
    subscriptions = [
        SubscriptionData(f"t{number}", f"a > {number}", sub_version=1, expression_type="SQL92")
        for number in range(1500)
    ]
    scene.ask(member, heartbeat("c", consumer("g", *subscriptions)))
    assert len(read) == 1500
    assert scene.work.pauses >= 1500
    assert len(scene.filters) == 1500
    scene.ask(member, heartbeat("c", consumer("g", *subscriptions)))
    assert len(read) == 1500, "what a group has said before costs nothing"


@pytest.mark.parametrize(("count", "kind"), [(20_001, "TAG"), (4097, "SQL92")])
async def test_one_group_has_a_bound_of_subscriptions(scene: Scene, count: int, kind: str) -> None:
    member, _ = scene.channel()
    subscriptions = [{"topic": f"t{number}", "expressionType": kind} for number in range(count)]
    consumers = [{"groupName": "g", "subscriptionDataSet": subscriptions}]
    body = json.dumps({"clientID": "c", "consumerDataSet": consumers}, separators=(",", ":")).encode()
    with pytest.raises(RemoteProtocolError, match=f"{count} subscriptions"):
        scene.ask(member, Command(RequestCode.HEART_BEAT, body=body))
    assert scene.consumers.info("g") is None


@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_check_of_nothing_succeeds(scene: Scene, body: bytes) -> None:
    member, _ = scene.channel()
    assert scene.ask(member, Command(RequestCode.CHECK_CLIENT_CONFIG, body=body)).code == ResponseCode.SUCCESS


async def test_check_of_a_large_subscription_is_read_in_steps(scene: Scene) -> None:
    """Half a million codes of tags took a tenth of a second."""
    member, _ = scene.channel()
    asked = CheckClientRequestBody("c", "g", None, SubscriptionData("T", code_set=[*range(50_000)]))
    scene.ask(member, Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode(asked)))
    assert scene.work.pauses > 300
