"""What a push consumer writes down of the calls of its handlers if it traces. Java: ConsumeMessageTraceHookImpl."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.runtime.identity import id_address
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.trace.buffer import TraceBuffer
from rocketline.client.trace.records import NOTHING, RETURN_TYPES, encode_begun, encode_consumed
from rocketline.model import property_names
from rocketline.wire.unique_id import UniqueIdGenerator


@dataclass(slots=True)
class _Call:
    """A call of a handler that was written down when it began."""

    request_id: str
    begun_ms: int
    messages: list[tuple[str, str, str]]
    """Of each: its id, its keys, and by what its record is found."""


class ConsumeTrace:
    """The records of one consumer, for `buffer`: a hook, called in the thread or task that calls the handler."""

    def __init__(self, runtime: ClientRuntime, group: str, trace_topic: str) -> None:
        """`group` is as the application knows it."""
        self._group, self._trace_topic, self._clock = group, trace_topic, runtime.clock
        self._ids = UniqueIdGenerator(id_address(runtime.options), os.getpid(), random.getrandbits(32), runtime.clock)
        self.buffer = TraceBuffer()

    def before_consume(self, context: ConsumeHookContext) -> None:
        """A record for each message, but for those that are not to be traced."""
        if context.queue.topic == self._trace_topic:
            return
        call = _Call(self._ids.make(), self._clock.wall_ms(), [])
        for message in context.messages:
            properties = message.properties
            if properties.get(property_names.TRACE_ON) == "false":
                continue
            message_id, keys = message.message_id, properties.get(property_names.KEYS) or NOTHING
            found_by = message_id if keys is NOTHING else f"{message_id} {keys}"
            region = properties.get(property_names.MSG_REGION) or NOTHING
            retries = message.reconsume_times
            text = encode_begun(call.begun_ms, region, self._group, call.request_id, message_id, retries, keys)
            self.buffer.add(text, found_by)
            call.messages.append((message_id, keys, found_by))
        if call.messages:
            context.carried[self] = call

    def after_consume(self, context: ConsumeHookContext) -> None:
        """The same messages, and what became of the call."""
        call = context.carried.get(self)
        if not isinstance(call, _Call):
            return
        now_ms, code = self._clock.wall_ms(), RETURN_TYPES.index(context.return_type)
        cost_ms, is_ok = (now_ms - call.begun_ms) // len(context.messages), context.is_success
        for message_id, keys, found_by in call.messages:
            text = encode_consumed(now_ms, self._group, call.request_id, message_id, cost_ms, is_ok, keys, code)
            self.buffer.add(text, found_by)
