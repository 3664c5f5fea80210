"""The name server: brokers tell it what they offer, clients ask it where to find that.

`route_table` has all of it, pure; `registration` is what a broker says, `liveness` notices one that is lost,
`unregistration` takes it out, `route_answers` keeps finished answers. `limits` says how much of what strangers register
is believed, `kv_config` is the KV configuration, `server` the whole. What is asked comes in by `handlers`. How brokers
register is in `broker.cluster`, how clients ask in `client.runtime`; this imports neither.
"""
