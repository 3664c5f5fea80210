"""Every request that a broker serves, with every field as it should not be."""

from __future__ import annotations

from collections.abc import Iterator

from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import REQUEST_HEADERS

NUMBERS = ("abc", "", "1.5", " 1", "0x10", "99999999999", "-1", "-5", "2147483647", "9223372036854775807", "9" * 5000)
TEXTS = (
    "", "bad name/../..", "\0", "\ud800", "x" * 10_240, "x" * 200, "a\nb", "T@g", "nope", "TBW102", "%RETRY%",
    "%RETRY%g",
    "%DLQ%", "SCHEDULE_TOPIC_XXXX", "DELAY\x01abc\x02", "KEYS\x01\ud800\x02", "\x01\x02\x02",
)  # fmt: skip
BODIES = (
    b"", b"null", b"1", b"[]", b"{}", b"{", b"\xff\xfe", b"[" * 50_000, b'{"a":' * 2000 + b"}" * 2000,
    b'{"$ref":"$"}', b"{{}:1}",
    b'{"topic":{},"consumerGroup":[],"clientId":1,"mqSet":[null,1,{"$ref":"$"}]}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
    b'{"topicConfigList":[{"topicName":null}],"groupConfigList":[{}],"groupName":"\\ud800","retryQueueNums":99999999999}',
    b"listenPort=abc\n\0=\xff\n\\u00", bytes(22), b"\0\0\0\x16" + bytes(18), b"\x7f\xff\xff\xff" + bytes(30),
)  # fmt: skip
USUAL = {
    "topic": "T", "consumerGroup": "g", "producerGroup": "p", "group": "g", "queueId": "0", "queueOffset": "0",
    "offset": "0",
    "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    "timestamp": "0",
    "subscription": "*", "isForce": "true", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "bornTimestamp": "1",
    "flag": "0", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "order": "false",
    "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9", "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "T",
    "index": "0", "count": "9", "srcGroup": "g", "destGroup": "h", "compareGroup": "g", "clientID": "c",
    "groupName": "h",
    "isOrder": "false", "delayLevel": "0",
    "extraInfo": "0 1700000000000 10000 0 0 broker-a 0 0", "invisibleTime": "1000", "pollTime": "0", "bornTime": "0",
    "initMode": "0",
    "a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
}  # fmt: skip


def usual_fields(code: int) -> dict[str, str]:
    """Fields of a request that nothing is wrong with. A pop is of no message: else the next one would find another."""
    cls = REQUEST_HEADERS.get(code)
    usual = USUAL | {"maxMsgNums": "0"} if code == RequestCode.POP_MESSAGE else USUAL
    return {field.name: usual[field.name] for field in cls.reading if field.name in usual} if cls is not None else {}


def bad_requests(code: int) -> Iterator[Command]:
    """One field missing or wrong at a time; no field at all; the usual fields with a body that means nothing."""
    cls = REQUEST_HEADERS.get(code)
    fields = {field.name: field.expected for field in cls.reading} if cls is not None else {}
    usual = usual_fields(code)
    yield Command(code, body=b"x")
    for name, expected in fields.items():
        yield Command(code, {key: text for key, text in usual.items() if key != name}, b"x")
        if (code, name) == (RequestCode.POP_MESSAGE, "pollTime"):  # it would wait for as long
            continue
        for text in NUMBERS if "number" in expected else TEXTS:
            yield Command(code, {**usual, name: text}, b"x" if code in (*SENDS, *REPLIES) else b"")
    for body in BODIES:
        yield Command(code, dict(usual), body)
        if code in SENDS:
            yield Command(code, {**usual, "batch": "true", "m": "true"}, body)


SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
SERVED = (
    10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46, 60, 61, 200,
    201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306, 307, 308, 309, 310, 314, 315, 316, 317, 320,
    321, 323, 324, 325, 328, 329, 343, 345, 351, 352, 353, 361, 370, 400, 401, 402,
    200050, 200051, 200052, 200053, 200054, 200055, 200151,
)  # fmt: skip
