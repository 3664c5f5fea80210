"""Which node is pulled from, what it is asked, and what its answer means."""

from __future__ import annotations

import pytest

from rocketline.client.consumer.pull_request import PullNode, PullQuery
from rocketline.client.consumer.pulls import FilterContext, FilterHook, PullPlan, PullStatus, RawPull
from rocketline.client.consumer.subscriptions import MessageSelector, by_sql, parse_subscription
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.errors import ClientError, FlowControlError, RemoteProtocolError, ResponseError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.wire import frame, headers
from rocketline.wire.codes import RequestCode, ResponseCode, release_number
from rocketline.wire.command import Command, response
from rocketline.wire.headers import PullMessageRequestHeader
from rocketline.wire.message_codec import encode_record
from support.clients.consuming import QUEUE, offsets_of

MASTER, SLAVE = PullNode("127.0.0.1:20001", False), PullNode("127.0.0.1:20002", True)
HOST = HostAddress.parse("127.0.0.1:20001")
EXT = {"suggestWhichBrokerId": "0", "nextBeginOffset": "12", "minOffset": "3", "maxOffset": "40"}


@pytest.fixture
def routes() -> ClientRoutes:
    table = ClientRoutes()
    brokers = [BrokerData("c", QUEUE.broker_name, {0: MASTER.address, 1: SLAVE.address})]
    table.apply(QUEUE.topic, TopicRouteData([QueueData(QUEUE.broker_name, 4, 4, 6)], brokers))
    return table


@pytest.fixture
def plan(routes: ClientRoutes) -> PullPlan:
    return PullPlan(routes, "g")


def a_query(
    selector: MessageSelector | str | None = None,
    *,
    offset: int = 10,
    commit_offset: int | None = None,
    suspend_s: float | None = None,
    is_lite: bool = False,
    with_subscription: bool = False,
) -> PullQuery:
    return PullQuery(
        QUEUE,
        offset,
        parse_subscription(QUEUE.topic, selector, sub_version=77),
        commit_offset=commit_offset,
        suspend_s=suspend_s,
        is_lite=is_lite,
        with_subscription=with_subscription,
    )


def asked(command: Command) -> PullMessageRequestHeader:
    return headers.decode(PullMessageRequestHeader, command.ext)


def records(*tags: str | None) -> bytes:
    return b"".join(
        encode_record(
            StoredMessage(
                QUEUE.topic,
                b"x",
                {"TAGS": tag} if tag else {},
                0,
                0,
                QueueOffset(10 + index),
                LogOffset(0),
                0,
                1,
                HOST,
                2,
                HOST,
            )
        )
        for index, tag in enumerate(tags)
    )


def found(body: bytes) -> RawPull:
    return RawPull(PullStatus.FOUND, 20, 0, 20, body)


# --- asking


def test_pull_says_what_java_says(plan: PullPlan) -> None:
    header = asked(plan.requests.command(a_query("A || B", commit_offset=5, suspend_s=15.0), MASTER))
    assert (header.consumer_group, header.topic, header.queue_id) == ("g", QUEUE.topic, QUEUE.queue_id)
    assert (header.queue_offset, header.max_msg_nums, header.max_msg_bytes) == (10, 32, 2_147_483_647)
    assert (header.suspend_timeout_millis, header.sub_version, header.expression_type) == (15_000, 77, "TAG")
    assert (header.subscription, header.target_broker) == (None, QUEUE.broker_name)
    assert (header.sys_flag, header.commit_offset) == (0b11, 5)


def test_lite_pull_has_its_own_code_and_flags_and_never_commits(plan: PullPlan) -> None:
    """C215."""
    command = plan.requests.command(a_query("A", suspend_s=20.0, is_lite=True, with_subscription=True), MASTER)
    assert command.code == RequestCode.LITE_PULL_MESSAGE
    assert (asked(command).sys_flag, asked(command).subscription, asked(command).sub_version) == (22, "A", 0)


@pytest.mark.parametrize(("offset", "flag"), [(7, 1), (0, 0), (-1, 0), (None, 0)])
def test_positive_offset_in_memory_is_committed_with_the_pull(plan: PullPlan, offset: int | None, flag: int) -> None:
    """C162."""
    header = asked(plan.requests.command(a_query(commit_offset=offset), MASTER))
    assert (header.sys_flag, header.commit_offset) == (flag, offset or 0)


def test_suggested_slave_is_pulled_next_without_the_commit_bit(plan: PullPlan) -> None:
    """C161."""
    assert plan.node(QUEUE) == MASTER
    plan.answered(a_query(), MASTER, response(0, ext=EXT | {"suggestWhichBrokerId": "1"}))
    node = plan.node(QUEUE)
    assert node == SLAVE
    assert asked(plan.requests.command(a_query(commit_offset=5, suspend_s=1), node)).sys_flag == 0b10
    plan.answered(a_query(), node, response(ResponseCode.PULL_NOT_FOUND, ext=EXT))
    assert plan.node(QUEUE) == MASTER


def test_master_is_pulled_again_after_the_slave_did_not_answer(plan: PullPlan) -> None:
    plan.answered(a_query(), MASTER, response(0, ext=EXT | {"suggestWhichBrokerId": "1"}))
    plan.forget_suggestion(QUEUE)
    assert plan.node(QUEUE) == MASTER


def test_queue_of_an_unknown_broker_has_no_node(plan: PullPlan) -> None:
    assert plan.node(MessageQueue("T", "nobody", 0)) is None


def test_expression_needs_a_broker_that_knows_it(plan: PullPlan, routes: ClientRoutes) -> None:
    assert asked(plan.requests.command(a_query(by_sql("a > 1")), MASTER)).expression_type == "SQL92"
    routes.learn_version(MASTER.address, release_number(4, 0, 0))
    with pytest.raises(ClientError, match=r"older than 4\.1\.0"):
        plan.requests.command(a_query(by_sql("a > 1")), MASTER)
    assert asked(plan.requests.command(a_query("A"), MASTER)).expression_type == "TAG"


def test_sql_subscription_that_travels_with_its_pull_keeps_its_version(plan: PullPlan) -> None:
    header = asked(plan.requests.command(a_query(by_sql("a > 1"), with_subscription=True), MASTER))
    assert (header.subscription, header.sub_version, header.sys_flag) == ("a > 1", 77, 4)


# --- answers


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, PullStatus.FOUND),
        (19, PullStatus.NO_NEW_MESSAGE),
        (20, PullStatus.NO_MATCHED_MESSAGE),
        (21, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_four_codes_are_answers(plan: PullPlan, code: int, status: PullStatus) -> None:
    raw = plan.answered(a_query(), MASTER, response(code, "a remark", ext=EXT))
    assert (raw.status, raw.next_offset, raw.min_offset, raw.max_offset) == (status, 12, 3, 40)


@pytest.mark.parametrize("code", [1, 16, 23, 24, 25, 26])
def test_other_codes_are_refusals(plan: PullPlan, code: int) -> None:
    with pytest.raises(ResponseError, match=r"PULL_MESSAGE at 127\.0\.0\.1:20001") as caught:
        plan.answered(a_query(), MASTER, response(code, "no"))
    assert caught.value.code == code


def test_flow_control_has_a_class_of_its_own(plan: PullPlan) -> None:
    with pytest.raises(FlowControlError):
        plan.answered(a_query(), MASTER, response(ResponseCode.FLOW_CONTROL, "later"))


def test_answer_without_offsets_is_broken(plan: PullPlan) -> None:
    with pytest.raises(RemoteProtocolError, match="nextBeginOffset"):
        plan.answered(a_query(), MASTER, response(0, ext={"suggestWhichBrokerId": "0"}))


def test_message_whose_tag_has_the_hash_of_another_is_left_out(plan: PullPlan) -> None:
    """C163: Aa and BB have the same hash."""
    result = plan.result(a_query("Aa || C"), found(records("Aa", "BB", None, "C")))
    assert [message.tags for message in result.messages] == ["Aa", "C"]
    assert result.next_offset == 20


def test_no_tags_means_all_messages(plan: PullPlan) -> None:
    assert offsets_of(plan.result(a_query(), found(records("A", None))).messages) == [10, 11]


def test_offset_delta_of_a_static_topic_is_added(plan: PullPlan) -> None:
    raw = plan.answered(a_query(), MASTER, response(0, ext=EXT | {"offsetDelta": "1000"}, body=records("A")))
    result = plan.result(a_query(), raw)
    assert offsets_of(result.messages) == [1010]
    assert (result.messages[0].queue_min_offset, result.messages[0].queue_max_offset) == (3, 40)


def test_filter_hooks_take_messages_out_and_may_fail(routes: ClientRoutes) -> None:
    class Odd:
        def filter_messages(self, context: FilterContext) -> None:
            assert (context.group, context.queue, context.unit_mode) == ("g", QUEUE, True)
            context.messages[:] = [message for message in context.messages if message.queue_offset % 2]

    class Broken:
        def filter_messages(self, context: FilterContext) -> None:
            raise ValueError("no filter today")

    hooks: list[FilterHook] = [Broken(), Odd()]
    plan = PullPlan(routes, "g", filter_hooks=hooks, unit_mode=True)
    assert offsets_of(plan.result(a_query(), found(records("A", "A", "A", "A"))).messages) == [11, 13]


def test_namespace_is_taken_off_topic_and_queue(routes: ClientRoutes) -> None:
    """C225."""
    plan = PullPlan(routes, "N%g", namespace="N")
    queue = MessageQueue("N%T", "broker-a", 1)
    query = PullQuery(queue, 0, parse_subscription("N%T", None, sub_version=0))
    stored = StoredMessage("N%T", b"x", {}, 0, 1, QueueOffset(0), LogOffset(0), 0, 1, HOST, 2, HOST)
    message: ReceivedMessage = plan.result(query, found(encode_record(stored))).messages[0]
    assert (message.topic, message.queue) == ("T", MessageQueue("T", "broker-a", 1))
    assert asked(plan.requests.command(query, MASTER)).consumer_group == "N%g"


@pytest.mark.parametrize("is_lite", [False, True])
@pytest.mark.parametrize("expression", ["*", "A || %d", 'B"opaque":0,"queueOffset":"0"'])
def test_frame_is_the_encoded_command(plan: PullPlan, expression: str, is_lite: bool) -> None:
    subscription = parse_subscription(QUEUE.topic, expression, sub_version=77)
    for offset, commit_offset in ((0, None), (7, 5), (2**40, 2**40)):
        query = PullQuery(
            QUEUE,
            offset,
            subscription,
            commit_offset=commit_offset,
            suspend_s=15,
            is_lite=is_lite,
            with_subscription=True,
        )
        command = plan.requests.command(query, MASTER)
        command.opaque = 42
        template = plan.requests.template(query, MASTER)
        assert plan.requests.frame(template, query, MASTER, 42) == frame.encode(command)
