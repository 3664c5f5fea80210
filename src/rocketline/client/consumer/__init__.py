"""What all consumers have in common, whoever asks for messages and whoever calls handlers.

Subscriptions, pulls and what their answers mean, the messages of a queue that are not done with (`process_queue`),
where offsets are kept, hooks and figures. Which queues are ours is decided in `rebalance`; what happens to a message in
`push`, `lite_pull` and `simple`. Messages come in by `pulls`, and go up from there.
"""
