"""The network: the only package that opens sockets. `Server` accepts, `Remote` dials, both speak by `Channel`.

`channel` is one connection: reading, flow control (when it stops reading, and why), answers of one turn in one write.
`dispatch` finds the handler of a request, `long_work` does what takes long in steps, `turns` lets connections that
bring long work wait for each other. `preamble`, `proxy_protocol` and `tls` are how a connection begins.
"""
