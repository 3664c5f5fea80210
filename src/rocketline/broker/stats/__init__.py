"""Figures, for administrators to ask: counters, throughput, how far consumers are behind, the runtime table.

Counted in passing by whoever handles messages (`counters`), or worked out when somebody asks (`consume_progress`,
`consumer_lag`, `runtime_info`); they leave by `handlers.stats` and `handlers.consume_stats`. `slow_consumers` is the
only one that acts on them. Imports `clients` and below.
"""
