"""The check service: every `transactionCheckInterval` a round over the half messages that wait.

Java: TransactionalMessageCheckService. How far it is are the offsets of the group CID_RMQ_SYS_TRANS. They never run
ahead of the disk: one is committed once the copies that were made before it are safe in the log. So a crash may have a
half message asked for twice, and none forgotten.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.transactions.check_round import CheckRound, EndedBefore, Progress, TransactionTools
from rocketline.broker.transactions.questions import Questions
from rocketline.model import names
from rocketline.store.filesystem import told

_GROUP = names.TRANSACTION_GROUP


class TransactionChecks:
    """Checks half messages for as long as `run` is left to. It costs nothing while there are none."""

    def __init__(
        self, tools: TransactionTools, offsets: ConsumerOffsets, questions: Questions, flusher: Flusher
    ) -> None:
        self._tools, self._offsets, self._questions, self._flusher = tools, offsets, questions, flusher
        self._before = EndedBefore()
        self._known: Progress | None = None
        """What is committed."""
        self._at: Progress | None = None
        """How far rounds are, if that is not committed yet."""
        self._unsafe: tuple[Progress, int] | None = None
        """To be committed once the log is flushed up to there."""

    async def run(self) -> None:
        """Round after round, until cancelled."""
        with suppress(OSError):  # the first round meets it, too
            self._begin()
        while True:
            await asyncio.sleep(max(self._tools.settings.value.transaction_check_interval, 1) / 1000)
            try:
                await self.check()
            except OSError as error:
                self._tools.log.error("half messages not checked", told(error))

    async def check(self) -> None:
        """One round. Raises `OSError`."""
        tools = self._tools
        self.commit_safe()
        begin = self._begin()
        if self._at is None:
            self._commit(begin)  # should anybody else have done so meanwhile
        if begin.half >= tools.store.max_offset(names.HALF_TOPIC, 0):
            return
        self._questions.begin_round()
        round_ = CheckRound(tools, begin, self._before)
        try:
            for copies in round_.steps():
                self._moved(round_.progress)
                if copies:
                    await self._flushed()
                    await self._questions.ask(copies)
                await asyncio.sleep(0)
        finally:
            self._moved(round_.progress)
            if self._unsafe is not None:
                self._flusher.flush()  # a few pages alone would wait for ten seconds

    def _begin(self) -> Progress:
        """Where rounds are. What was committed is read once, because others may commit for this group, too; and it
        counts only as far as the queues go: Apache's broker saves it ahead of the log, and after a power cut the places
        behind are given out again."""
        if self._known is None:
            half, op = (
                min(self._offsets.query(_GROUP, topic, 0), self._tools.store.max_offset(topic, 0))
                for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC)
            )
            self._known = Progress(half, op)
        return self._at or self._known

    async def _flushed(self) -> None:
        """With SYNC_FLUSH, wait until what was appended can be read: the answer to a question refers to it."""
        store = self._tools.store
        if store.is_sync and store.flushed_log_offset < store.max_log_offset:
            flushed = asyncio.Event()
            self._flusher.wait(store.max_log_offset, lambda _: flushed.set())
            await flushed.wait()

    # --- progress

    def _moved(self, progress: Progress) -> None:
        self._at = progress
        self.commit_safe()

    def commit_safe(self) -> None:
        """Commit how far rounds were when the log ended where it is flushed to by now."""
        store = self._tools.store
        flushed = store.flushed_log_offset
        if self._unsafe is not None and flushed >= self._unsafe[1]:
            self._commit(self._unsafe[0])
            self._unsafe = None
        if self._unsafe is None and self._at is not None:
            if flushed >= store.max_log_offset:
                self._commit(self._at)
            else:
                self._unsafe = self._at, store.max_log_offset
                self._flusher.wait(store.max_log_offset, lambda _: self.commit_safe(), messages=0)

    def _commit(self, progress: Progress) -> None:
        self._known = progress
        for topic, offset in ((names.HALF_TOPIC, progress.half), (names.OP_HALF_TOPIC, progress.op)):
            if self._offsets.offsets_of(_GROUP, topic).get(0, -1) != offset:
                self._offsets.commit(_GROUP, topic, 0, offset)
        if progress == self._at:
            self._at = None
