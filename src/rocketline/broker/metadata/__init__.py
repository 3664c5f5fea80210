"""The broker's tables on disk: topics, groups, offsets, request modes. Java: ConfigManager and its kin.

`topics` and `groups` also make what somebody uses and nobody made, if settings allow it. Every change of them is in a
journal before it shows (`saved_table`, ADR 17); tables are written behind by `saving`. `assignment` shares queues out
for clients that let the broker do it; clients that do it themselves have `client.rebalance.allocation`. Pure but for
the file system that they are given. Below every other room, and imports none.
"""
