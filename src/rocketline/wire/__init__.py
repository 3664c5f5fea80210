"""The remoting protocol as a pure library: bytes in, values out, and back. No sockets, no clock, no threads.

`frame` cuts frames out of a stream and makes a `Command` of each, with `header_json` or `header_binary`; `headers` and
`bodies` have typed ones, in fastjson's dialect (`fastjson`) where Java writes it. `connection` is one side's book of
requests and answers. `record_layout` has the fields of a record, `message_codec` reads and writes single ones,
`properties` and `batch` what is in them.
"""
