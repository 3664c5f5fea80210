"""Kept answers: the same bytes as computed ones, and gone as soon as anything changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.model.route import QueueData
from rocketline.nameserver.config import NameServerConfig, load_settings
from rocketline.nameserver.kv_config import KvConfig
from rocketline.nameserver.registration import BrokerRegistration
from rocketline.nameserver.route_answers import RouteAnswers, RouteReplies
from rocketline.nameserver.route_table import RouteTable
from rocketline.settings import Settings
from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command, response
from rocketline.wire.connection import Connection
from support.name_servers.kv_changes import put
from support.name_servers.running import UNUSED_PEER, kept_reply

BODY = b'{"a route":1}'


class Sources:
    """What answers are made from."""

    def __init__(self, folder: Path) -> None:
        self.table = RouteTable()
        self.kv = KvConfig(folder / "kvConfig.json")
        self.settings: Settings[NameServerConfig] = load_settings(environ={})
        self.answers = RouteAnswers(self.table, self.kv, self.settings)
        self.register()

    def register(self, broker_name: str = "B", **fields: bool) -> None:
        offers = {name: QueueData(broker_name, 4, 4, 6) for name in ("T1", "T2")}
        broker = BrokerRegistration(
            cluster="C", broker_name=broker_name, broker_id=1, address=f"{broker_name}:1", offers=offers,
            enable_acting_master=fields.get("enable_acting_master", False),
        )  # fmt: skip
        self.table.register(broker, "connection", 0)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def json_frame(header: str, body: bytes = b"") -> bytes:
    data = header.encode()
    return (4 + len(data) + len(body)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + body


def question(opaque: object = 7, topic: str = "T1", tail: str = '"version":513') -> bytes:
    return json_frame(f'{{"code":105,"extFields":{{"topic":"{topic}"}},"flag":0,"opaque":{opaque},{tail}}}')


def binary_question(opaque: int, topic: str = "T1") -> bytes:
    return frame.encode(Command(105, {"topic": topic}, opaque=opaque, serialize_type=SerializeType.ROCKETMQ))


def ask(replies: RouteReplies, whole: bytes, body: bytes = BODY) -> tuple[bytes | None, bytes]:
    """What the hot path says to a frame, and what the slow one does, which is then offered to be kept."""
    fast = kept_reply(replies, whole)
    request = frame.decode(whole)
    slow = Connection[None]("").reply(request, response(0, body=body))
    if fast is None:
        replies.remember(request, response(0, body=body))
    return fast, slow


class TestAnswers:
    def test_body_comes_in_both_forms(self, sources: Sources) -> None:
        strict, dialect = sources.answers.body("T1", strict=True), sources.answers.body("T1", strict=False)
        assert strict is not None
        assert b'{"1":"B:1"}' in strict
        assert dialect is not None
        assert b'{1:"B:1"}' in dialect

    def test_unknown_topic_has_no_body_until_it_is_registered(self, sources: Sources) -> None:
        assert sources.answers.body("New", strict=True) is None
        sources.table.register_topic("New", sources.table.route("T1").queue_datas)  # type: ignore[union-attr]
        assert sources.answers.body("New", strict=True) is not None

    def test_body_is_encoded_once_for_a_version(self, sources: Sources) -> None:
        assert sources.answers.body("T1", strict=True) is sources.answers.body("T1", strict=True)

    def test_order_configuration_shows_only_if_enabled_and_follows_changes(self, sources: Sources) -> None:
        put(sources.kv, "ORDER_TOPIC_CONFIG", "T1", "B:4")
        assert b"orderTopicConf" not in (sources.answers.body("T1", strict=True) or b"")
        sources.settings.update({"orderMessageEnable": "true"})
        assert b'"orderTopicConf":"B:4"' in (sources.answers.body("T1", strict=True) or b"")
        assert b"orderTopicConf" not in (sources.answers.body("T2", strict=True) or b"")
        put(sources.kv, "ORDER_TOPIC_CONFIG", "T1", "B:8")
        assert b'"orderTopicConf":"B:8"' in (sources.answers.body("T1", strict=True) or b"")

    def test_acting_master_shows_only_if_supported(self, sources: Sources) -> None:
        sources.register("A", enable_acting_master=True)
        assert b'{"0":"A:1"}' not in (sources.answers.body("T1", strict=True) or b"")
        sources.settings.update({"supportActingMaster": "true"})
        assert b'{"0":"A:1"}' in (sources.answers.body("T1", strict=True) or b"")


class TestReplies:
    @pytest.fixture
    def replies(self, sources: Sources) -> RouteReplies:
        return RouteReplies(sources.answers)

    def test_second_question_is_answered_with_the_bytes_of_the_slow_path(self, replies: RouteReplies) -> None:
        assert ask(replies, question(7))[0] is None
        for opaque in (7, 8, 0, 9):
            fast, slow = ask(replies, question(opaque))
            assert fast == slow

    def test_opaque_may_have_all_of_its_32_bits_and_no_more(self, replies: RouteReplies) -> None:
        for opaque, is_fast in ((1_111_111_111, False), (2_147_483_647, True), (1_000_000_000, True)):
            fast, slow = ask(replies, question(opaque))
            assert fast == (slow if is_fast else None)
        for opaque in (2_147_483_648, 9_999_999_999, 99_999_999_999):
            assert kept_reply(replies, question(opaque)) is None

    def test_opaque_of_another_length_is_learnt_on_its_own(self, replies: RouteReplies) -> None:
        ask(replies, question(7))
        assert ask(replies, question(77))[0] is None
        fast, slow = ask(replies, question(99))
        assert fast == slow

    @pytest.mark.parametrize("opaque", [-1, -123456789, -2147483648, '"77"'])
    def test_opaque_that_is_no_plain_number_always_takes_the_slow_path(
        self, replies: RouteReplies, opaque: object
    ) -> None:
        for _ in range(2):
            assert ask(replies, question(opaque))[0] is None

    @pytest.mark.parametrize("opaque", ["07", "+7", " 7", "7 ", "-7", "7e", "", "1.", "٣"])
    def test_kept_reply_is_not_given_for_what_is_not_a_number_as_json_writes_it(
        self, replies: RouteReplies, opaque: str
    ) -> None:
        size = len(opaque.encode())
        ask(replies, question("7" * size) if size else question(7))
        assert kept_reply(replies, question(opaque)) is None

    def test_question_that_differs_in_anything_else_is_another_question(self, replies: RouteReplies) -> None:
        ask(replies, question(7))
        longer = json_frame(question(7)[8:].decode() + " ")
        for other in (question(7, topic="T2"), question(7, tail='"version":317'), longer):
            assert kept_reply(replies, other) is None

    def test_run_of_known_questions_is_answered_in_one_call(self, replies: RouteReplies) -> None:
        ask(replies, question(7))
        run = question(1) + question(2) + question(3)
        for rest in (b"", b"\0\0", question(9, topic="T2"), question(4)[:-1], b"\0\0\0\0" * 8, b"\xff" * 64):
            end, answered, _ = replies.answer(UNUSED_PEER, b"before" + run + rest, 6, 1 << 20)
            assert end == 6 + len(run)
            assert answered == b"".join(kept_reply(replies, question(n)) or b"" for n in (1, 2, 3))

    def test_run_ends_once_the_replies_are_many_enough(self, replies: RouteReplies) -> None:
        ask(replies, question(7))
        one = len(kept_reply(replies, question(1)) or b"")
        end, answered, _ = replies.answer(UNUSED_PEER, question(1) * 10, 0, one + 1)
        assert (end, len(answered)) == (2 * len(question(1)), 2 * one)

    @pytest.mark.parametrize(
        "header",
        [
            '{"code":105,"extFields":{"opaque":0,"topic":"T1"}}',
            '{"code":105,"extFields":{"opaque":5,"topic":"T1"},"opaque":5}',
            '{"opaque":5,"code":105,"extFields":{"topic":"T1"},"opaque":5}',
            '{"x\\"opaque":5,"code":105,"extFields":{"topic":"T1"},"opaque":5}',
            '{"code":105,"extFields":{"topic":"T1"},"opaque":5}',
            '{"code":105,"extFields":{"topic":"T1"},"version":7}',
        ],
    )
    def test_opaque_that_is_not_plainly_the_opaque_is_never_kept(self, replies: RouteReplies, header: str) -> None:
        for _ in range(2):
            assert ask(replies, json_frame(header))[0] is None

    def test_opaque_in_the_body_is_not_the_opaque(self, replies: RouteReplies) -> None:
        whole = json_frame('{"code":105,"extFields":{"topic":"T1"}}', b'"opaque":0,')
        for _ in range(2):
            assert ask(replies, whole)[0] is None

    def test_answer_to_another_frame_than_the_last_missed_is_not_kept(self, replies: RouteReplies) -> None:
        """A frame too big for the hot path is answered after a small one was missed."""
        assert kept_reply(replies, question(7)) is None
        replies.remember(frame.decode(question(7, topic="T2")), response(0, body=BODY))
        assert kept_reply(replies, question(7)) is None
        assert kept_reply(replies, question(7, topic="T2")) is None

    def test_missed_frame_that_cannot_be_decoded_harms_nobody_else(self, replies: RouteReplies) -> None:
        assert kept_reply(replies, json_frame('{"opaque":7,"code":{}}')) is None
        replies.remember(frame.decode(question(7)), response(0, body=BODY))
        assert kept_reply(replies, question(7)) is None

    def test_remember_without_a_missed_frame_keeps_nothing(self, replies: RouteReplies) -> None:
        replies.remember(frame.decode(question(7)), response(0, body=BODY))
        assert kept_reply(replies, question(7)) is None

    def test_binary_question_is_answered_with_the_bytes_of_the_slow_path(self, replies: RouteReplies) -> None:
        for opaque, is_fast in ((7, False), (8, True), (77, False), (-1, True), (-2_147_483_648, False)):
            fast, slow = ask(replies, binary_question(opaque))
            assert fast == (slow if is_fast else None)

    def test_binary_question_that_differs_in_anything_else_is_another_question(self, replies: RouteReplies) -> None:
        ask(replies, binary_question(7))
        assert kept_reply(replies, binary_question(7, "T2")) is None
        assert kept_reply(replies, question(7)) is None

    @pytest.mark.parametrize("size", range(8, 30))
    def test_binary_frame_that_is_cut_short_is_left_to_the_decoder(self, replies: RouteReplies, size: int) -> None:
        ask(replies, binary_question(7))
        whole = binary_question(7)[8:size]
        assert (
            kept_reply(replies, (4 + len(whole)).to_bytes(4, "big") + b"\1\0\0" + bytes([len(whole)]) + whole) is None
        )

    def test_every_change_drops_what_is_kept(self, sources: Sources, replies: RouteReplies) -> None:
        changes: list[Callable[[], object]] = [
            lambda: sources.table.delete_topic("T2"),
            lambda: put(sources.kv, "ORDER_TOPIC_CONFIG", "T1", "B:4"),
            lambda: sources.settings.update({"orderMessageEnable": "true"}),
        ]
        for change in changes:
            ask(replies, question(7))
            assert kept_reply(replies, question(7)) is not None
            change()
            assert kept_reply(replies, question(7)) is None

    def test_change_between_question_and_answer_keeps_nothing(self, sources: Sources, replies: RouteReplies) -> None:
        assert kept_reply(replies, question(7)) is None
        sources.table.delete_topic("T2")
        replies.remember(frame.decode(question(7)), response(0, body=BODY))
        assert kept_reply(replies, question(7)) is None

    def test_unchanged_registration_drops_nothing(self, sources: Sources, replies: RouteReplies) -> None:
        ask(replies, question(7))
        sources.register()
        assert kept_reply(replies, question(7)) is not None

    def test_bound_on_replies_drops_all_and_starts_again(self, sources: Sources) -> None:
        replies = RouteReplies(sources.answers, replies_max=2)
        for topic in ("T1", "T2", "T3"):
            ask(replies, question(7, topic))
        assert [kept_reply(replies, question(7, t)) is not None for t in ("T1", "T2", "T3")] == [False, False, True]

    def test_bound_on_bytes_drops_all_and_starts_again(self, sources: Sources) -> None:
        replies = RouteReplies(sources.answers, reply_bytes_max=3000)
        for topic in ("T1", "T2"):
            ask(replies, question(7, topic), b"x" * 2000)
        assert [kept_reply(replies, question(7, t)) is not None for t in ("T1", "T2")] == [False, True]


def test_encoded_routes_have_a_bound_in_bytes(sources: Sources) -> None:
    size = len(sources.answers.body("T1", strict=True) or b"")
    answers = RouteAnswers(sources.table, sources.kv, sources.settings, body_bytes_max=2 * size)
    for strict in (True, False):
        for topic in ("T1", "T2"):
            assert answers.body(topic, strict=strict) == sources.answers.body(topic, strict=strict)
            assert 0 < answers.kept_bytes <= 2 * size
    tiny = RouteAnswers(sources.table, sources.kv, sources.settings, body_bytes_max=size - 1)
    assert tiny.body("T1", strict=True) == sources.answers.body("T1", strict=True)
    assert tiny.kept_bytes == 0
