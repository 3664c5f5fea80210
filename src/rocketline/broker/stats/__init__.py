"""Figures, for administrators to ask: counters, throughput, how far consumers are behind, the runtime table.

Counted in passing by `sends`, `pulls` and `clients` (`counters`), or worked out when somebody asks (`consume_progress`,
`consumer_lag`, `runtime_info`). `slow_consumers` is the only one that acts on them.
"""
