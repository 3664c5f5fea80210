"""The push consumer: pull loops, handlers, retries. Java: DefaultMQPushConsumerImpl, ConsumeMessageService.

A message comes in by `pull_loop`, is put into its `ProcessQueue` and cut into `consume_request`s, which `handler_pools`
hands to threads or tasks; `concurrent` and `orderly` take in what handlers returned, and `send_back` asks the broker
for another attempt. `core` puts it together and answers what the runtime asks. Later: `pop_loop`. The shells in `aio`
and `sync` import it; it imports `rebalance` and below.
"""
