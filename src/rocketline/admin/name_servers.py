"""Name servers: their settings, and the texts that they keep. Each keeps its own, so changes are made in all."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.admin.calls import Calls
from rocketline.errors import ResponseError
from rocketline.settings.properties import format_properties, parse_properties
from rocketline.wire import headers
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListByNamespaceRequestHeader,
    PutKvConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)


class NameServers:
    """`admin.name_servers`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def addresses(self) -> tuple[str, ...]:
        """The name servers that this client asks. Java: getNameServerAddressList."""
        return self._calls.runtime.name_servers

    async def config(self) -> dict[str, dict[str, str]]:
        """The settings of each name server, by its address. Java: getNameServerConfig."""
        answers = await self._calls.tell_name_servers(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: {pair.key: pair.value for pair in parse_properties(answer.body)}
            for address, answer in answers.items()
        }

    async def set_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of all name servers. Java: updateNameServerConfig."""
        body = format_properties(settings).encode()
        await self._calls.tell_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)

    async def value(self, namespace: str, key: str) -> str | None:
        """One of the kept texts. Java: getKVConfig."""
        header = GetKvConfigRequestHeader(namespace=namespace, key=key)
        try:
            answer = await self._calls.ask_name_server(RequestCode.GET_KV_CONFIG, header)
        except ResponseError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return headers.decode(GetKvConfigResponseHeader, answer.ext).value

    async def values(self, namespace: str) -> dict[str, str]:
        """All kept texts of a namespace. Java: getKVListByNamespace."""
        header = GetKvListByNamespaceRequestHeader(namespace=namespace)
        try:
            answer = await self._calls.ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        except ResponseError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return decode_answer(KVTable, answer.body).table

    async def set_value(self, namespace: str, key: str, value: str) -> None:
        """Keep a text in all name servers. Java: createAndUpdateKvConfig."""
        header = PutKvConfigRequestHeader(namespace=namespace, key=key, value=value)
        await self._calls.tell_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def delete_value(self, namespace: str, key: str) -> None:
        """Forget a text in all name servers. Java: deleteKvConfig."""
        header = DeleteKvConfigRequestHeader(namespace=namespace, key=key)
        await self._calls.tell_name_servers(RequestCode.DELETE_KV_CONFIG, header)

    async def forbid_writes(self, broker_name: str) -> dict[str, int]:
        """Let no producer find queues of a broker, as before its end: in how many topics, by name server.

        Holds until the broker registers anew with other topics. Java: wipeWritePermOfBroker.
        """
        header = WipeWritePermOfBrokerRequestHeader(broker_name=broker_name)
        answers = await self._calls.tell_name_servers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return {
            address: headers.decode(WipeWritePermOfBrokerResponseHeader, answer.ext).wipe_topic_count
            for address, answer in answers.items()
        }

    async def allow_writes(self, broker_name: str) -> dict[str, int]:
        """Undo `forbid_writes`. Java: addWritePermOfBroker."""
        header = AddWritePermOfBrokerRequestHeader(broker_name=broker_name)
        answers = await self._calls.tell_name_servers(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return {
            address: headers.decode(AddWritePermOfBrokerResponseHeader, answer.ext).add_topic_count
            for address, answer in answers.items()
        }
