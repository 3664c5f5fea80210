"""The network: the only package that opens sockets. `Server` accepts, `Remote` dials, both speak by `Channel`."""
