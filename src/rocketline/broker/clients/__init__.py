"""Who is connected: members of groups, their locks, and what the broker asks of them.

`memberships` holds who is in which group, for `consumers` and `producers`; `expiry` notices who is gone,
`notifications` tells the others, `client_calls` asks a client something for an administrator, `locks` is for orderly
consumers. Nothing of it is on disk.
"""
