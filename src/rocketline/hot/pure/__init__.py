"""The hot path in plain Python: what is done to the bytes of each message, and nothing else.

Functions over buffers: parse a request (`send_request`, `pull_request`), read what of a message's properties counts
(`send_properties`), make the bytes of its record (`record`), write its answer (`send_reply`). They know no topic, no
setting, no file and no connection: `broker.sends` and `broker.pulls` decide what is taken, and `store.log_writer` lays
a record out for the log, by `record`. A compiled core gives the same bytes for the same input, function by function.

None means "unusual": the request goes to the handler, which knows everything, and nothing has happened.
"""
