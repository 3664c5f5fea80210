"""The remoting protocol as a pure library: bytes in, values out, and back. No sockets, no clock, no threads."""
