"""The clients: producers, push, pull and lite pull consumers. Java: rocketmq-client.

Each is a core that decides, without a loop or a socket, in a room of its own, and two shells around it, `aio` for
asyncio and `sync` for threads, which start and close them (`aio.shell`, `sync.shell`). From the bottom: the floor
(options, scheduling, validation, received_message, and `lifecycle`, the states that a shell goes through), `runtime`
(what all clients of a process share), `trace` (what they write down of their messages), `producer` and `consumer`,
`rebalance`, `push` and `lite_pull`, then the shells. Applications import from `rocketline` and `rocketline.aio`, not
from here.
"""
