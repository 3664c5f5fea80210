"""Offsets: where queues begin and end, where groups are, and where they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketline.admin.calls import Calls, together
from rocketline.admin.views import BrokerAddress
from rocketline.errors import ClientError, OffsetNotFoundError, ResponseError
from rocketline.model.queue import MessageQueue
from rocketline.wire import headers
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.offsets import ResetOffsetBody
from rocketline.wire.bodies.stats import ConsumeStats, TopicStatsTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    BoundaryType,
    GetConsumeStatsRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

_TO_THE_END: Final = -1
"""The time that means the end of a queue."""


class Offsets:
    """`admin.offsets`. A question about a queue goes to its master; one that is not known costs a look at the route."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # --- of a queue

    async def max(self, queue: MessageQueue) -> int:
        """The offset that the next message will get. Java: maxOffset."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._calls.ask(await self._calls.master(queue), RequestCode.GET_MAX_OFFSET, header)
        return headers.decode(GetMaxOffsetResponseHeader, answer.ext).offset

    async def min(self, queue: MessageQueue) -> int:
        """The offset of the oldest message. Java: minOffset."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._calls.ask(await self._calls.master(queue), RequestCode.GET_MIN_OFFSET, header)
        return headers.decode(GetMinOffsetResponseHeader, answer.ext).offset

    async def at_time(self, queue: MessageQueue, time_ms: int, boundary: BoundaryType = BoundaryType.LOWER) -> int:
        """The offset of the first message that was stored at this time or later; with UPPER, of the last until then.

        Brokers of 4.x know LOWER only. Java: searchOffset.
        """
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms, boundary_type=boundary
        )
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await self._calls.ask(await self._calls.master(queue), code, header)
        return headers.decode(SearchOffsetResponseHeader, answer.ext).offset

    async def earliest_store_ms(self, queue: MessageQueue) -> int | None:
        """When the oldest message was stored; None if there is none. Java: earliestMsgStoreTime."""
        header = GetEarliestMsgStoretimeRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        answer = await self._calls.ask(await self._calls.master(queue), code, header)
        time_ms = headers.decode(GetEarliestMsgStoretimeResponseHeader, answer.ext).timestamp
        return time_ms if time_ms >= 0 else None

    # --- of a group

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group will consume next; None if it has none yet."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        try:
            answer = await self._calls.ask(await self._calls.master(queue), RequestCode.QUERY_CONSUMER_OFFSET, header)
        except OffsetNotFoundError:
            return None
        return headers.decode(QueryConsumerOffsetResponseHeader, answer.ext).offset

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Write a group's offset. Consumers that run do not hear of it and overwrite it: `reset` is for those."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        await self._calls.ask(await self._calls.master(queue), RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def clone(self, source: str, target: str, topic: str) -> dict[MessageQueue, int]:
        """Give a group the offsets of another in a topic; the new offsets. Java: cloneGroupOffset.

        Raises `ResponseError` if the target group does not exist.
        """
        header = GetConsumeStatsRequestHeader(consumer_group=source, topic=topic)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda broker: self._calls.ask(broker.address, RequestCode.GET_CONSUME_STATS, header),
        )
        offsets = {
            queue: at.consumer_offset
            for answer in answers.values()
            for queue, at in decode_answer(ConsumeStats, answer.body).offset_table.items()
        }
        return await self._commit_all(target, offsets)

    # --- resets

    async def reset_to_time(
        self, group: str, topic: str, time_ms: int, *, only_back: bool = False
    ) -> dict[MessageQueue, int]:
        """Send a group to the first messages that were stored at this time or later; the new offsets.

        Consumers that run go there too. With `only_back` no queue is sent forward, if brokers leave the reset to their
        clients (useServerSideResetOffset=false); those that do it themselves do not look. Java: resetOffsetByTimestamp.
        """

        async def reset(broker: BrokerAddress) -> dict[MessageQueue, int]:
            header = ResetOffsetRequestHeader(group=group, topic=topic, timestamp=time_ms, is_force=not only_back)
            try:
                return await self._reset(broker, header)
            except ResponseError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return await self._commit_at_time(broker, group, topic, time_ms)

        answers = await self._calls.each(await self._calls.holders(topic), reset)
        return {queue: offset for table in answers.values() for queue, offset in table.items()}

    async def reset_to_end(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Skip everything that is there now; the new offsets. Java: skipAccumulatedMessage."""
        return await self.reset_to_time(group, topic, _TO_THE_END)

    async def reset_to_begin(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Send a group to the oldest message of each queue; the new offsets."""
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda broker: self._calls.ask(broker.address, RequestCode.GET_TOPIC_STATS_INFO, header),
        )
        begins = {
            queue: held.min_offset
            for answer in answers.values()
            for queue, held in decode_answer(TopicStatsTable, answer.body).offset_table.items()
        }
        await together(self.reset_to_offset(group, queue, offset) for queue, offset in begins.items())
        return begins

    async def reset_to_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Send a group to an offset of one queue. Raises `ResponseError` if that is outside of it.

        Consumers that run go there too, if the broker resets by itself (useServerSideResetOffset, Apache's default
        since 5.0); else `ClientError` says that it did not. Java: resetOffsetByQueueId.
        """
        address = await self._calls.master(queue)
        header = ResetOffsetRequestHeader(
            group=group, topic=queue.topic, queue_id=queue.queue_id, offset=offset, timestamp=0, is_force=True
        )
        try:
            answer = await self._calls.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except ResponseError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            await self.commit(group, queue, offset)
            return
        made = decode_answer(ResetOffsetBody, answer.body).offset_table
        if (reached := made.get(queue)) != offset:
            raise ClientError(
                f"queue {queue.broker_name}:{queue.queue_id} of topic {queue.topic!r} is reset to {reached}, not to "
                f"{offset}: broker {queue.broker_name} leaves resets to its clients, which know times only "
                "(set useServerSideResetOffset=true there)"
            )

    async def _reset(self, broker: BrokerAddress, header: ResetOffsetRequestHeader) -> dict[MessageQueue, int]:
        answer = await self._calls.ask(broker.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        return decode_answer(ResetOffsetBody, answer.body).offset_table

    async def _commit_at_time(
        self, broker: BrokerAddress, group: str, topic: str, time_ms: int
    ) -> dict[MessageQueue, int]:
        """What a broker does not do for a group that is offline. Java: resetOffsetByTimestampOld."""
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        answer = await self._calls.ask(broker.address, RequestCode.GET_TOPIC_STATS_INFO, header)
        held = decode_answer(TopicStatsTable, answer.body).offset_table
        if time_ms == _TO_THE_END:
            offsets = {queue: at.max_offset for queue, at in held.items()}
        else:
            found = await together(self.at_time(queue, time_ms) for queue in held)
            offsets = dict(zip(held, found, strict=True))
        return await self._commit_all(group, offsets)

    async def _commit_all(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        await together(self.commit(group, queue, offset) for queue, offset in offsets.items())
        return dict(sorted(offsets.items()))
