"""Pulls: the handler, the hot path that says the same of plain ones (ADR 8), and pulls that wait.

Bytes come in by `hot_path` or `handler`; `checks` says whether a pull is allowed, `reading` reads the queue and notes
where the group is. One that finds nothing waits in `long_poll`, and is woken by what the store dispatches;
`filter_work` shares out the time for those that filter by SQL. Messages leave as the bytes of their records, by the
channel that asked. Offsets are kept in `metadata`. Imported by `routing` and `services`.
"""
