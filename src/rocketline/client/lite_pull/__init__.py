"""The lite pull consumer: messages are fetched ahead, the application polls. Java: DefaultLitePullConsumerImpl.

Messages come in by `pull_loop`, wait in `assigned_queues`, and leave by `polling`; `core` knows both ways to get
queues, by subscribing and by assigning. Imported by `aio` and `sync`; imports `rebalance` and below, nothing of `push`.
"""
