from __future__ import annotations

import pickle
import re

import pytest

from rocketline.client.options import Credentials, Tls
from rocketline.errors import ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.spark.options.source_and_sink import SourceOptions, sink_options, source_options
from rocketline.spark.options.table import OPTIONS

SERVER = {"nameServer": "127.0.0.1:9876"}
ORDERS = SERVER | {"subscribe": "orders"}
QUEUE_0, QUEUE_1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def problems(given: dict[str, str], *, is_stream: bool = False) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        source_options(given, is_stream=is_stream)
    return raised.value.problems


# --- defaults


def test_a_batch_begins_at_the_earliest_and_a_stream_at_the_latest_message() -> None:
    assert source_options(ORDERS, is_stream=False).starting.word == "earliest"
    assert source_options(ORDERS, is_stream=True).starting.word == "latest"


def test_defaults_are_those_of_the_table() -> None:
    options = source_options(ORDERS, is_stream=True)
    assert (options.topics, options.pattern, options.assignment) == (("orders",), None, ())
    assert (options.tags, options.sql, options.is_filtered) == ("*", None, False)
    assert (options.pull_count_max, options.pull_timeout_s) == (1000, 3.0)
    assert (options.fetch_retries, options.fetch_retry_interval_s) == (3, 1.0)
    assert (options.poll_interval_s, options.route_ttl_s, options.trigger_delay_max_s) == (0.2, 30.0, 900.0)
    assert (options.records_per_partition_min, options.records_per_partition_max, options.min_partitions) == (
        5000, None, None,
    )  # fmt: skip
    assert options.fail_on_data_loss
    assert not options.commits_offsets
    assert not options.starting.is_latest_if_none


def test_defaults_of_the_dataclass_are_those_of_the_table() -> None:
    read = source_options(ORDERS, is_stream=True)
    assert SourceOptions(client=read.client, topics=("orders",), starting=read.starting) == read
    sink = sink_options(SERVER)
    assert type(sink)(client=sink.client) == sink


def test_names_of_options_are_unique_and_each_says_what_it_means() -> None:
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)
    for option in OPTIONS:
        assert option.meaning
        assert set(option.uses) <= set("SBW")


def test_options_and_settings_survive_pickling() -> None:
    given = ORDERS | {"rocketmq.accessKey": "a", "rocketmq.secretKey": "s", "rocketmq.useTLS": "true"}
    options = source_options(given, is_stream=True)
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options.client) == hash(pickle.loads(pickle.dumps(options.client)))


# --- what to read


@pytest.mark.parametrize(
    "given", [{}, {"subscribe": "a", "assign": '{"a": {"b": [0]}}'}, {"topic": "a", "subscribePattern": "a.*"}]
)
def test_exactly_one_way_to_say_what_to_read_is_wanted(given: dict[str, str]) -> None:
    (problem,) = problems(SERVER | given)
    assert "one of subscribe (or topic), subscribePattern and assign is wanted" in problem


def test_topics_are_a_list_without_blanks_and_doubles() -> None:
    assert source_options(SERVER | {"subscribe": " b, a ,b,"}, is_stream=False).topics == ("b", "a")


def test_topic_is_another_name_of_subscribe() -> None:
    assert source_options(SERVER | {"topic": "orders"}, is_stream=False).topics == ("orders",)


def test_an_assignment_names_queues() -> None:
    given = SERVER | {"assign": '{"orders": {"broker-a": [1, 0]}}'}
    assert source_options(given, is_stream=False).assignment == (QUEUE_0, QUEUE_1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is no JSON"),
        ("{}", "it names no queue"),
        ('{"t": [0]}', "topic 't': an object is wanted"),
        ('{"t": {"b": 0}}', "a list of queues is wanted"),
        ('{"t": {"b": ["x"]}}', "'x' is no number of a queue"),
        ('{"t": {"b": [true]}}', "True is no number of a queue"),
        ('{"t": {"b": [2147483648]}}', "2147483648 is no number of a queue"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_a_wrong_assignment_is_told(text: str, problem: str) -> None:
    (found,) = problems(SERVER | {"assign": text})
    assert found.startswith("assign: ")
    assert problem in found


def test_a_pattern_must_be_a_regular_expression() -> None:
    (problem,) = problems(SERVER | {"subscribePattern": "orders("})
    assert "is no regular expression" in problem


def test_names_that_no_broker_takes_are_told() -> None:
    found = problems(SERVER | {"subscribe": "a b", "consumerGroup": "x y"})
    assert [problem.split(":")[0] for problem in found] == ["topic 'a b'", "consumerGroup='x y'"]


# --- from where to where


def test_offsets_for_each_queue() -> None:
    text = '{"orders": {"broker-a": {"0": 7, "1": -2}}}'
    starting = source_options(ORDERS | {"startingOffsets": text}, is_stream=False).starting
    assert starting.offsets == starting.named == {QUEUE_0: 7, QUEUE_1: -2}


def test_a_time_wins_over_times_for_queues_and_these_over_offsets() -> None:
    given = ORDERS | {
        "startingOffsets": '{"orders": {"broker-a": {"0": 7}}}',
        "startingOffsetsByTimestamp": '{"orders": {"broker-a": {"0": 1000}}}',
    }
    starting = source_options(given, is_stream=True).starting
    assert starting.named == {QUEUE_0: 1000}
    starting = source_options(given | {"startingTimestamp": "5"}, is_stream=True).starting
    assert (starting.time_ms, starting.named) == (5, None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingOffsets": "latest"}, "it must be earliest, group, or JSON"),
        ({"startingOffsets": '{"orders": {"broker-a": {"0": -1}}}'}, "would read nothing in a batch"),
        ({"startingOffsets": '{"orders": {"broker-a": {"0": -3}}}'}, "it must be at least -2"),
        ({"startingOffsets": '{"orders": {"broker-a": {"0": "1"}}}'}, "'1' is no whole number"),
        ({"startingOffsets": '{"orders": {"broker-a": {"0": 1e99}}}'}, "is no whole number"),
        ({"startingOffsets": '{"orders": {"broker-a": {"zero": 1}}}'}, "'zero' is no number of a queue"),
        ({"endingOffsets": "earliest"}, "it must be latest, or JSON"),
        ({"endingOffsets": '{"orders": {"broker-a": {"0": -2}}}'}, "it must be at least -1"),
        ({"endingOffsetsByTimestamp": '{"orders": {"broker-a": {"0": -1}}}'}, "it must be at least 0"),
        ({"startingTimestamp": "yesterday"}, "a whole number is wanted"),
        ({"endingTimestamp": "-1"}, "a whole number is wanted, at least 0"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "it must be one of error, latest"),
        ({"startingTimestamp": "2000", "endingTimestamp": "1000"}, "begins after it ends"),
        (
            {
                "startingOffsets": '{"orders": {"broker-a": {"0": 9}}}',
                "endingOffsets": '{"orders": {"broker-a": {"0": 5}}}',
            },
            "queue 0 of topic 'orders' on broker 'broker-a': a batch that begins at 9, after it ends at 5",
        ),
        ({"startingOffsets": "group"}, "startingOffsets=group needs consumerGroup"),
    ],
)
def test_a_wrong_position_of_a_batch_is_told(given: dict[str, str], problem: str) -> None:
    (found,) = problems(ORDERS | given)
    assert problem in found


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "1"}.get(name, '{"orders": {"broker-a": {"0": 1}}}')
    (problem,) = problems(ORDERS | {name: value}, is_stream=True)
    assert problem == f"{name}: a stream has no end; read a batch, or stop the query"


def test_tables_are_no_streams() -> None:
    (problem,) = problems(SERVER | {"table": "offsets"}, is_stream=True)
    assert "only messages can be a stream" in problem
    assert source_options(SERVER | {"table": "offsets"}, is_stream=False).table == "offsets"


# --- numbers, times and flags


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250", 0.25), ("500ms", 0.5), ("30s", 30.0), ("15m", 900.0), ("2 h", 7200.0), ("1d", 86400.0)],
)
def test_the_longest_delay_is_a_time_with_a_unit(text: str, seconds: float) -> None:
    assert source_options(ORDERS | {"maxTriggerDelay": text}, is_stream=True).trigger_delay_max_s == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "0"), ("minOffsetsPerTrigger", "-1"), ("maxTriggerDelay", "soon"),
        ("minPartitions", "0"), ("maxRecordsPerPartition", "0"), ("minRecordsPerPartition", "-1"),
        ("failOnDataLoss", "maybe"),
        ("pullBatchSize", "0"), ("pullTimeoutMs", "0"), ("fetchOffset.numRetries", "x"),
        ("fetchOffset.retryIntervalMs", "-1"), ("minOffsetPollIntervalMs", "1.5"),
        ("partition.metadata.cache.ttl.ms", "-1"),
        ("commitOffsetsToBroker", "1"), ("tags", "||"), ("table", "queues"), ("rocketmq.vipChannelEnabled", "ja"),
        ("rocketmq.connectTimeoutMillis", "0"), ("maxOffsetsPerTrigger", "9" * 30),
    ],
)  # fmt: skip
def test_each_wrong_value_is_told_with_its_name(name: str, value: str) -> None:
    (problem,) = problems(ORDERS | {name: value}, is_stream=name != "table")
    assert problem.startswith(f"{name}={value!r}")


def test_limits_must_agree() -> None:
    given = ORDERS | {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}
    assert problems(given, is_stream=True) == ("minOffsetsPerTrigger=10 is more than maxOffsetsPerTrigger=5",)


def test_sql_that_cannot_be_read_is_told_with_its_place() -> None:
    """Here, since Apache's broker sends all messages to a pull whose expression it cannot read."""
    (problem,) = problems(ORDERS | {"sql": "a != 5"})
    assert problem.startswith("sql='a != 5': line 1, column 3, near '!= 5': ")
    longer = "a IN (" + "'x'," * 20_000 + "'x')"
    assert source_options(ORDERS | {"sql": longer}, is_stream=False).sql == longer, "another broker may take it"


def test_sql_and_tags_exclude_each_other() -> None:
    (problem,) = problems(ORDERS | {"sql": "a > 5", "tags": "x"})
    assert "sql and tags exclude each other" in problem
    options = source_options(ORDERS | {"sql": "a > 5"}, is_stream=False)
    assert (options.selector.expression, options.selector.expression_type) == ("a > 5", "SQL92")
    assert options.is_filtered


# --- names of options


def test_all_problems_are_told_at_once() -> None:
    assert len(problems({"subscribe": "a b", "failOnDataLoss": "x", "pullBatchSize": "0"})) == 4


def test_a_slip_of_a_name_is_told() -> None:
    (problem,) = problems(ORDERS | {"maxOffsetPerTrigger": "5"})
    assert problem == "there is no option maxoffsetpertrigger: did you mean maxOffsetsPerTrigger?"


def test_names_count_in_any_case() -> None:
    given = {"NAMESERVER": "127.0.0.1:9876", "Subscribe": "orders", "pullbatchsize": "7"}
    assert source_options(given, is_stream=False).pull_count_max == 7


def test_options_of_the_client_come_from_a_fixed_table() -> None:
    (problem,) = problems(ORDERS | {"rocketmq.heapSize": "5"})
    assert problem.startswith("there is no option rocketmq.heapsize: those of the client are rocketmq.accessKey")


def test_what_spark_adds_is_no_option_and_others_are_listed() -> None:
    sparks = {"path": "x", "checkpointLocation": "x", "queryName": "x", "owner": "x", "option.serialization": "x"}
    options = source_options(ORDERS | sparks | {"kafka.bootstrap.servers": "x"}, is_stream=True)
    assert options.unknown == ("kafka.bootstrap.servers",)


def test_options_that_mean_nothing_for_a_use_are_listed() -> None:
    given = ORDERS | {"maxOffsetsPerTrigger": "5", "sendBatchSize": "3"}
    assert source_options(given, is_stream=False).unknown == ("maxOffsetsPerTrigger", "sendBatchSize")
    assert source_options(given, is_stream=True).unknown == ("sendBatchSize",)
    assert sink_options(SERVER | {"topic": "results", "pullBatchSize": "1"}).unknown == ("pullBatchSize",)


# --- the client


def test_name_servers_are_separated_by_either_sign() -> None:
    settings = source_options(ORDERS | {"nameServer": "a:1, b:2;c:3"}, is_stream=False).client
    assert settings.name_servers == "a:1;b:2;c:3"


@pytest.mark.parametrize("address", ["localhost", "host:port", "a:1;b", ":9876", "a:70000"])
def test_a_wrong_address_is_told(address: str) -> None:
    (problem,) = problems(ORDERS | {"nameServer": address})
    assert re.match(r"nameServer: .* is no address", problem)


def test_without_a_name_server_nothing_goes() -> None:
    assert problems({"subscribe": "orders"}) == (
        "option nameServer is missing: write host:port, several separated by ;",
    )


def test_settings_of_the_client_become_its_keywords() -> None:
    given = ORDERS | {
        "rocketmq.accessKey": "me",
        "rocketmq.secretKey": " secret ",
        "rocketmq.securityToken": "token",
        "rocketmq.namespace": "team",
        "rocketmq.unitName": "unit",
        "rocketmq.vipChannelEnabled": "TRUE",
        "rocketmq.connectTimeoutMillis": "1500",
        "rocketmq.mqClientApiTimeout": "2500",
        "rocketmq.useTLS": "true",
        "rocketmq.tls.client.trustCertPath": "ca.pem",
        "rocketmq.tls.client.certPath": "client.pem",
        "rocketmq.tls.client.keyPath": "client.key",
        "rocketmq.tls.client.keyPassword": "pass",
        "rocketmq.tls.client.authServer": "false",
    }
    settings = source_options(given, is_stream=False).client
    assert settings.keywords() == {
        "credentials": Credentials("me", " secret ", "token"),
        "tls": Tls(
            trust_path="ca.pem", cert_path="client.pem", key_path="client.key", key_password="pass", verifies=False
        ),
        "namespace": "team",
        "namespace_v2": "",
        "unit_name": "unit",
        "vip_channel": True,
        "connect_timeout_s": 1.5,
        "api_timeout_s": 2.5,
    }
    assert settings.on_wire("orders") == "team%orders"
    assert " secret " not in repr(settings)
    assert "token" not in repr(settings).replace("security_token", "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rocketmq.accessKey": "me"}, "belong together"),
        ({"rocketmq.secretKey": "s"}, "belong together"),
        ({"rocketmq.namespace": "a", "rocketmq.namespaceV2": "b"}, "exclude each other"),
        ({"rocketmq.tls.client.trustCertPath": "ca.pem"}, "has no effect without rocketmq.useTLS=true"),
    ],
)
def test_settings_that_do_not_fit_together_are_told(given: dict[str, str], problem: str) -> None:
    (found,) = problems(ORDERS | given)
    assert problem in found


def test_the_group_for_nobody_in_particular_is_in_no_namespace() -> None:
    team = ORDERS | {"rocketmq.namespace": "team"}
    assert source_options(team, is_stream=False).group_on_wire == "TOOLS_CONSUMER"
    assert source_options(team | {"consumerGroup": "billing"}, is_stream=False).group_on_wire == "team%billing"


# --- the sink


def test_sinks_have_their_own_options() -> None:
    given = SERVER | {
        "topic": "results", "producerGroup": "shop", "sendTimeoutMs": "500", "retryTimesWhenSendFailed": "0",
        "maxMessageSize": "1000", "sendBatchSize": "1", "maxInFlight": "2", "addIdentity": "false",
    }  # fmt: skip
    options = sink_options(given)
    assert (options.topic, options.group, options.send_timeout_s, options.retries) == ("results", "shop", 0.5, 0)
    assert (options.message_bytes_max, options.batch_count_max, options.in_flight_max) == (1000, 1, 2)
    assert not options.adds_identity


def test_all_that_is_wrong_with_a_sink_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        sink_options({"topic": "a b", "sendBatchSize": "0", "sendBatchSise": "5"})
    assert len(raised.value.problems) == 4


def test_a_sink_does_not_write_to_what_only_brokers_write_to() -> None:
    with pytest.raises(ConfigError, match="topic='rmq_sys_wheel_timer': only brokers write to this one"):
        sink_options(SERVER | {"topic": "rmq_sys_wheel_timer"})
