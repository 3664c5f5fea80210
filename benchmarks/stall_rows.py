"""What one peer may do to a server: each row is a request, or a train of them, that was once enough to stop everybody.

To add a row: a function that makes the commands of one connection, and an entry in `ROWS`.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketline.clock import SystemClock
from rocketline.wire.codes import RequestCode, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties

PROBED: Final = "probed"
"""The topic, with one queue, that the well-behaved connection sends to."""
WIDE: Final = "wide"
QUEUES = 16_384
NARROW = 3_000
"""Topics."""
CROWD = 1_000
GROUP: Final = "stalls"
_TAGS_CHARACTERS_MAX: Final = 128 * 1024
_HOLD_MS: Final = 600_000
_SUSPEND, _SUBSCRIPTION = 2, 4

Commands: TypeAlias = Iterable[Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`asked` has the commands of a connection, by its number: each is sent when the one before is answered, and from
    the first again when they are through. `parked` are sent before the clock runs, and nobody waits for an answer.
    """

    name: str
    asked: Callable[[int], Iterator[Command]] = lambda _: iter(())
    parked: Callable[[int], Commands] = lambda _: ()
    prepared: Callable[[], Commands] = lambda: ()
    """Asked once, over a connection of its own, before anything else."""
    joined: Callable[[int], Command] | None = None
    """What each of `CROWD` further connections says, by its number, before the clock runs; they stay."""
    is_oneway: bool = False
    at_name_server: bool = False
    is_refused: bool = False
    """All that is asked is refused, and that is what the row is about. Another row without an answer fails."""
    is_bounded: bool = False
    """Some of what is parked is refused, because it is more than may be held. Another row fails then."""
    is_killed: bool = False
    """After what was prepared the server is killed, and the clock runs from its next start."""


def create_topic(topic: str, queues: int) -> Command:
    numbers = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6", "topicSysFlag": "0"}
    ext = {"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false", **numbers}
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def create_group(group: str) -> Command:
    return Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps({"groupName": group}).encode())


def send(topic: str, body: bytes = b"x", properties: str = "", *, queue_id: int = 0, is_batch: bool = False) -> Command:
    ext = {
        "a": GROUP, "b": topic, "c": "TBW102", "d": "1", "e": str(queue_id), "f": "0", "g": "0", "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "true" if is_batch else "false",
    }  # fmt: skip
    return Command(RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2, ext, body)


def pull(
    topic: str,
    wanted: str,
    *,
    count: int = 32,
    is_held: bool = True,
    body: bytes = b"",
    kind: str = "TAG",
) -> Command:
    ext = {
        "consumerGroup": GROUP, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": str(count),
        "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if is_held else 0)), "commitOffset": "0",
        "suspendTimeoutMillis": str(_HOLD_MS), "subscription": wanted, "subVersion": "0", "expressionType": kind,
    }  # fmt: skip
    return Command(RequestCode.PULL_MESSAGE, ext, body)


def pop(
    topic: str,
    wanted: str = "*",
    *,
    group: str = GROUP,
    is_held: bool = True,
    code: int = RequestCode.POP_MESSAGE,
) -> Command:
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "60000",
        "pollTime": str(_HOLD_MS if is_held else 0), "bornTime": "0", "initMode": "0", "expType": "TAG",
        "exp": wanted, "order": "false",
    }  # fmt: skip
    return Command(code, ext)


def _held_pops(wanted: str) -> Iterator[Command]:
    """As many as wait in all, a thousand of each group."""
    return (pop(PROBED, wanted, group=f"{GROUP}{number // 1000}") for number in range(16_000))


def _acks(count: int) -> Command:
    """Acknowledgements of messages that nobody popped, each with a checkpoint of its own."""
    now_ms, invisible_ms = SystemClock().wall_ms(), 24 * 3_600_000
    acks = [
        {"c": GROUP, "t": PROBED, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": now_ms + n, "it": invisible_ms, "b": "AQ=="}
        for n in range(count)
    ]
    return Command(RequestCode.BATCH_ACK_MESSAGE, body=json.dumps({"brokerName": "b", "acks": acks}).encode())


def _over_and_over(*commands: Command) -> Callable[[int], Iterator[Command]]:
    return lambda _: itertools.cycle(commands)


def _numbered(make: Callable[[int], Command]) -> Callable[[int], Iterator[Command]]:
    """Commands that are never the same, not even on two connections."""
    return lambda connection: map(make, itertools.count(connection << 32))


def _wide_topic() -> Iterator[Command]:
    """A topic of many queues, some with a message, in which a group has an offset everywhere."""
    yield from _filled_topic(WIDE)
    yield create_group(GROUP)
    for queue_id in range(QUEUES):
        yield commit(GROUP, WIDE, queue_id)


def _filled_topic(topic: str) -> Iterator[Command]:
    yield create_topic(topic, QUEUES)
    for queue_id in range(0, QUEUES, 8):
        yield send(topic, queue_id=queue_id)


def commit(group: str, topic: str, queue_id: int) -> Command:
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "1"}
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def _many_keys() -> Command:
    keys = " ".join(f"{number % 90 + 10}" for number in range(10_667))
    return send(PROBED, properties=format_properties({"KEYS": keys}))


def _many_properties(**more: str) -> Command:
    return send(PROBED, properties=format_properties({f"p{n}": "v" for n in range(3000)} | more))


def _many_tags(number: int) -> str:
    """As many as are read, and others for each number."""
    tags = (f"{number:x}.{tag:x}||" for tag in itertools.count())
    text = "".join(itertools.islice(tags, _TAGS_CHARACTERS_MAX // 8))
    return text[: text.rindex("||", 0, _TAGS_CHARACTERS_MAX)]


def _by_sql(properties: dict[str, str] | None = None) -> list[Command]:
    """A broker that filters by SQL, and maybe a message."""
    switch = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"enablePropertyFilter=true")
    sent = [send(PROBED, properties=format_properties(properties))] if properties else []
    return [switch, create_group(GROUP), *sent]


def _many_filters(topic: str, *, is_held: bool) -> Iterator[Command]:
    """As many expressions as are remembered."""
    return (pull(topic, f"a < {number}", is_held=is_held, kind="SQL92") for number in range(2, 1002))


def _check(subscription: dict[str, object]) -> Command:
    body = {"clientId": "c", "group": GROUP, "subscriptionData": {"topic": PROBED, **subscription}}
    return Command(RequestCode.CHECK_CLIENT_CONFIG, body=_json(body))


def _empty_properties(code: RequestCode, body: bytes = b"x", *, is_batch: bool = False) -> Command:
    """As many as a header has room for, without a name or a value."""
    command = send(PROBED, body, "\x02" * (1_000 * 1024), is_batch=is_batch)
    command.code, command.serialize_type = code, SerializeType.ROCKETMQ
    return command


def _nested_heartbeat() -> Command:
    """A subscription with a field that nobody knows, of lists in lists."""
    said = {"topic": PROBED, "subString": "*", "unknown": [[[]]] * 140_000}
    consumer = {"groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [said]}
    return Command(RequestCode.HEART_BEAT, body=_json({"clientID": "c", "consumerDataSet": [consumer]}))


def _filter_heartbeat(number: int) -> Command:
    """A group with more expressions than are remembered, none of which was said before."""
    said = [
        {
            "topic": f"t{topic}",
            "subString": f"a > {topic} AND b = '{number}'",
            "expressionType": "SQL92",
            "subVersion": number,
        }
        for topic in range(1500)
    ]
    consumer = {"groupName": f"g{number >> 32}", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": said}
    return Command(RequestCode.HEART_BEAT, body=_json({"clientID": "c", "consumerDataSet": [consumer]}))


def heartbeat(client_id: str, groups: Iterable[str], topics: Iterable[str] = (PROBED,)) -> Command:
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
    consumers = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": subscriptions,
        }
        for group in groups
    ]
    return Command(RequestCode.HEART_BEAT, body=_json({"clientID": client_id, "consumerDataSet": consumers}))


def _produce_as(groups: Iterable[str]) -> Command:
    body = {"clientID": "p", "producerDataSet": [{"groupName": group} for group in groups]}
    return Command(RequestCode.HEART_BEAT, body=_json(body))


def _producer_groups(connection: int) -> list[str]:
    """As many as one connection can be in."""
    return [f"p{connection}-{group}" for group in range(10_000)]


def _short_acks(count: int) -> Command:
    return Command(RequestCode.BATCH_ACK_MESSAGE, body=_json({"acks": [{}] * count}))


def _change_invisible_time(number: int) -> Command:
    """Of a message that was popped just now, or so it says."""
    handle = f"0 {SystemClock().wall_ms()} 60000 0 0 b 0 0"
    ext = {
        "consumerGroup": GROUP, "topic": PROBED, "queueId": "0", "offset": "0", "invisibleTime": str(number % 9 + 1),
        "extraInfo": handle,
    }  # fmt: skip
    return Command(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)


def _group_with(waits: int, number: int = 0) -> Command:
    """A group with so many waits between the retries of its messages."""
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1] * waits}}
    return Command(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        body=_json({"groupName": f"waiting{number}", "groupRetryPolicy": policy}),
    )


def _mode(number: int) -> Command:
    body = {"topic": f"m{number % 20}", "consumerGroup": f"g{number // 20 % 100}", "mode": "POP"}
    return Command(RequestCode.SET_MESSAGE_REQUEST_MODE, body=_json({**body, "popShareQueueNum": number}))


def _groups_from(first: int) -> Command:
    """As many as may be made at once."""
    configs = [{"groupName": f"g{number}"} for number in range(first, first + 1_000)]
    return Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=_json({"groupConfigList": configs}))


def _many_modes() -> Iterator[Command]:
    """As many as are kept."""
    yield topic_list([f"m{number}" for number in range(20)], 1)
    yield _groups_from(0)
    yield from map(_mode, range(2000))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def topic_list(topics: Iterable[str], queues: int) -> Command:
    configs = [{"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues} for topic in topics]
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=_json({"topicConfigList": configs}))


def _narrow_topics() -> Iterator[Command]:
    """Thousands of topics with few queues, in which a group has an offset each."""
    yield create_group(GROUP)
    for at in range(0, NARROW, 1000):
        yield topic_list([f"narrow{number}" for number in range(at, min(at + 1000, NARROW))], 8)
    for number in range(NARROW):
        yield commit(GROUP, f"narrow{number}", 0)


def _consumed_by_many() -> Iterator[Command]:
    yield from _wide_topic()
    for number in range(20):
        clone = {"srcGroup": GROUP, "destGroup": f"clone{number}", "topic": WIDE, "offline": "false"}
        yield Command(RequestCode.CLONE_GROUP_OFFSET, clone)


def _retried_topic() -> Iterator[Command]:
    """A topic with thousands of topics for what was popped of it and not acknowledged."""
    yield create_topic("retried", 1)
    for at in range(0, 2000, 1000):
        yield topic_list([f"%RETRY%g{number}_retried" for number in range(at, at + 1000)], 1)
    for number in range(2000):
        yield create_group(f"g{number}")
        yield commit(f"g{number}", "retried", 0)


def _large_header() -> Command:
    fields = {f"field{number}": "x" * 240 for number in range(4000)}
    return Command(RequestCode.GET_BROKER_CONFIG, fields, serialize_type=SerializeType.ROCKETMQ)


def _config(number: int) -> Command:
    return Command(
        RequestCode.UPDATE_BROKER_CONFIG, body=f"sendThreadPoolQueueCapacity={10_000 + number % 100}".encode()
    )


def _lock(queues: int) -> Command:
    queue_set = [{"topic": PROBED, "brokerName": "b", "queueId": queue_id} for queue_id in range(queues)]
    return Command(RequestCode.LOCK_BATCH_MQ, body=_json({"consumerGroup": GROUP, "clientId": "c", "mqSet": queue_set}))


def _members(count: int, properties: bytes = b"") -> bytes:
    size = struct.calcsize(">iiiiih") + len(properties)
    return (struct.pack(">iiiiih", size, 0, 0, 0, 0, len(properties)) + properties) * count


def _batch(count: int, properties: bytes = b"") -> Command:
    return send(PROBED, _members(count, properties), is_batch=True)


def _register(number: int, body: bytes, *, is_compressed: bool = False) -> Command:
    ext = {
        **_broker_of(number), "haServerAddr": "127.0.0.1:1", "compressed": str(is_compressed).lower(),
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
    }  # fmt: skip
    return Command(RequestCode.REGISTER_BROKER, ext, body)


def _broker_of(number: int) -> dict[str, str]:
    """One for each connection."""
    address = f"127.0.0.1:{1000 + (number >> 32)}"
    return {"brokerName": f"b{number >> 32}", "brokerAddr": address, "clusterName": "c", "brokerId": "0"}


def _registration(topics: int, *, dialect: bool = False) -> Callable[[int], Command]:
    """A broker with many topics. The dialect of old releases has keys that are no strings, and no quick parser."""

    def make(number: int) -> Command:
        version = {"counter": number, "stateVersion": 0, "timestamp": number}
        table = {
            f"t{topic}": {"topicName": f"t{topic}", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
            for topic in range(topics)
        }
        wrapper = {"dataVersion": version, "topicConfigTable": table}
        text = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":"))
        return _register(number, (text.replace('"topicName"', "'topicName'", 1) if dialect else text).encode())

    return make


def _compressed_registration(topics: int) -> Callable[[int], Command]:
    """Topics with attributes, which shrink to next to nothing; in quotes that no quick parser reads."""
    attributes = "{" + ",".join(f"'a{number}':'x'" for number in range(200)) + "}"

    def make(number: int) -> Command:
        version = json.dumps({"counter": number, "stateVersion": 0, "timestamp": number}).encode()
        lines = [f"t{topic} 4 4 6 SINGLE_TAG {attributes}".encode() for topic in range(topics)]
        parts = [struct.pack(">i", len(part)) + part for part in (version, *lines, b"[]")]
        parts.insert(1, struct.pack(">i", len(lines)))
        return _register(number, zlib.compress(b"".join([*parts, bytes(4)])), is_compressed=True)

    return make


def _mapped_registration(number: int, queues: int) -> Command:
    """A broker with a static topic of which it has so many queues."""
    told = _broker_of(number)
    mapping = {
        "topic": "static", "bname": told["brokerName"], "totalQueues": queues, "scope": "__global__",
        "currIdMap": {queue: queue for queue in range(queues)},
    }  # fmt: skip
    wrapper = {
        "dataVersion": {"counter": number, "stateVersion": 0, "timestamp": number},
        "topicConfigTable": {topic: {"topicName": topic, "readQueueNums": 4, "perm": 6} for topic in ("static", "t")},
        "topicQueueMappingInfoMap": {"static": mapping},
    }
    return _register(number, _json({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}))


def _come_and_go(make: Callable[[int], Command]) -> Callable[[int], Iterator[Command]]:
    """A broker that registers, and leaves as soon as it has."""

    def asked(connection: int) -> Iterator[Command]:
        for number in itertools.count(connection << 32):
            yield make(number)
            yield Command(RequestCode.UNREGISTER_BROKER, _broker_of(number))

    return asked


def _topic_question(code: RequestCode, **more: str) -> Callable[[int], Iterator[Command]]:
    return _over_and_over(Command(code, {"topic": WIDE, **more}))


ROWS: Final = (
    Row(name="nothing"),
    # messages and the index
    Row(name="messages with 10,667 keys", asked=_over_and_over(_many_keys())),
    Row(name="a kill after 2,000 of them", prepared=lambda: [_many_keys()] * 2000, is_killed=True),
    Row(name="batches of 10,000 messages", asked=_over_and_over(_batch(10_000))),
    Row(name="batches of 32,767 messages", asked=_over_and_over(_batch(32_767))),
    Row(name="batches of 10,000 unusual messages", asked=_over_and_over(_batch(10_000, b"TAGS\x01x"))),
    Row(name="messages with 3,000 properties", asked=_over_and_over(_many_properties())),
    Row(name="messages with 3,000 properties, a second later", asked=_over_and_over(_many_properties(DELAY="1"))),
    Row(
        name="messages with 3,000 properties, at a moment",
        asked=_over_and_over(_many_properties(TIMER_DELAY_MS="1500")),
    ),
    Row(
        name="messages, batches and replies with a million properties without a name",
        asked=_over_and_over(
            _empty_properties(RequestCode.SEND_MESSAGE_V2),
            _empty_properties(RequestCode.SEND_BATCH_MESSAGE, _members(2), is_batch=True),
            _empty_properties(RequestCode.SEND_REPLY_MESSAGE_V2),
        ),
        is_refused=True,
    ),
    Row(
        name="questions for a key of all messages",
        prepared=lambda: [_many_keys()] * 200,
        asked=_over_and_over(
            Command(
                RequestCode.QUERY_MESSAGE,
                {"topic": PROBED, "key": "10", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(2**62)},
            )
        ),
    ),
    # pulls
    Row(
        name="20 held pulls with 128 KiB of tags",
        prepared=lambda: [create_group(GROUP)],
        parked=lambda connection: (pull(PROBED, _many_tags(20 * connection + n)) for n in range(20)),
    ),
    Row(
        name="16,000 held pulls with a tag of no message",
        prepared=lambda: [create_group(GROUP)],
        parked=lambda _: itertools.repeat(pull(PROBED, "never"), 16_000),
    ),
    Row(
        name="16,000 held pulls that match",
        prepared=lambda: [create_group(GROUP)],
        parked=lambda _: itertools.repeat(pull(PROBED, "*"), 16_000),
    ),
    Row(
        name="10 held pulls with bodies of 5 MB",
        prepared=lambda: [create_group(GROUP)],
        parked=lambda _: itertools.repeat(pull(PROBED, "never", body=bytes(5_000_000)), 10),
    ),
    Row(
        name="100 held pulls with bodies of 1 MiB",
        prepared=lambda: [create_group(GROUP)],
        parked=lambda _: itertools.repeat(pull(PROBED, "never", body=bytes(2**20)), 100),
    ),
    Row(
        name="pulls with 128 KiB of tags",
        prepared=lambda: [create_group(GROUP)],
        asked=_numbered(lambda number: pull(PROBED, _many_tags(number), is_held=False)),
    ),
    # pops
    Row(
        name="10 held pops with 128 KiB of tags",
        parked=lambda connection: (pop(PROBED, _many_tags(10 * connection + n)) for n in range(10)),
    ),
    Row(name="16,000 held pops with a tag of no message", parked=lambda _: _held_pops("never")),
    Row(name="16,000 held pops that match", parked=lambda _: _held_pops("*")),
    Row(
        name="pops with 128 KiB of tags",
        asked=_numbered(lambda number: pop(PROBED, _many_tags(number), is_held=False)),
    ),
    Row(
        name="pops with a retry topic of 16,384 queues",
        prepared=lambda: [create_group(GROUP), create_topic(f"%RETRY%{GROUP}_{PROBED}", QUEUES)],
        parked=lambda _: itertools.repeat(pop(PROBED, "never"), 1000),
        asked=_over_and_over(pop(PROBED, "never", is_held=False)),
    ),
    Row(name="batches of 4,096 acknowledgements", prepared=lambda: [send(PROBED)], asked=_over_and_over(_acks(4096))),
    Row(name="batches of 6,000 acknowledgements", asked=_over_and_over(_acks(6000)), is_refused=True),
    Row(
        name="held pops of 10,000 groups",
        prepared=lambda: map(_groups_from, range(0, 10_000, 1_000)),
        parked=lambda _: (pop(PROBED, "never", group=f"g{number}") for number in range(10_000)),
    ),
    Row(
        name="100 held pops with 128 KiB of tags",
        parked=lambda connection: (pop(PROBED, _many_tags(100 * connection + n)) for n in range(100)),
        is_bounded=True,
    ),
    Row(name="pops of 16,384 queues", prepared=_wide_topic, asked=_over_and_over(pop(WIDE, is_held=False))),
    Row(
        name="200 held pops of 16,384 queues",
        prepared=lambda: [create_group(GROUP), create_topic(WIDE, QUEUES)],
        parked=lambda _: itertools.repeat(pop(WIDE), 200),
        asked=lambda _: (send(WIDE, queue_id=number % QUEUES) for number in itertools.count()),
    ),
    Row(
        name="questions for news of 16,384 queues",
        prepared=_wide_topic,
        asked=_over_and_over(pop(WIDE, is_held=False, code=RequestCode.NOTIFICATION)),
    ),
    Row(name="batches of 65,000 acknowledgements", asked=_over_and_over(_short_acks(65_000)), is_refused=True),
    Row(
        name="changes of invisible times",
        prepared=lambda: [create_group(GROUP), send(PROBED)],
        asked=_numbered(_change_invisible_time),
    ),
    # filters in SQL
    Row(
        name="pulls by SQL past a number of 30,000 digits",
        prepared=lambda: _by_sql({"p": "1" * 30_000 + "x"}),
        asked=_over_and_over(pull(PROBED, "p > 1.5", is_held=False, kind="SQL92")),
    ),
    Row(
        name="pulls by SQL that look for parts of long texts",
        prepared=lambda: [*_by_sql(), *[send(PROBED, properties=format_properties({"p": "a" * 5000}))] * 500],
        asked=_over_and_over(
            pull(PROBED, " OR ".join([f"p CONTAINS '{'a' * 3750}b'"] * 8), is_held=False, kind="SQL92")
        ),
    ),
    Row(
        name="BETWEEN within BETWEEN",
        prepared=_by_sql,
        asked=_numbered(
            lambda number: pull(
                PROBED,
                "-(" * 12 + f"-a BETWEEN 1 AND {number + 2}" + ") BETWEEN 1 AND 2" * 12,
                is_held=False,
                kind="SQL92",
            )
        ),
        is_refused=True,
    ),
    Row(
        name="held pulls by 1,000 expressions in SQL",
        prepared=lambda: [
            *_by_sql(),
            create_topic("read", 1),
            send("read", properties=format_properties({"a": "1"})),
            *_many_filters("read", is_held=False),
        ],
        parked=lambda _: _many_filters(PROBED, is_held=True),
    ),
    Row(name="heartbeats with 1,500 new expressions", asked=_numbered(_filter_heartbeat)),
    Row(
        name="checks of half a million codes of tags",
        asked=_over_and_over(_check({"codeSet": [1] * 500_000})),
    ),
    Row(
        name="pulls of 256 KiB and batches of 32,767 messages by turns",
        prepared=lambda: [create_group(GROUP), *[send(PROBED, bytes(1024))] * 256],
        asked=_over_and_over(pull(PROBED, "*", count=1024, is_held=False), _batch(32_767)),
    ),
    # all queues of a topic
    Row(
        name="messages for 16,384 queues, one after the other",
        prepared=lambda: [create_topic(WIDE, QUEUES)],
        asked=lambda connection: (
            send(WIDE, queue_id=(number + connection * QUEUES // 6) % QUEUES) for number in itertools.count()
        ),
    ),
    Row(
        name="topics with 16,384 queues, deleted and made",
        prepared=lambda: _filled_topic("d0"),
        asked=lambda connection: itertools.cycle(
            (
                Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"d{connection}"}),
                create_topic(f"d{connection}", QUEUES),
            )
        ),
    ),
    Row(
        name="QUERY_CONSUME_TIME_SPAN",
        prepared=_wide_topic,
        asked=_topic_question(RequestCode.QUERY_CONSUME_TIME_SPAN, group=GROUP),
    ),
    Row(name="GET_TOPIC_STATS_INFO", prepared=_wide_topic, asked=_topic_question(RequestCode.GET_TOPIC_STATS_INFO)),
    Row(
        name="GET_CONSUME_STATS",
        prepared=_wide_topic,
        asked=_topic_question(RequestCode.GET_CONSUME_STATS, consumerGroup=GROUP),
    ),
    Row(
        name="GET_BROKER_CONSUME_STATS",
        prepared=_wide_topic,
        asked=_over_and_over(Command(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})),
    ),
    Row(
        name="resets of 16,384 queues",
        prepared=_wide_topic,
        asked=_topic_question(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, group=GROUP, timestamp="0", isForce="true", queueId="-1"
        ),
    ),
    Row(
        name="one-way resets of one queue",
        prepared=_wide_topic,
        asked=_topic_question(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, group=GROUP, timestamp="0", isForce="true", queueId="1"
        ),
        is_oneway=True,
    ),
    Row(
        name="QUERY_CORRECTION_OFFSET",
        prepared=_consumed_by_many,
        asked=_topic_question(RequestCode.QUERY_CORRECTION_OFFSET, compareGroup=GROUP, filterGroups=""),
    ),
    Row(name="LOCK_BATCH_MQ of 19,000 queues", asked=_over_and_over(_lock(19_000))),
    # many topics and groups
    Row(
        name="GET_CONSUME_STATS of 3,000 topics",
        prepared=_narrow_topics,
        asked=_over_and_over(Command(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})),
    ),
    Row(
        name="GET_BROKER_CONSUME_STATS of 3,000 topics",
        prepared=_narrow_topics,
        asked=_over_and_over(Command(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})),
    ),
    Row(
        name="lists of 1,000 topics",
        asked=_over_and_over(*[topic_list([f"l{number}" for number in range(1000)], queues) for queues in (1, 2)]),
    ),
    Row(
        name="lists of 25,000 topics",
        asked=_over_and_over(
            Command(
                RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                body=_json({"topicConfigList": [{"topicName": f"l{number}"} for number in range(25_000)]}),
            )
        ),
        is_refused=True,
    ),
    Row(
        name="a topic with 2,000 retry topics, deleted",
        prepared=_retried_topic,
        asked=_over_and_over(Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "retried"})),
    ),
    Row(
        name="topics that groups may not read",
        prepared=lambda: [create_group(GROUP)],
        asked=_numbered(
            lambda number: Command(
                RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
                {"group": GROUP, "topic": f"t{number}", "readable": "false"},
            )
        ),
    ),
    Row(name="a group with 300,000 waits", asked=_over_and_over(_group_with(300_000)), is_refused=True),
    Row(
        name="groups with 1,000 waits, and their table",
        asked=lambda connection: itertools.chain.from_iterable(
            (_group_with(1_000, number), Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
            for number in itertools.count(connection << 32)
        ),
    ),
    Row(name="modes of consuming, changed all the time", prepared=_many_modes, asked=_numbered(_mode)),
    Row(
        name="GET_ALL_MESSAGE_REQUEST_MODE",
        prepared=_many_modes,
        asked=_over_and_over(Command(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)),
    ),
    # offsets
    Row(
        name="UPDATE_CONSUMER_OFFSET of made-up queues",
        prepared=lambda: [create_group(GROUP)],
        asked=_numbered(lambda number: commit(GROUP, PROBED, 2**31 - 1 - (number & 0xFFFFFF))),
        is_oneway=True,
        is_refused=True,
    ),
    Row(
        name="CLONE_GROUP_OFFSET to made-up groups",
        prepared=_wide_topic,
        asked=_numbered(
            lambda number: Command(
                RequestCode.CLONE_GROUP_OFFSET,
                {"srcGroup": GROUP, "destGroup": f"g{number}", "topic": WIDE, "offline": "false"},
            )
        ),
    ),
    Row(
        name="GET_ALL_CONSUMER_OFFSET",
        prepared=_wide_topic,
        asked=_over_and_over(Command(RequestCode.GET_ALL_CONSUMER_OFFSET)),
    ),
    # members
    Row(
        name="heartbeats with 1,000 new groups",
        asked=_numbered(lambda number: heartbeat(f"c{number}", [f"g{number}-{group}" for group in range(1000)])),
    ),
    Row(
        name="heartbeats with 18,000 subscriptions",
        asked=_over_and_over(heartbeat("c", [GROUP], [f"t{topic}" for topic in range(18_000)])),
    ),
    Row(name="heartbeats with 280,000 lists", asked=_over_and_over(_nested_heartbeat()), is_refused=True),
    Row(
        name="heartbeats with 10,000 groups of producers",
        asked=lambda connection: itertools.repeat(_produce_as(_producer_groups(connection))),
    ),
    Row(
        name="GET_ALL_PRODUCER_INFO",
        parked=lambda connection: [_produce_as(_producer_groups(connection))],
        asked=_over_and_over(Command(RequestCode.GET_ALL_PRODUCER_INFO)),
    ),
    Row(
        name="members that come and go",
        asked=lambda connection: itertools.cycle(
            (
                heartbeat(f"c{connection}", [GROUP]),
                *[Command(RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": GROUP})] * 200,
            )
        ),
    ),
    Row(
        name="members of a group of 1,000 that come and go",
        prepared=lambda: [create_group(GROUP)],
        joined=lambda number: heartbeat(f"member {number}", [GROUP]),
        asked=lambda connection: itertools.cycle(
            (
                heartbeat(f"c{connection}", [GROUP]),
                Command(RequestCode.UNREGISTER_CLIENT, {"clientID": f"c{connection}", "consumerGroup": GROUP}),
            )
        ),
    ),
    Row(name="settings, changed all the time", asked=_numbered(_config)),
    Row(name="binary headers of 1 MiB", asked=_over_and_over(_large_header())),
    # the name server
    Row(name="registrations of 65,000 topics", asked=_numbered(_registration(65_000)), at_name_server=True),
    Row(
        name="registrations of 400 topics in the dialect",
        asked=_numbered(_registration(400, dialect=True)),
        at_name_server=True,
    ),
    Row(
        name="compressed registrations of 7,000 topics with attributes",
        asked=_numbered(_compressed_registration(7000)),
        at_name_server=True,
    ),
    Row(name="brokers of 65,000 topics that leave", asked=_come_and_go(_registration(65_000)), at_name_server=True),
    Row(
        name="routes of a static topic with 4,000 queues on each of 200 brokers",
        parked=lambda connection: (
            _mapped_registration(number << 32, 4000) for number in range(200 * connection + 20, 200 * connection + 220)
        ),
        asked=lambda connection: itertools.chain.from_iterable(
            (_mapped_registration(number, 1), Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "static"}))
            for number in itertools.count(connection << 32)
        ),
        at_name_server=True,
    ),
    Row(
        name="GET_ALL_TOPIC_LIST of 65,000 topics",
        asked=lambda connection: itertools.chain(
            [_registration(65_000)(connection << 32)],
            itertools.repeat(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)),
        ),
        at_name_server=True,
    ),
    Row(
        name="settings of the name server, changed all the time",
        asked=_numbered(
            lambda number: Command(
                RequestCode.UPDATE_NAMESRV_CONFIG, body=f"waitSecondsForService={number % 100}\n".encode() * 2000
            )
        ),
        at_name_server=True,
    ),
    Row(
        name="KV configurations",
        asked=_numbered(
            lambda number: Command(
                RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": f"k{number}", "value": "v" * 10_000}
            )
        ),
        at_name_server=True,
    ),
)
