"""What the name server answers: one module per subject, one method per request code, one dict from code to method.

A request comes in by `net.dispatch`, as a `Command`, and leaves as one. Handlers read headers, check and answer; the
tables that they ask are in `nameserver`, whose `server` alone imports them.
"""
