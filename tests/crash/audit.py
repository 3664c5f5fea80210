"""Reads the whole store through the broker and compares it with what producers and consumers know."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random
from typing import TypeVar

from crash import requests
from crash.ledger import DELAYED, TIMED, TRANSACTED, Ledger, Place, key_of, number_of
from crash.traffic import REQUEST_S, Reader, committed_offset
from rocketline.net.remote import Remote
from rocketline.wire.bodies import codec
from rocketline.wire.bodies.groups import SubscriptionGroupTable
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records

_AUDITORS = "crash-auditors"
_SAMPLE = 100
_INDEX_S = 20.0
_INDEX_POLL_S = 0.05
_Item = TypeVar("_Item")


class Audit:
    """One look at a broker while nobody sends. Everything wrong goes to the ledger's problems."""

    def __init__(self, remote: Remote, ledger: Ledger, random: Random) -> None:
        self._remote, self._ledger, self._random = remote, ledger, random
        self._where: dict[int, Place] = {}
        self.messages = 0

    async def run(self, readers: list[Reader]) -> None:
        ledger = self._ledger
        committed = set(ledger.committed)  # and meanwhile questions are answered
        topics = await self._check_tables()
        queues = {(name, queue_id) for name in ledger.topics & topics.keys() for queue_id in range(topics[name])}
        depths = {queue: await self._check_queue(*queue) for queue in sorted(queues)}
        for place, number in ledger.places.items():
            if place.offset >= depths.get((place.topic, place.queue_id), 0):
                ledger.report(f"message {number} was at {place}, and is gone")
        if lost := committed - self._where.keys():
            ledger.report(f"{len(lost)} commits were acknowledged and are gone, such as that of {min(lost)}")
        for reader in readers:
            await committed_offset(self._remote, reader, ledger)
        if not ledger.problems:  # else there is no point in waiting for an index
            await self._check_log_offsets()
            await self._check_index()

    async def _check_tables(self) -> dict[str, int]:
        """What was created exists. The queues of each topic."""
        topics = codec.decode(TopicConfigTable, (await self._ask(Command(RequestCode.GET_ALL_TOPIC_CONFIG))).body)
        request = Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        groups = codec.decode(SubscriptionGroupTable, (await self._ask(request)).body)
        for kind, known, found in (
            ("topic", self._ledger.topics, topics.topic_config_table),
            ("group", self._ledger.groups, groups.subscription_group_table),
        ):
            if lost := known - found.keys():
                self._ledger.report(f"lost of kind {kind}: {sorted(lost)}")
        return {name: config.read_queue_nums for name, config in topics.topic_config_table.items()}

    async def _check_queue(self, topic: str, queue_id: int) -> int:
        """Read it from its first message to its last; how many there are."""
        offset = 0
        while True:
            place = Place(topic, queue_id, offset)
            answer = await self._remote.request(requests.pull(_AUDITORS, place), REQUEST_S)
            if answer.code != ResponseCode.SUCCESS:
                break
            for message in decode_records(answer.body, check_crc=True):
                number = self._ledger.see(message, Place(topic, queue_id, offset), "the audit")
                if number is not None:
                    self._check_once(number, Place(topic, queue_id, offset))
                offset += 1
        if int(answer.ext.get("maxOffset", -1)) != offset:
            self._ledger.report(f"{place} is answered {answer.code}: {answer.remark}, {answer.ext}")
        self.messages += offset
        return offset

    def _check_once(self, number: int, place: Place) -> None:
        """A delayed message may come again: how far delivery was is saved now and then. So may one that is committed
        while its producer is asked."""
        before = self._where.setdefault(number, place)
        if before != place and place.topic not in (DELAYED, TIMED, TRANSACTED):
            self._ledger.report(f"message {number} was sent once and is both at {before} and at {place}")

    async def _check_log_offsets(self) -> None:
        for number, log_offset in self._sample(self._ledger.log_offsets.items()):
            answer = await self._remote.request(requests.view(log_offset), REQUEST_S)
            found = [number_of(message.body) for message in decode_records(answer.body)] if answer.code == 0 else []
            if found != [number]:
                self._ledger.report(f"log offset {log_offset} of message {number} gives {answer.remark} {found}")

    async def _check_index(self) -> None:
        """Sampled messages are found by their keys, once the index is rebuilt."""
        places = [(number, place.topic) for place, number in self._ledger.places.items()]
        deadline_s = self._remote.clock.monotonic() + _INDEX_S
        for number, topic in self._sample(places):
            while number not in await self._found_by_key(topic, number):
                if self._remote.clock.monotonic() > deadline_s:
                    self._ledger.report(f"message {number} of {topic} is not found by its key")
                    break
                await asyncio.sleep(_INDEX_POLL_S)

    async def _found_by_key(self, topic: str, number: int) -> set[int | None]:
        answer = await self._remote.request(requests.query(topic, key_of(number)), REQUEST_S)
        return {number_of(message.body) for message in decode_records(answer.body)} if answer.code == 0 else set()

    def _sample(self, items: Collection[_Item]) -> list[_Item]:
        return self._random.sample(list(items), min(_SAMPLE, len(items)))

    async def _ask(self, request: Command) -> Command:
        answer = await self._remote.request(request, REQUEST_S)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer
