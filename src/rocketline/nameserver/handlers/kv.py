"""PUT_KV_CONFIG (100), GET_KV_CONFIG (101), DELETE_KV_CONFIG (102), GET_KVLIST_BY_NAMESPACE (219)."""

from __future__ import annotations

from rocketline.logs import Throttle
from rocketline.nameserver.kv_config import KvChange, KvConfig
from rocketline.nameserver.kv_saves import KvSaves
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler, failure
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class KvHandlers:
    """The KV configuration, as administrators and brokers use it."""

    def __init__(self, kv: KvConfig, saves: KvSaves, log: Throttle) -> None:
        self._kv, self._saves, self._log = kv, saves, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._list,
        }

    def _put(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.decode(headers.PutKvConfigRequestHeader, request.ext)
        return self._change(channel, request, KvChange(asked.namespace, asked.key, asked.value))

    def _get(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetKvConfigRequestHeader, request.ext)
        value = self._kv.get(asked.namespace, asked.key)
        if value is None:
            return response(ResponseCode.QUERY_NOT_FOUND, f"no value for {asked.key} in namespace {asked.namespace}")
        return response(ResponseCode.SUCCESS, ext=headers.encode(headers.GetKvConfigResponseHeader(value=value)))

    def _delete(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.decode(headers.DeleteKvConfigRequestHeader, request.ext)
        return self._change(channel, request, KvChange(asked.namespace, asked.key))

    def _change(self, channel: Channel, request: Command, change: KvChange) -> Outcome:
        def done(problem: OSError | None) -> None:
            answer = failure(problem, self._log, channel, request) if problem else response(ResponseCode.SUCCESS)
            channel.reply(request, answer)

        if refusal := self._saves.change(change, done):
            return response(ResponseCode.SYSTEM_ERROR, refusal)
        return LATER

    def _list(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetKvListByNamespaceRequestHeader, request.ext)
        body = self._kv.body(asked.namespace)
        if body is None:
            return response(ResponseCode.QUERY_NOT_FOUND, f"namespace {asked.namespace} was never used")
        return response(ResponseCode.SUCCESS, body=body)
