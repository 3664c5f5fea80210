"""The broker: takes messages, keeps them, and hands them to consumers. Pure tables, small handlers, one server.

`server` is the whole: `storage` (what is on disk), `services` (what works in the background), `routing` (who answers
what), two ports. Bytes come in by `net.channel` and go first to `hot_path`, which hands plain sends to `sends.hot_path`
and plain pulls to `pulls.hot_path`; what they do not take goes to the handler of its code. Each subject that has a hot
path has a room with both (`sends`, `pulls`); `retries`, `timers`, `transactions` and `pop`
have their handlers inside, and so will `access` and `replication`. `handlers` has the requests of administrators and of
a client's life. `long_work`, `chores`, `request_body` and `filters` are the floor, which every room may import.
"""
