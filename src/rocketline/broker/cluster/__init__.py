"""The broker among others: what name servers are told (`registration`), telling and asking them (`name_servers`), and
where topics live in the whole cluster (`routes`).

A change of a topic comes in by the hook that `server.wire_up` sets, requests leave by `net.remote`. What name servers
make of them is in `nameserver`. Replicas will have a room of their own. `services` alone imports it.
"""
