"""The message store: an Apache-compatible commit log with its queues, key index, checkpoint and metadata files.

Nothing here knows asyncio, sockets or threads. The file system (`filesystem.FileSystem`) and the clock are handed in,
so a test can lose power at any write and turn the time by hand.

`message_store` is the whole, `store_reader` its read side. A record comes in by `log_writer`, is written to `log`, then
dispatched to `queues` and `index_builder`, and leaves by `reading`. `recovery` brings them into agreement when a store
is opened, by the `derivation` of queues from the log, and leaves a `queue_doctor` who goes on with that all day, and an
`end_proof` if nobody has noted how queues ended. `inspection` is `rocketline store check` and `repair`. From the
bottom: `filesystem`, `files`, `log` and `index`, `queues`, then the modules that join them. `timers` says which
messages wait until when; it stands beside them.
"""
