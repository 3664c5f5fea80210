"""Values that every layer speaks of: messages, queues, topics, groups, routes, subscriptions, names and flags.

They hold data, check what they hold, and know nothing of bytes, files or sockets. What they look like as bytes is
`wire`'s.
"""
