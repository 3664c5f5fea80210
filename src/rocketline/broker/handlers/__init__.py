"""What a broker answers to administrators, and to clients about themselves: one module for a family of requests.

Each module has a class with a table by code; its docstring lists the codes and how it differs from Apache. Sends, pulls
and send-backs are not here but beside their hot paths, in `sends`, `pulls` and `retries`. `routing` gives each family
what it works on, and alone imports them. A handler is a plain function (ADR 1); what takes long is done in steps
(ADR 16).
"""
