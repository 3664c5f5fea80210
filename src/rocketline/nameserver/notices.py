"""NOTIFY_MIN_BROKER_ID_CHANGE (905): brokers are told which of them has the smallest id now and may act as master."""

from __future__ import annotations

import ssl

from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.nameserver.registration import MinBrokerIdChange
from rocketline.net.background import Background
from rocketline.net.remote import Remote
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

NOTICE_TIMEOUT_S = 0.3
"""A broker that cannot be told within this time finds out when it next asks for its group."""


class Notices:
    """Sends each notice to the brokers' own addresses, one-way. Use it as `async with`.

    At most `unsent_max` are on their way; one more is dropped, with a line in the log.
    """

    def __init__(self, *, unsent_max: int, tls: ssl.SSLContext | None, clock: Clock, log: Throttle) -> None:
        self._tls, self._clock, self._log = tls, clock, log
        self._unsent = Background(unsent_max)

    async def __aenter__(self) -> Notices:
        await self._unsent.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Drop what is not sent yet."""
        await self._unsent.__aexit__()

    def send(self, change: MinBrokerIdChange) -> None:
        """Start telling every recipient; once closed, tell nobody."""
        header = headers.NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=change.min_broker_id,
            min_broker_addr=change.min_broker_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        for address in change.recipients:
            notice = Command(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, headers.encode(header))
            if not self._unsent.start(self._tell, address, notice):
                self._log.warning("notice dropped", f"{len(self._unsent)} are on their way", broker=address)
                return

    async def _tell(self, address: str, notice: Command) -> None:
        try:
            async with Remote(address, tls=self._tls, connect_timeout_s=NOTICE_TIMEOUT_S, clock=self._clock) as broker:
                await broker.send_oneway(notice, NOTICE_TIMEOUT_S)
        except (RocketlineError, OSError, ValueError) as error:
            # A broker may have registered any text as its address; UnicodeError is what some host names give.
            self._log.warning("notice not delivered", str(error), broker=address)
