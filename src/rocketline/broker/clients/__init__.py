"""Who is connected: members of groups, their locks, and what the broker asks of them.

`memberships` holds who is in which group, for `consumers` and `producers`; `expiry` notices who is gone,
`notifications` tells the others, `client_calls` asks a client something for an administrator, `pushes` hands clients
what they have to answer, `locks` is for orderly consumers. Nothing of it is on disk. Clients come in by
`handlers.heartbeats` and go when their connection does; what the broker says to them leaves by their channels.
Imports only the floor of `broker`.
"""
