"""Users and their permissions (5.3 and newer)."""

from __future__ import annotations

from dataclasses import field

from rocketline.record import record


@record
class UserInfo:
    """A user; absent fields stay as they are in an update. Java: UserInfo."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    user_type: str | None = None
    """`Super` or `Normal`."""
    user_status: str | None = None
    """`enable` or `disable`."""


@record
class PolicyEntryInfo:
    """What may, or may not, be done with a resource, and from where. Java: AclInfo.PolicyEntryInfo."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None
    """`Allow` or `Deny`."""


@record
class PolicyInfo:
    """Entries of one kind. Java: AclInfo.PolicyInfo."""

    policy_type: str | None = None
    """`Custom` or `Default`."""
    entries: list[PolicyEntryInfo] | None = None


@record
class AclInfo:
    """The policies of a subject, `User:name`. Java: AclInfo."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None
