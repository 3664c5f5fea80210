"""A simple consumer without a shell: what its asyncio and its blocking form share, on the runtime's loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.filter_check import check_filters
from rocketline.client.consumer.hooks import ConsumeHookContext, ConsumeHooks
from rocketline.client.consumer.subscriptions import MessageSelector, Subscriptions
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.pops import COUNT_MAX, PopPlan, Pops
from rocketline.client.pop.settling import Failures, Settling, each_of, retry_delay_s
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.scheduling import Stoppable
from rocketline.client.simple.held_messages import HeldMessages
from rocketline.client.simple.options import INVISIBLE_MAX_S, INVISIBLE_MIN_S, SimpleOptions
from rocketline.client.simple.receiving import Receiving, Wish
from rocketline.client.simple.sources import POLL_S, Watches
from rocketline.client.validation import check_topic
from rocketline.errors import (
    ClosedError,
    HandleError,
    InvalidFilterError,
    NoPopError,
    RocketlineError,
    TransportError,
    UnsettledError,
)
from rocketline.logs import Throttle
from rocketline.model.subscription import ConsumeFromWhere

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_ACK_PAUSE_S: Final = 0.5
"""Between attempts to acknowledge what a `with` block has done, while its message is still ours."""


class SimpleCore:
    """Works from `begin` to `end`. Topics are as applications name them."""

    def __init__(self, runtime: ClientRuntime, group: str, options: SimpleOptions) -> None:
        self._runtime, self._options = runtime, options
        self.group = runtime.with_namespace(group)
        """As on the wire."""
        self._subscriptions = Subscriptions(runtime.clock)
        self._throttle = Throttle(runtime.clock, name=__name__)
        plan = PopPlan(
            self.group,
            namespace=runtime.namespace,
            filter_hooks=options.filter_hooks,
            unit_mode=options.unit_mode,
        )
        timeout_s = options.api_timeout_s
        self._settling = Settling(runtime, self.group, timeout_s=timeout_s)
        self._receiving = Receiving(
            runtime,
            self._subscriptions,
            Pops(runtime, plan),
            self._settling,
            Watches(runtime, self.group, self._subscriptions, self._throttle, timeout_s=timeout_s),
            max_attempts=options.max_attempts,
            throttle=self._throttle,
        )
        self._held = HeldMessages(
            runtime, self._settling, self._throttle, invisible_s=options.invisible_s, max_s=options.extend_max_s
        )
        self._hooks = ConsumeHooks(options.consume_hooks, self._throttle)
        self._from_first = options.consume_from is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        self._routes: Stoppable | None = None
        self._is_running = False

    # --- life

    async def begin(self) -> None:
        """Find routes, and keep them up to date. Raises `TransportError` or `NoNameServerError` if topics are
        subscribed and no name server answers, `InvalidFilterError` if a broker refuses an expression."""
        self._is_running = True
        self._receiving.open()
        for topic in list(self._subscriptions):
            await self._runtime.look_for_route(topic)
        await check_filters(self._runtime, self.group, self._subscriptions.values())
        period_s = self._options.route_period_s
        self._routes = self._runtime.every(period_s, period_s, self._update_routes, name=f"routes of {self.group}")

    async def end(self, owner: object) -> None:
        """Receive no more, and let others than `owner` end what they work on."""
        self._is_running = False
        self._receiving.close()
        if self._routes is not None:
            self._routes.cancel()
        if not await self._held.settled(owner, self._options.close_wait_s):
            told = "what they do counts no more, and their messages come again"
            self._throttle.warning("consumer closed while others work", told, group=self.group)
        self._held.close()
        self._throttle.flush()

    async def _update_routes(self) -> None:
        for topic in list(self._subscriptions):
            try:
                await self._runtime.update_route(topic)
            except RocketlineError as error:
                self._throttle.warning("route not known", "it is asked for again", topic=topic, problem=error)

    # --- what to receive

    def subscribe(self, topic: str, selector: MessageSelector | str | None) -> None:
        """Raises `InvalidNameError`, `ClientError`."""
        check_topic(topic)
        on_wire = self._runtime.with_namespace(topic)
        self._subscriptions.put(on_wire, selector)
        if self._is_running:
            self._runtime.spawn(self._look_up(on_wire), name=f"subscribe to {topic}")

    async def _look_up(self, topic: str) -> None:
        try:
            await self._runtime.update_route(topic)
            await check_filters(self._runtime, self.group, [self._subscriptions[topic]])
        except InvalidFilterError as error:  # whoever subscribed is gone by now; pops will be refused
            self._throttle.error("subscription by SQL is refused", str(error), topic=topic)
        except (RocketlineError, KeyError) as error:
            self._throttle.warning("route not known", "it is asked for again soon", topic=topic, problem=error)

    def unsubscribe(self, topic: str) -> None:
        self._subscriptions.remove(self._runtime.with_namespace(topic))

    # --- receiving

    async def receive(self, count_max: int, invisible_s: float | None, wait_s: float | None) -> list[PoppedMessage]:
        """Raises `ValueError` for what cannot be asked, and like `Receiving.receive`."""
        if not 1 <= count_max <= COUNT_MAX:
            raise ValueError(f"count_max={count_max}: brokers hand out 1 to {COUNT_MAX} messages at once")
        wait_s = self._options.wait_s if wait_s is None else wait_s
        if not wait_s >= 0:
            raise ValueError(f"wait_s={wait_s}: a wait cannot end before it begins; 0 looks and does not wait")
        wish = Wish(count_max, self._invisible_s(invisible_s, INVISIBLE_MIN_S), self._from_first)
        return await self._receiving.receive(wish, wait_s)

    def _invisible_s(self, given_s: float | None, low_s: float) -> float:
        if given_s is None:
            return self._options.invisible_s
        if not low_s <= given_s <= INVISIBLE_MAX_S:
            raise ValueError(f"{given_s} s: messages can be invisible for {low_s:g} to {INVISIBLE_MAX_S:g} s")
        return given_s

    async def next(self) -> PoppedMessage | None:
        """One message, whenever it comes; None once the consumer is closed. What may pass is waited for, and logged.

        Raises `NoPopError`, `ClosedError`, and `ClientError` if nothing is subscribed to.
        """
        while self._is_running:
            try:
                if messages := await self._receiving.receive(self._one(), POLL_S):
                    return messages[0]
            except ClosedError:
                if self._is_running:
                    raise
            except (NoPopError, InvalidFilterError):
                raise
            except RocketlineError as error:
                if not self._subscriptions:
                    raise
                self._throttle.warning("nothing received", "it is tried again soon", group=self.group, problem=error)
                await self._runtime.sleep(self._options.pull_pause_s)
        return None

    def _one(self) -> Wish:
        return Wish(1, self._options.invisible_s, self._from_first)

    # --- what became of messages

    async def ack(self, given: ReceivedMessage | Sequence[ReceivedMessage]) -> None:
        """Raises `HandleError`, what the broker or the network says, and for several `UnsettledError`."""
        await self._settle(given, "acknowledged", self._settling.ack_all)

    async def extend(self, given: ReceivedMessage | Sequence[ReceivedMessage], invisible_s: float | None) -> None:
        """The same, and `ValueError`."""
        seconds = self._invisible_s(invisible_s, INVISIBLE_MIN_S)
        await self._settle(given, "extended", _each(lambda message: self._settling.hide(message, seconds)))

    async def nack(self, given: ReceivedMessage | Sequence[ReceivedMessage], delay_s: float | None) -> None:
        """The same."""
        if delay_s is not None:
            self._invisible_s(delay_s, 0.0)

        def give_back(message: PoppedMessage) -> Awaitable[None]:
            return self._settling.give_back(message, retry_delay_s(message) if delay_s is None else delay_s)

        await self._settle(given, "given back", _each(give_back))

    async def _settle(
        self,
        given: ReceivedMessage | Sequence[ReceivedMessage],
        what: str,
        work: Callable[[Sequence[PoppedMessage]], Awaitable[Failures]],
    ) -> None:
        """Do the work on those that are ours, and raise what was wrong with the others. Those that are ours still, and
        that somebody works on, are extended further by themselves."""
        messages = [given] if isinstance(given, ReceivedMessage) else list(given)
        failures: list[tuple[ReceivedMessage, RocketlineError]] = []
        ours: list[PoppedMessage] = []
        for message in messages:
            try:
                ours.append(self._checked(message))
            except HandleError as error:
                failures.append((message, error))
        for message in ours:
            await self._held.stop(message)
        failures += await work(ours)
        for message in ours:
            if not message.is_settled:
                self._held.go_on(message)
        if failures:
            first = failures[0][1]
            if len(messages) == 1:
                raise first
            told = [(message.message_id, failure) for message, failure in failures]
            raise UnsettledError(what, told, len(messages)) from first

    def _checked(self, message: ReceivedMessage) -> PoppedMessage:
        if not isinstance(message, PoppedMessage):
            raise HandleError(message.message_id, "it was not received by a simple consumer")
        message.check_open(self.group, self._runtime.clock.monotonic())
        return message

    # --- blocks

    def begin_call(self, message: PoppedMessage) -> ConsumeHookContext | None:
        """Tell the hooks, if there are any, of a block that begins in this thread or task."""
        if not self._hooks:
            return None
        context = ConsumeHookContext(self.group, self._runtime.namespace, message.queue, (message,))
        self._hooks.before(context)
        return context

    def end_call(self, context: ConsumeHookContext | None, error: BaseException | None) -> None:
        """Tell them that it has ended, in the same thread or task."""
        if context is not None:
            context.is_success = error is None
            context.status = "SUCCESS" if error is None else "RETRY_LATER"
            context.return_type = "SUCCESS" if error is None else "EXCEPTION"
            self._hooks.after(context)

    def hold(self, message: PoppedMessage, owner: object) -> None:
        """Somebody begins to work on it."""
        self._held.hold(message, owner)

    async def end_work(self, message: PoppedMessage, error: BaseException | None) -> None:
        """Somebody has ended: well, so it is acknowledged; or not, and it is given back, at once if it was not the
        work that failed. Unless he has said himself what became of it. Raises nothing but the end of the runtime."""
        try:
            await self._held.stop(message)
            if message.is_settled:
                return
            if error is None:
                await self._ack_for_sure(message)
            else:
                await self.nack(message, None if isinstance(error, Exception) else 0.0)
        except RocketlineError as problem:
            what = "acknowledged" if error is None else "given back"
            self._throttle.error(f"message not {what}", "it comes again", popped=message, problem=problem)
        finally:
            self._held.let_go(message)

    async def _ack_for_sure(self, message: PoppedMessage) -> None:
        """Try while it is ours: the work is done, and would be done again."""
        while True:
            try:
                await self.ack(message)
            except TransportError as error:
                self._throttle.warning("message not acknowledged", "it is tried again", popped=message, problem=error)
                await self._runtime.sleep(_ACK_PAUSE_S)
            else:
                return


def _each(
    work: Callable[[PoppedMessage], Awaitable[None]],
) -> Callable[[Sequence[PoppedMessage]], Awaitable[Failures]]:
    """The work on several messages that does this to each."""
    return lambda messages: each_of(messages, work)
