"""CHECK_TRANSACTION_STATE (39): a member of a producer's group is asked what became of a transaction.

Java: AbstractTransactionalMessageCheckListener, Broker2Client.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.storing.real_place import real_place
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model import names, property_names
from rocketline.model.message import StoredMessage
from rocketline.net.channel import Channel
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import encode_record

_TRIES: Final = 3
"""Members that are looked at before one is asked that does not read just now."""
_TIMEOUT_S: Final = 3.0
_PATIENCE_S: Final = 15.0
"""A round waits no longer than that in all, however many members do not read: others are to be asked, too."""


class Questions:
    """Asks one member of each producer group in turn. One that takes no byte for three seconds is not waited for again
    until it does: a question that is not asked counts, too, as at Apache, and the next round asks another."""

    def __init__(self, producers: ProducerRegistry, broker_name: str, clock: Clock, log: Throttle) -> None:
        self._producers, self._broker_name, self._clock, self._log = producers, broker_name, clock, log
        self._turn = 0
        self._deaf: set[Channel] = set()
        self._patience_s = 0.0

    def begin_round(self) -> None:
        """Some may have begun to read since."""
        self._deaf = {channel for channel in self._deaf if channel.is_congested}
        self._patience_s = _PATIENCE_S

    async def ask(self, copies: Iterable[StoredMessage]) -> None:
        """Ask about half messages; wait only while a connection cannot take it."""
        for copy in copies:
            group = copy.properties.get(property_names.PGROUP, "")
            channel = self._member(group)
            if channel is None:
                self._log.warning("transaction not asked for", "no producer of its group is connected", group=group)
                continue
            try:
                await self._send(channel, question(copy, self._broker_name))
            except RocketlineError as error:
                self._deaf.add(channel)
                self._log.warning("transaction not asked for", str(error), group=group)

    async def _send(self, channel: Channel, asked: Command) -> None:
        begin_s = self._clock.monotonic()
        try:
            await channel.send_oneway(asked, min(_TIMEOUT_S, self._patience_s))
        finally:
            self._patience_s = max(0.0, self._patience_s - (self._clock.monotonic() - begin_s))

    def _member(self, group: str) -> Channel | None:
        """The next one that reads; else the last of those looked at that is there at all."""
        members = self._producers.clients(group)
        found = None
        for _ in range(min(_TRIES, len(members))):
            self._turn += 1
            channel = next(islice(members, self._turn % len(members), None))
            if channel.is_closed or channel in self._deaf:
                continue
            found = channel
            if not channel.is_congested:
                break
        return found


def question(copy: StoredMessage, broker_name: str) -> Command:
    """The request: the copy's places in its header, and in its body the message as it will be, which it is then."""
    place = real_place(copy)
    assert place is not None, "a half message without a real topic is not asked for"
    unique_key = copy.properties.get(property_names.UNIQ_KEY)
    header = headers.CheckTransactionStateRequestHeader(
        topic=names.HALF_TOPIC,
        tran_state_table_offset=copy.queue_offset,
        commit_log_offset=copy.log_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=copy.offset_message_id,
        target_broker=broker_name,
    )
    copy.topic, copy.queue_id = place
    return Command(RequestCode.CHECK_TRANSACTION_STATE, headers.encode(header), encode_record(copy))
