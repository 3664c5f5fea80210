"""PUT_KV_CONFIG (100), GET_KV_CONFIG (101), DELETE_KV_CONFIG (102), GET_KVLIST_BY_NAMESPACE (219)."""

from __future__ import annotations

from rocketline.nameserver.kv_config import KvConfig
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class KvHandlers:
    """The KV configuration, as administrators and brokers use it."""

    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._list,
        }

    def _put(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.PutKvConfigRequestHeader, request.ext)
        self._kv.put(asked.namespace, asked.key, asked.value)
        return response(ResponseCode.SUCCESS)

    def _get(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetKvConfigRequestHeader, request.ext)
        value = self._kv.get(asked.namespace, asked.key)
        if value is None:
            return response(ResponseCode.QUERY_NOT_FOUND, f"no value for {asked.key} in namespace {asked.namespace}")
        return response(ResponseCode.SUCCESS, ext=headers.encode(headers.GetKvConfigResponseHeader(value=value)))

    def _delete(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.DeleteKvConfigRequestHeader, request.ext)
        self._kv.delete(asked.namespace, asked.key)
        return response(ResponseCode.SUCCESS)

    def _list(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetKvListByNamespaceRequestHeader, request.ext)
        table = self._kv.table(asked.namespace)
        if table is None:
            return response(ResponseCode.QUERY_NOT_FOUND, f"namespace {asked.namespace} was never used")
        return response(ResponseCode.SUCCESS, body=encode(KVTable(dict(table))))
