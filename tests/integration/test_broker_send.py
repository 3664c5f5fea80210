"""What producers may send, and what they are told, over real connections."""

from __future__ import annotations

import pytest

from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import Message
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_messages
from support.brokers.messages import create_topic, send, try_send
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2


async def view(peer: BrokerPeer, answer: Command) -> Command:
    """The stored message that a send's answer names."""
    log_offset = OffsetMessageId.parse(answer.ext["msgId"]).log_offset
    return await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(log_offset)})


async def test_answer_to_a_message_tells_its_place_and_region() -> None:
    """S126."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await send(peer, UNIQ_KEY="u1")
        assert len(answer.ext["msgId"]) == 32
        assert answer.ext | {"msgId": ""} == {
            "msgId": "",
            "queueId": "0",
            "queueOffset": "0",
            "transactionId": "u1",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }


async def test_queue_offsets_grow_by_one_each() -> None:
    """S127."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answers = [await send(peer) for _ in range(5)]
        assert [answer.ext["queueOffset"] for answer in answers] == ["0", "1", "2", "3", "4"]


async def test_queue_of_minus_one_is_any_write_queue() -> None:
    """S128."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=4)
        chosen = {(await send(peer, queue_id=-1)).ext["queueId"] for _ in range(64)}
        assert chosen == {"0", "1", "2", "3"}


async def test_queue_that_the_topic_does_not_have_is_refused() -> None:
    """S129."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=4)
        answer = await try_send(peer, queue_id=4)
        assert (answer.code, "queue 4" in str(answer.remark)) == (29, True)


async def test_body_may_have_four_mebibytes_and_no_byte_more() -> None:
    """S130."""
    async with broker(mappedFileSizeCommitLog=str(2**24)) as running, BrokerPeer(running.address) as peer:
        refused = await try_send(peer, bytes(4 * 2**20 + 1))
        assert (refused.code, "maxMessageSize" in str(refused.remark)) == (13, True)
        await send(peer, bytes(4 * 2**20))


async def test_message_without_a_body_is_refused() -> None:
    """S131."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await try_send(peer, b"")
        assert (answer.code, "body" in str(answer.remark)) == (1, True)


async def test_properties_of_more_than_32767_bytes_are_refused() -> None:
    """S132."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await try_send(peer, properties={"KEYS": "x" * 32768})
        assert (answer.code, "32767" in str(answer.remark)) == (13, True)


@pytest.mark.parametrize(
    "topic",
    ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "rmq_sys_wheel_timer"],
)
async def test_topics_of_the_broker_itself_are_closed_to_clients(topic: str) -> None:
    """S133; the last one poisons Apache's broker."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        assert (await try_send(peer, topic=topic)).code == 16


@pytest.mark.parametrize("topic", ["x" * 128, "a.b", "a*", "a b", ""])
async def test_names_that_no_topic_may_have_are_refused(topic: str) -> None:
    """S134."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await try_send(peer, topic=topic)
        assert (answer.code, bool(answer.remark)) == (29, True)


async def test_message_without_a_unique_key_gets_one() -> None:
    """S135."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await send(peer)
        [stored] = decode_messages((await view(peer, answer)).body)
        assert len(stored.properties["UNIQ_KEY"]) in (32, 56)
        assert stored.properties["UNIQ_KEY"] == answer.ext["transactionId"]


async def test_stored_message_names_its_cluster_and_no_pop_checkpoint() -> None:
    """S136."""
    async with broker(brokerClusterName="C") as running, BrokerPeer(running.address) as peer:
        answer = await send(peer, POP_CK="forged", color="red")
        [stored] = decode_messages((await view(peer, answer)).body)
        assert stored.properties["CLUSTER"] == "C"
        assert stored.properties["color"] == "red"
        assert "POP_CK" not in stored.properties


async def test_broker_that_may_only_be_read_refuses_ordered_topics_alone() -> None:
    """S138."""
    async with broker(brokerPermission="4") as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T")
        ext = {"topic": "O", "defaultTopic": "", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        more = {"topicFilterType": "SINGLE_TAG", "order": "true"}
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext | more)).code == 0
        assert (await try_send(peer, topic="O")).code == 16
        assert (await try_send(peer, topic="T")).code == 0


async def test_broker_that_does_not_accept_yet_says_so() -> None:
    """S139."""
    clock = FakeClock()
    async with broker(clock=clock) as running, BrokerPeer(running.address) as peer:
        change = f"startAcceptSendRequestTimeStamp={clock.wall_ms() + 1000}".encode()
        assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=change)).code == 0
        assert (await try_send(peer)).code == 1
        clock.advance(1.0)
        assert (await try_send(peer)).code == 0


async def test_both_forms_of_the_header_give_the_same() -> None:
    """S140."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        long = await send(peer, b"one", UNIQ_KEY="u", TAGS="A")
        short = await peer.request(send_v2(b"one", properties="UNIQ_KEY\x01u\x02TAGS\x01A\x02"), 20)
        [first] = decode_messages((await view(peer, long)).body)
        [second] = decode_messages((await view(peer, short)).body)
        assert short.ext.keys() == long.ext.keys()
        assert (first.properties, first.body, first.flag) == (second.properties, second.body, second.flag)
        assert second.queue_offset == first.queue_offset + 1


async def test_compacted_topic_takes_no_message_without_keys() -> None:
    """S141."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        ext = {"topic": "T", "defaultTopic": "", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        more = {"topicFilterType": "SINGLE_TAG", "attributes": "+cleanup.policy=COMPACTION"}
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext | more)).code == 0
        assert (await try_send(peer)).code == 13
        assert (await try_send(peer, properties={"KEYS": "k"})).code == 0


async def test_batch_takes_consecutive_offsets_and_gives_an_id_for_each() -> None:
    """S142."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await send(peer)
        members = [Message.of("T", b"m%d" % n, {"UNIQ_KEY": f"u{n}", "TAGS": "A"}) for n in range(10)]
        answer = await peer.request(batch(members), 20)
        assert (answer.code, answer.ext["queueOffset"]) == (0, "1")
        ids = answer.ext["msgId"].split(",")
        assert len(ids) == len(set(ids)) == 10
        places = [str(OffsetMessageId.parse(message_id).log_offset) for message_id in ids]
        stored = [
            decode_messages((await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place})).body)[0]
            for place in places
        ]
        assert [message.queue_offset for message in stored] == list(range(1, 11))
        assert [message.body for message in stored] == [member.body for member in members]
        assert stored[0].properties == members[0].properties, "a member has only its own"
        assert "transactionId" not in answer.ext


async def test_batch_that_is_delayed_or_for_a_retry_topic_is_refused() -> None:
    """S143."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        plain = [Message.of("T", b"x", {"UNIQ_KEY": "u"})]
        assert (await peer.request(batch(plain, properties="DELAY\x013\x02"), 20)).code == 13
        assert (await peer.request(batch(plain, topic="%RETRY%g"), 20)).code == 13


@pytest.mark.parametrize(
    "body", [b"\0\0\0\5", b"\xff" * 40, bytes(22) + b"\0", b"\0\0\0\x16" + bytes(13) + b"\x7f" + bytes(4)]
)
async def test_batch_that_cannot_be_taken_apart_is_refused_and_nothing_of_it_is_stored(body: bytes) -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T")
        answer = await peer.request(send_v2(body, {"m": "true"}), 20)
        assert (answer.code, bool(answer.remark)) == (1, True)
        assert running.storage.store.max_log_offset == 0


async def test_batch_of_more_messages_than_any_client_packs_is_refused() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.request(send_v2(encode_batch([Message("T", b"x")]) * 32_768, {"m": "true"}), 20)
        assert (answer.code, "at most 32767" in str(answer.remark)) == (13, True)


async def test_record_bigger_than_a_log_file_is_refused() -> None:
    """Apache answers 0 and the message is gone."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await send(peer, b"before")
        answer = await try_send(peer, bytes(2**20))
        assert (answer.code, "mappedFileSizeCommitLog" in str(answer.remark)) == (13, True)
        assert (await send(peer, b"after")).ext["queueOffset"] == "1"


async def test_delay_level_that_is_no_number_is_refused() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        assert (await try_send(peer, properties={"DELAY": "abc"})).code == 1


async def test_oneway_send_is_stored_and_not_answered() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T")
        await peer.send_oneway(send_v2(b"silent"), 20)
        await peer.send_oneway(send_v2(b"", properties=""), 20)
        assert (await send(peer, b"heard")).ext["queueOffset"] == "1"


async def test_full_disk_refuses_messages_and_says_so() -> None:
    """S227."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T")
        running.storage.store.is_disk_full = True
        for answer in (await try_send(peer), await peer.request(send_v2(), 20)):
            assert (answer.code, "diskSpaceWarningLevelRatio" in str(answer.remark)) == (14, True)
        running.storage.store.is_disk_full = False
        await send(peer)


def batch(members: list[Message], *, properties: str = "", topic: str = "T") -> Command:
    request = send_v2(encode_batch(members), {"m": "true", "b": topic}, properties=properties)
    request.code = RequestCode.SEND_BATCH_MESSAGE
    return request
