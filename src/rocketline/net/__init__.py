"""The network: sockets on a loop. `Server` accepts, `Remote` dials, both speak by `Channel`.

`channel` is one connection: reading, and the answers of one turn in one write. `read_gate` is its flow control: when it
stops reading and handling, why, and when it goes on. `dispatch` finds the handler of a request, `long_work` does what
takes long in steps, `turns` lets connections that bring long work wait for each other. `preamble`, `proxy_protocol` and
`tls` are how a connection begins. `background` is what goes on behind the requests, `saves` a part of it.

Bytes become frames in `wire`, and what a frame asks for is done by the handlers of `broker` and `nameserver`, which
build on this as the clients do. Blocking calls have sockets of their own (`client.sync.connections`, ADR 12).
"""
