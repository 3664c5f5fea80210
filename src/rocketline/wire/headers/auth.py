"""Headers of the commands about users and access rules, of today (AUTH_…) and of before 5.3.3 (ACL_CONFIG)."""

from __future__ import annotations

from rocketline.wire.headers.fields import Header, header


@header
class CreateUserRequestHeader(Header):
    """AUTH_CREATE_USER (3001)."""

    username: str | None = None


@header
class UpdateUserRequestHeader(Header):
    """AUTH_UPDATE_USER (3002)."""

    username: str | None = None


@header
class DeleteUserRequestHeader(Header):
    """AUTH_DELETE_USER (3003)."""

    username: str | None = None


@header
class GetUserRequestHeader(Header):
    """AUTH_GET_USER (3004)."""

    username: str | None = None


@header
class ListUsersRequestHeader(Header):
    """AUTH_LIST_USER (3005)."""

    filter: str | None = None


@header
class CreateAclRequestHeader(Header):
    """AUTH_CREATE_ACL (3006)."""

    subject: str | None = None
    """User:name."""


@header
class UpdateAclRequestHeader(Header):
    """AUTH_UPDATE_ACL (3007)."""

    subject: str | None = None


@header
class DeleteAclRequestHeader(Header):
    """AUTH_DELETE_ACL (3008)."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@header
class GetAclRequestHeader(Header):
    """AUTH_GET_ACL (3009)."""

    subject: str | None = None


@header
class ListAclsRequestHeader(Header):
    """AUTH_LIST_ACL (3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None


@header
class CreateAccessConfigRequestHeader(Header):
    """UPDATE_AND_CREATE_ACL_CONFIG (50)."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    """name=PERM, joined by commas; so are `group_perms`."""
    group_perms: str | None = None


@header
class DeleteAccessConfigRequestHeader(Header):
    """DELETE_ACL_CONFIG (51)."""

    access_key: str


@header
class UpdateGlobalWhiteAddrsConfigRequestHeader(Header):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""

    global_white_addrs: str
    acl_file_full_path: str


@header
class GetBrokerAclConfigResponseHeader(Header):
    """The answer to GET_BROKER_CLUSTER_ACL_INFO (52)."""

    version: str | None = None
    all_acl_file_version: str | None = None
    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
