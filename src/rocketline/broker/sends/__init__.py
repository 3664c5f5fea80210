"""A producer's messages: the handler, and the hot path that says the same of plain ones (ADR 8).

Bytes come in by `hot_path`, which takes runs of plain sends (`hot_decisions` says which) and hands them to the store's
log writer; whatever it does not know goes to `handler`, which checks in Apache's order (`checks`) and stores by
`storing.put`. Both answer the same and store the same. Replies to requests go by `replies` to the client that asked.
Who decides when a half message or a timer message counts is elsewhere: `transactions`, `timers`. Imported by
`routing`.
"""
