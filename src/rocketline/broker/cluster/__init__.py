"""The broker among others: what name servers are told (`registration`), telling and asking them (`name_servers`), and
where topics live in the whole cluster (`routes`). Replicas will have a room of their own.
"""
