"""The name server: brokers tell it what they offer, clients ask it where to find that."""
