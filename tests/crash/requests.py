"""The requests of the crash test's producers and consumers."""

from __future__ import annotations

from collections.abc import Sequence

from crash.ledger import DELAY_LEVELS_MS, QUEUES, TRANSACTED, Place, body_of, key_of
from rocketline.model.heartbeat import HeartbeatData, ProducerData
from rocketline.model.message import Message
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.model.sys_flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.wire import headers
from rocketline.wire.batch import encode_batch
from rocketline.wire.bodies import encode
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
PULL_MESSAGES = 500
TRANSACTORS_GROUP = "crash-transactors"
_TIME_MAX_MS = 2**62


def message_of(number: int, topic: str, delay_level: int = 0, *, timer_ms: int = 0) -> Message:
    properties = {"KEYS": key_of(number), "UNIQ_KEY": f"{number:032X}", "WAIT": "true", "TAGS": f"tag{number % 3}"}
    if delay_level:
        assert delay_level in DELAY_LEVELS_MS
        properties["DELAY"] = str(delay_level)
    if timer_ms:
        properties["TIMER_DELAY_MS"] = str(timer_ms)
    return Message.of(topic, body_of(number), properties)


def send(messages: Sequence[Message], queue_id: int, born_ms: int) -> Command:
    """One message, or several as a batch."""
    [first, *others] = messages
    header = headers.SendMessageRequestHeaderV2(
        producer_group="crash-producers",
        topic=first.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=2,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=born_ms,
        flag=0,
        properties=format_properties({} if others else first.properties),
        batch=bool(others),
    )
    if others:
        return Command(RequestCode.SEND_BATCH_MESSAGE, headers.encode(header), encode_batch(messages))
    return Command(RequestCode.SEND_MESSAGE_V2, headers.encode(header), first.body)


def recall(topic: str, handle: str) -> Command:
    header = headers.RecallMessageRequestHeader(producer_group="crash-producers", topic=topic, recall_handle=handle)
    return Command(RequestCode.RECALL_MESSAGE, headers.encode(header))


def half(number: int, born_ms: int) -> Command:
    """Half a transaction."""
    message = message_of(number, TRANSACTED)
    header = headers.SendMessageRequestHeader(
        producer_group=TRANSACTORS_GROUP,
        topic=TRANSACTED,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=QUEUES[TRANSACTED],
        queue_id=0,
        sys_flag=TRANSACTION_PREPARED,
        born_timestamp=born_ms,
        flag=0,
        properties=format_properties({**message.properties, "TRAN_MSG": "true", "PGROUP": TRANSACTORS_GROUP}),
    )
    return Command(RequestCode.SEND_MESSAGE, headers.encode(header), message.body)


def end(number: int, log_offset: int, queue_offset: int, *, commits: bool, is_answer: bool) -> Command:
    """The end of a transaction, which the broker asked for or not."""
    header = headers.EndTransactionRequestHeader(
        producer_group=TRANSACTORS_GROUP,
        tran_state_table_offset=queue_offset,
        commit_log_offset=log_offset,
        commit_or_rollback=TRANSACTION_COMMIT if commits else TRANSACTION_ROLLBACK,
        from_transaction_check=is_answer,
        msg_id=f"{number:032X}",
    )
    return Command(RequestCode.END_TRANSACTION, headers.encode(header))


def transactor() -> Command:
    """The heartbeat of who is to be asked about transactions."""
    heartbeat = HeartbeatData(TRANSACTORS_GROUP, [ProducerData(TRANSACTORS_GROUP)], [])
    return Command(RequestCode.HEART_BEAT, body=encode(heartbeat))


def pull(group: str, place: Place, *, hold_ms: int = 0, commit: int | None = None) -> Command:
    """Messages from `place` on; the answer waits up to `hold_ms` for one. `commit` is an offset to remember."""
    header = headers.PullMessageRequestHeader(
        consumer_group=group,
        topic=place.topic,
        queue_id=place.queue_id,
        queue_offset=place.offset,
        max_msg_nums=PULL_MESSAGES,
        sys_flag=SUBSCRIPTION | (SUSPEND if hold_ms else 0) | (0 if commit is None else COMMIT),
        commit_offset=commit or 0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return Command(RequestCode.PULL_MESSAGE, headers.encode(header))


def commit(group: str, place: Place) -> Command:
    header = headers.UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=place.topic, queue_id=place.queue_id, commit_offset=place.offset
    )
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, headers.encode(header))


def committed(group: str, topic: str, queue_id: int) -> Command:
    header = headers.QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
    return Command(RequestCode.QUERY_CONSUMER_OFFSET, headers.encode(header))


def max_offset(topic: str, queue_id: int) -> Command:
    header = headers.GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
    return Command(RequestCode.GET_MAX_OFFSET, headers.encode(header))


def query(topic: str, key: str) -> Command:
    header = headers.QueryMessageRequestHeader(
        topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=_TIME_MAX_MS
    )
    return Command(RequestCode.QUERY_MESSAGE, headers.encode(header))


def view(log_offset: int) -> Command:
    return Command(RequestCode.VIEW_MESSAGE_BY_ID, headers.encode(headers.ViewMessageRequestHeader(offset=log_offset)))


def create_topic(topic: str, queues: int) -> Command:
    header = headers.CreateTopicRequestHeader(
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
    )
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, headers.encode(header))
