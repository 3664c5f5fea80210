"""The clients: producers, and push, pull, lite pull and simple consumers. Java: rocketmq-client.

Each is a core in a room of its own, and two shells around it, `aio` for asyncio and `sync` for threads, which start
and close it (`aio.shell`, `sync.shell`). Cores own no loop and open no socket: those of producers and pull consumers
decide and never wait, those of push, lite pull and simple consumers work on the runtime's loop. From the bottom: the
floor (options, scheduling, validation, received_message, and `lifecycle`, the states that a shell goes through),
`runtime` (what all clients of a process share), `trace` (what they write down of their messages), `producer` and
`consumer`, `rebalance` and `pop`, `push`, `lite_pull` and `simple`, then the shells. Applications import from
`rocketline` and `rocketline.aio`, not from here.
"""
