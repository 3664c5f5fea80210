"""Commands for administrators: cluster, topic, group."""
