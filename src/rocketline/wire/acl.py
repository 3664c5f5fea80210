"""Signatures of requests: who asks, and that nobody changed the request on its way.

HMAC-SHA1 over the values of all extension fields, in the order of their names, and the body. Both access control
lists of Apache (1.0 and 2.0) use it. Every field counts: what is added after signing breaks the signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from rocketline.wire.codes import V4_9_3
from rocketline.wire.command import Command

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  # a field's name
SIGNATURE = "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are. Java: SessionCredentials; for access control 2.0 the access key is the user's name."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def sign(command: Command, credentials: Credentials) -> None:
    """Add access key, token and signature to the fields of `command`, which must be complete."""
    command.ext[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        command.ext[SECURITY_TOKEN] = credentials.security_token
    command.ext[SIGNATURE] = signature(signed_content(command), credentials.secret_key)


def is_signed_with(command: Command, secret_key: str) -> bool:
    """The signature in `command` was made with `secret_key`. Takes the same time however much of it is right."""
    claimed = command.ext.get(SIGNATURE, "").encode("utf-8", "replace")
    return hmac.compare_digest(signature(signed_content(command), secret_key).encode(), claimed)


def signature(content: bytes, secret_key: str) -> str:
    """The Base64 text of the HMAC-SHA1 of `content`.

    >>> signature(b"rocketmq20TopicTest", "12345678")
    'WcNHAIxSTdP81yH0rSPg25keg+g='
    """
    key = secret_key.encode("utf-8", "replace")
    return base64.b64encode(hmac.digest(key, content, hashlib.sha1)).decode()


def signed_content(command: Command) -> bytes:
    """The bytes under the signature of `command`: all its fields' values but the signature itself, then its body.

    Releases up to 4.9.3 add the mark of a query by unique key after they signed, so it does not count there.
    """
    ext = command.ext
    unsigned = {SIGNATURE, UNIQUE_KEY_QUERY} if command.version <= V4_9_3 else {SIGNATURE}
    values = "".join([ext[name] for name in _in_java_order(ext) if name not in unsigned])
    return values.encode("utf-8", "replace") + command.body


def _in_java_order(names: Iterable[str]) -> list[str]:
    """Sorted by UTF-16 units: Java puts what lies beyond the first 65,536 characters before U+E000."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
